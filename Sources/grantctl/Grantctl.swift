import ArgumentParser
import BrokerAPI
import Glibc

@main
struct Grantctl: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "grantctl",
    abstract: "Manage the accounts and tokens of the grantd OAuth broker.",
    discussion: """
      grantd keeps your accounts' grants and refreshes their tokens; grantctl talks to it.

      Examples:
        grantctl login google work        sign in at “google”, as account “work”
        grantctl token work               print an access token that is valid now
        grantctl status                   how the broker and the accounts are
        grantctl doctor                   what is wrong, and what to do

      Exit status:
      \(ExitStatus.table)
      """,
    version: GrantdVersion.current,
    subcommands: [KeepTokenCommand.self],
    groupedSubcommands: [
      CommandGroup(
        name: "Login",
        subcommands: [
          SetupCommand.self, LoginCommand.self, LogoutCommand.self, ImportCommand.self, HandleURLCommand.self,
        ]),
      CommandGroup(
        name: "Token",
        subcommands: [
          TokenCommand.self, RefreshCommand.self, ExchangeCommand.self, IntrospectCommand.self, ProofCommand.self,
          RequestCommand.self, HelperCommand.self, ConfigureCommand.self, ExecCommand.self, SASLCommand.self,
        ]),
      CommandGroup(
        name: "Account",
        subcommands: [
          ListCommand.self, ShowCommand.self, UserinfoCommand.self, SessionsCommand.self, ProvidersCommand.self,
          ProviderCommand.self, ClientMetadataCommand.self,
        ]),
      CommandGroup(
        name: "Broker",
        subcommands: [
          StatusCommand.self, DoctorCommand.self, ExplainCommand.self, ApproveCommand.self, AuditCommand.self,
          MetricsCommand.self, EventsCommand.self,
          ReloadCommand.self, KeyCommand.self, BackupCommand.self, RestoreCommand.self, RepairCommand.self,
          CallCommand.self, OpenRPCCommand.self, VersionCommand.self,
        ]),
    ])

  static func main() async {
    let arguments = GlobalOptions.moved(Array(CommandLine.arguments.dropFirst()))
    CoreDumps.forbid(isFinal: arguments.first != ExecCommand.configuration.commandName)
    ProcessFront.begin()
    if arguments.first == KeepTokenCommand.configuration.commandName { ProcessExec.leaveOrphan() }
    if let start = HelperCommand.Start(CommandLine.arguments) {
      Glibc.exit(await start.perform(in: .ofProcess()).rawValue)
    }
    do {
      var command = try parseAsRoot(arguments)
      if var command = command as? any AsyncParsableCommand {
        try await command.run()
      } else {
        try command.run()
      }
    } catch {
      guard exitCode(for: error) == .validationFailure, !(error is ExitCode) else { exit(withError: error) }
      let terminal = Terminal.ofProcess()
      terminal.write(.err, await UsageHints.text(error, arguments, terminal) + "\n")
      Glibc.exit(ExitStatus.usage.rawValue)
    }
  }
}
