import ArgumentParser
import BrokerSocket

/// The options that each command has.
struct GlobalOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Broker's socket. Default: $GRANTD_SOCKET, your broker, the system's.",
      valueName: "path"), completion: .file())
  var socket: String?
  @Flag(help: "Use the system's broker.")
  var system = false
  @Flag(help: "Use your own broker (systemctl --user).")
  var user = false
  @Flag(help: "Print the broker's answer as JSON; errors as JSON on standard error.")
  var json = false
  @Option(
    help: ArgumentHelp("Maximum wait: 45 (seconds), 30s, 10m, 2h, at most 1d.", valueName: "time"),
    transform: TimeSpan.seconds)
  var timeout: Double?

  func validate() throws {
    guard [system, user, socket != nil].filter({ $0 }).count <= 1 else {
      throw ValidationError("Only one of --socket, --system and --user can be given.")
    }
    guard socket != "" else { throw ValidationError("--socket is empty.") }
    if let timeout, !(timeout > 0 && timeout <= 86400) {
      throw ValidationError("--timeout is more than 0 and at most 1d.")
    }
  }

  var settings: Shell.Settings {
    Shell.Settings(
      wish: .init(socket: socket, isSystem: system, isUser: user), isJSON: json, timeout: timeout)
  }

  /// The broker that these arguments name, whether or not the rest of them can be parsed.
  static func wish(in arguments: [String]) -> SocketChoice.Wish {
    var wish = SocketChoice.Wish()
    for (index, argument) in arguments.enumerated() {
      switch argument {
      case "--": return wish
      case "--system": wish.isSystem = true
      case "--user": wish.isUser = true
      case "--socket": wish.socket = index + 1 < arguments.count ? arguments[index + 1] : nil
      case _ where argument.hasPrefix("--socket="): wish.socket = String(argument.dropFirst("--socket=".count))
      default: break
      }
    }
    return wish
  }

  /// Options of each command that were given before its name, or between its two words, moved behind it:
  /// `grantctl --json list`, `grantctl login --system list`. The commands of pending logins are declared with both words as
  /// one name.
  static func moved(_ arguments: [String]) -> [String] {
    guard let before = leading(arguments[...]) else { return arguments }
    let rest = arguments.dropFirst(before.count)
    guard let first = rest.first, !first.hasPrefix("-") else { return arguments }
    let between = leading(rest.dropFirst()) ?? []
    let behind = rest.dropFirst(1 + between.count)
    if let second = behind.first, pending.contains("\(first) \(second)") {
      return ["\(first) \(second)"] + before + between + behind.dropFirst()
    }
    if nested.contains(first), let second = behind.first, !second.hasPrefix("-") {
      return [first, second] + before + between + behind.dropFirst()
    }
    return [first] + before + rest.dropFirst()
  }

  private static let pending = [
    LoginListCommand.configuration, LoginContinueCommand.configuration, LoginCancelCommand.configuration,
  ].compactMap(\.commandName)
  /// The commands that have commands.
  private static let nested = [ProviderCommand.configuration, KeyCommand.configuration].compactMap(\.commandName)

  /// The options of each command at the beginning; nil: another option is among them.
  private static func leading(_ arguments: ArraySlice<String>) -> ArraySlice<String>? {
    var index = arguments.startIndex
    while index < arguments.endIndex, arguments[index].hasPrefix("--") {
      let argument = arguments[index]
      if ["--json", "--system", "--user"].contains(argument) || argument.hasPrefix("--socket=")
        || argument.hasPrefix("--timeout=")
      {
        index += 1
      } else if ["--socket", "--timeout"].contains(argument), index + 1 < arguments.endIndex {
        index += 2
      } else {
        return nil
      }
    }
    return arguments[..<index]
  }
}

/// A command that ends with an ``ExitStatus``.
protocol BrokerCommand: AsyncParsableCommand {
  var options: GlobalOptions { get }
  func run(in shell: Shell) async throws(Failure)
  /// The failure with further next steps.
  func explained(_ failure: Failure, in shell: Shell) async -> Failure
}

extension BrokerCommand {
  func explained(_ failure: Failure, in shell: Shell) async -> Failure { failure }

  func run() async throws {
    let status = await perform(in: .ofProcess())
    if status != .success { throw ExitCode(status.rawValue) }
  }

  /// Runs, and says on standard error what failed.
  func perform(in terminal: Terminal) async -> ExitStatus {
    let shell = Shell(terminal: terminal, settings: options.settings)
    do throws(Failure) {
      try await run(in: shell)
      return .success
    } catch {
      if !error.isReported { shell.report(await explained(error, in: shell)) }
      return error.status
    }
  }
}
