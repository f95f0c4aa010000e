import ArgumentParser
import BrokerAPI
import Glibc

@main
struct Grantctl: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "grantctl",
    abstract: "Manage the accounts and tokens of the grantd OAuth broker.",
    discussion: """
      grantd stores OAuth grants and refreshes their tokens. It returns tokens to programs that the policy admits.

      Examples:
        grantctl login google work        sign in at “google”, as account “work”
        grantctl token work               print a valid access token
        grantctl status                   show the broker and the accounts
        grantctl doctor                   find problems, with the fix for each

      Exit status:
      \(ExitStatus.table)
      """,
    version: GrantdVersion.current,
    subcommands: [KeepTokenCommand.self],
    groupedSubcommands: [
      CommandGroup(
        name: "Get started",
        subcommands: [
          SetupCommand.self, LoginCommand.self, UICommand.self, StatusCommand.self, DoctorCommand.self,
          LogoutCommand.self,
        ]),
      CommandGroup(
        name: "Use tokens",
        subcommands: [
          TokenCommand.self, ExecCommand.self, RequestCommand.self, ConfigureCommand.self, SASLCommand.self,
        ]),
      CommandGroup(
        name: "Accounts",
        subcommands: [
          ListCommand.self, ShowCommand.self, RefreshCommand.self, ImportCommand.self, SessionsCommand.self,
          LoginListCommand.self, LoginContinueCommand.self, LoginCancelCommand.self,
        ]),
      CommandGroup(
        name: "OAuth tools",
        subcommands: [UserinfoCommand.self, IntrospectCommand.self, ExchangeCommand.self, ProofCommand.self]),
      CommandGroup(
        name: "Access",
        subcommands: [
          ExplainCommand.self, ApproveCommand.self, AuditCommand.self, LockCommand.self, UnlockCommand.self,
        ]),
      CommandGroup(name: "Providers", subcommands: [ProviderCommand.self, ClientMetadataCommand.self]),
      CommandGroup(
        name: "Administration",
        subcommands: [
          ReloadCommand.self, BackupCommand.self, RestoreCommand.self, KeyCommand.self, RepairCommand.self,
          EventsCommand.self, MetricsCommand.self, VersionCommand.self,
        ]),
      CommandGroup(name: "Programming", subcommands: [CallCommand.self, OpenRPCCommand.self]),
      CommandGroup(
        name: "Called by programs", subcommands: [HelperCommand.self, MCPCommand.self, HandleURLCommand.self]),
    ])

  static func main() async {
    let given = Array(CommandLine.arguments.dropFirst())
    if let names = CompletionNames(given, in: .ofProcess()) { return names.show(given) }
    let arguments = GlobalOptions.moved(given)
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
