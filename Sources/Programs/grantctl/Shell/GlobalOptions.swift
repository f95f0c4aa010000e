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

  /// Options of each command that were given before its name, moved behind it: `grantctl --json list`.
  static func moved(_ arguments: [String]) -> [String] { joined(movedOptions(arguments)) }

  /// `login list` and the other commands of pending logins as one argument, which is their declared name.
  private static func joined(_ arguments: [String]) -> [String] {
    let names = [LoginListCommand.configuration, LoginContinueCommand.configuration, LoginCancelCommand.configuration]
      .compactMap(\.commandName)
    guard let name = names.first(where: { $0.split(separator: " ").elementsEqual(arguments.prefix(2).map { $0[...] }) })
    else { return arguments }
    return [name] + arguments.dropFirst(2)
  }

  private static func movedOptions(_ arguments: [String]) -> [String] {
    var index = 0
    while index < arguments.count, arguments[index].hasPrefix("--") {
      let argument = arguments[index]
      if ["--json", "--system", "--user"].contains(argument) || argument.hasPrefix("--socket=")
        || argument.hasPrefix("--timeout=")
      {
        index += 1
      } else if ["--socket", "--timeout"].contains(argument), index + 1 < arguments.count {
        index += 2
      } else {
        return arguments
      }
    }
    guard index > 0, index < arguments.count, !arguments[index].hasPrefix("-") else { return arguments }
    // The commands that have commands.
    let nested = [ProviderCommand.configuration, KeyCommand.configuration].compactMap(\.commandName)
    let isNested =
      nested.contains(arguments[index])
      || joined(Array(arguments[index...])).count < arguments.count - index
    let end = isNested && index + 1 < arguments.count && !arguments[index + 1].hasPrefix("-") ? index + 2 : index + 1
    return Array(arguments[index..<end] + arguments[..<index] + arguments[end...])
  }
}

/// A command that ends with an ``ExitStatus``.
protocol BrokerCommand: AsyncParsableCommand {
  var options: GlobalOptions { get }
  func run(in shell: Shell) async throws(Failure)
}

extension BrokerCommand {
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
      if !error.isReported { shell.report(error) }
      return error.status
    }
  }
}
