import ArgumentParser
import BrokerAPI
import BrokerSocket
import CredentialHelpers

struct HelperCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "helper", abstract: "Serve as a credential helper.",
    usage: "grantctl helper <name> [--account <name>] [--id-token] [<argument> ...]",
    discussion: """
      Programs start this; docs/helpers.md and `grantctl configure` have their configuration. The accounts of hosts \
      are in ~/.config/grantd/helper.toml, for all users in /etc/grantd/helper.toml.

      Names: \(Protocols.names.joined(separator: ", "))

      Examples:
        git config --global credential.helper '!grantctl helper git'
        echo registry.example.com | grantctl helper docker get
      """)

  @OptionGroup var options: GlobalOptions
  @Argument(parsing: .captureForPassthrough, help: "The name of the protocol, and what the program adds.")
  var words: [String] = []

  func validate() throws {
    if let word = words.first, ["--help", "-h"].contains(word) { throw CleanExit.helpRequest(Self.self) }
  }

  func run(in shell: Shell) async throws(Failure) {
    guard let name = words.first, let chosen = Protocols.named(name) else {
      throw Failure(
        .usage, words.first.map { "there is no helper \(SafeText.line($0))" } ?? "the name of a helper is missing",
        hints: ["There are: \(Protocols.names.joined(separator: ", "))"])
    }
    try await Self.run(chosen, Array(words.dropFirst()), in: shell)
  }

  /// A helper's start that needs no parser of commands, which takes longer than all the rest: by `argv[0]`, or as
  /// `grantctl helper NAME`.
  struct Start: Sendable {
    let chosen: any CredentialProtocol.Type
    let arguments: [String]

    init?(_ words: [String]) {
      let name = words.first?.split(separator: "/").last.map(String.init) ?? ""
      if let chosen = Protocols.program(name) {
        (self.chosen, arguments) = (chosen, Array(words.dropFirst()))
      } else if words.count > 2, words[1] == HelperCommand.configuration.commandName,
        let chosen = Protocols.named(words[2])
      {
        (self.chosen, arguments) = (chosen, Array(words.dropFirst(3)))
      } else {
        return nil
      }
    }

    func perform(in terminal: Terminal) async -> ExitStatus {
      do throws(Failure) {
        try await HelperCommand.run(chosen, arguments, in: Shell(terminal: terminal, settings: .init()))
        return .success
      } catch {
        return error.status
      }
    }
  }

  private static func run(
    _ chosen: any CredentialProtocol.Type, _ arguments: [String], in shell: Shell
  ) async throws(Failure) {
    var shell = shell
    let options = HelperArguments(arguments, of: chosen)
    if options.wish != SocketChoice.Wish() { shell.settings.wish = options.wish }
    let invocation = Invocation(
      arguments: options.rest, environment: shell.terminal.environment, account: options.account)
    if options.isIDToken, !chosen.takesIDTokens {
      throw Failure(
        .usage, "the helper \(chosen.name) takes no --id-token", hints: ["Those of kubectl, aws and gcp do."])
    }
    let run = HelperRun(shell: shell, invocation: invocation, kind: options.isIDToken ? .idToken : nil)
    let reply = await run.reply(by: chosen)
    shell.terminal.writeBytes(reply.out)
    if let line = reply.err { shell.terminal.note(SafeText.line(line.hasPrefix("grantd ") ? line : "grantd: " + line)) }
    // A helper ends with 0 or 1, whatever the reason: programs know no other.
    if reply.status != 0 { throw .reported(.failure) }
  }
}

/// The options of grantctl before the arguments that a program adds. Of those some come from an address, as the user name
/// in that of an index, and may choose neither the account nor the broker.
struct HelperArguments: Equatable {
  var account: String?
  var wish = SocketChoice.Wish()
  /// `--id-token`: the account's ID token instead of its access token.
  var isIDToken = false
  var rest: [String] = []

  init(_ arguments: [String], of chosen: any CredentialProtocol.Type) {
    var index = 0
    while index < arguments.count {
      let argument = arguments[index]
      index += 1
      switch argument {
      case "--system": wish.isSystem = true
      case "--user": wish.isUser = true
      case "--id-token": isIDToken = true
      case "--account" where index < arguments.count:
        account = arguments[index]
        index += 1
      case "--socket" where index < arguments.count:
        wish.socket = arguments[index]
        index += 1
      case _ where argument.hasPrefix("--account="): account = String(argument.dropFirst("--account=".count))
      case _ where argument.hasPrefix("--socket="): wish.socket = String(argument.dropFirst("--socket=".count))
      default:
        rest.append(argument)
        guard chosen.isWhollyConfigured else {
          rest += arguments[index...]
          return
        }
      }
    }
  }
}
