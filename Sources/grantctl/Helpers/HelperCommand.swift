import ArgumentParser
import BrokerAPI
import BrokerSocket
import CredentialHelpers

struct HelperCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "helper", abstract: "Answer a program that asks for a credential by a protocol of its own.",
    usage: "grantctl helper <name> [--account <account>] [<argument> ...]",
    discussion: """
      Programs start this; docs/helpers.md and `grantctl configure` have their configuration. Which host is which \
      account stands in ~/.config/grantd/helper.toml, for all users in /etc/grantd/helper.toml.

      Names: \(Protocols.names.joined(separator: ", "))

      Examples:
        git config --global credential.helper '!grantctl helper git'
        printf 'protocol=https\\nhost=h.example\\n\\n' | grantctl helper git get
      """)

  @OptionGroup var options: GlobalOptions
  @Argument(parsing: .captureForPassthrough, help: "The name of the protocol, and what the program adds.")
  var words: [String] = []

  func run(in shell: Shell) async throws(Failure) {
    if let first = words.first, ["--help", "-h"].contains(first) {
      return shell.terminal.say(Grantctl.helpMessage(for: Self.self, columns: shell.terminal.width ?? 80))
    }
    guard let name = words.first, let chosen = Protocols.named(name) else {
      throw Failure(
        .usage, words.first.map { "there is no helper \(SafeText.line($0))" } ?? "the name of a helper is missing",
        hints: ["There are: \(Protocols.names.joined(separator: ", "))"])
    }
    try await Self.run(chosen, Array(words.dropFirst()), in: shell)
  }

  /// Whether the program's name, as `argv[0]` has it, is that of a helper.
  static func isHelper(_ program: String) -> Bool { Protocols.program(lastComponent(program)) != nil }

  /// As the helper that `argv[0]` names.
  static func perform(program: String, _ arguments: [String], in terminal: Terminal) async -> ExitStatus {
    guard let chosen = Protocols.program(lastComponent(program)) else { return .usage }
    do throws(Failure) {
      try await run(chosen, arguments, in: Shell(terminal: terminal, settings: .init()))
      return .success
    } catch {
      return error.status
    }
  }

  private static func lastComponent(_ path: String) -> String {
    path.split(separator: "/").last.map(String.init) ?? path
  }

  private static func run(
    _ chosen: any CredentialProtocol.Type, _ arguments: [String], in shell: Shell
  ) async throws(Failure) {
    var shell = shell
    let options = HelperArguments(arguments)
    if options.wish != SocketChoice.Wish() { shell.settings.wish = options.wish }
    let invocation = Invocation(
      arguments: options.rest, environment: shell.terminal.environment, account: options.account)
    let reply = await HelperRun(shell: shell, invocation: invocation).reply(by: chosen)
    shell.terminal.writeBytes(reply.out)
    if let line = reply.err { shell.terminal.note(SafeText.line(line.hasPrefix("grantd ") ? line : "grantd: " + line)) }
    // A helper ends with 0 or 1, whatever the reason: programs know no other.
    if reply.status != 0 { throw .reported(.failure) }
  }
}

/// The options of grantctl among the arguments of a helper. What a program adds stays as it is.
struct HelperArguments: Equatable {
  var account: String?
  var wish = SocketChoice.Wish()
  var rest: [String] = []

  init(_ arguments: [String]) {
    var index = 0
    while index < arguments.count {
      let argument = arguments[index]
      index += 1
      switch argument {
      case "--system": wish.isSystem = true
      case "--user": wish.isUser = true
      case "--account" where index < arguments.count:
        account = arguments[index]
        index += 1
      case "--socket" where index < arguments.count:
        wish.socket = arguments[index]
        index += 1
      case _ where argument.hasPrefix("--account="): account = String(argument.dropFirst("--account=".count))
      case _ where argument.hasPrefix("--socket="): wish.socket = String(argument.dropFirst("--socket=".count))
      default: rest.append(argument)
      }
    }
  }
}
