import Broker
import BrokerAPI
import Callers
import Glibc
import Platform
import Principals
import UserPages

/// The `grantctl` beside this program, for the page of the user that runs the broker (decision 69).
actor OwnGrantctl: OwnCommands {
  /// `grantctl` gives kubectl 20 seconds, for each of two calls.
  private static let patience = Duration.seconds(45)
  private static let mostWaiting = 8
  /// Variables of this process that are not for another one.
  private static let own = ["GRANTD_", "LISTEN_", "NOTIFY_", "WATCHDOG_", "CREDENTIALS_", "JOURNAL_", "INVOCATION_"]

  nonisolated let user: UInt32
  nonisolated let home: String
  nonisolated let fileView: FileView
  private let program: String
  private let options: [String]
  private let environment: [String]
  private var waiting = 0
  /// One at a time: two would change the same files.
  private var commands = SerialTasks<CommandOutcome>()

  /// Nil: a system's broker, or no `grantctl` beside it.
  init?(_ places: Places, socket: String) {
    guard places.instance == .user, getuid() == geteuid(), let own = Environment.ownProgram else { return nil }
    program = own.prefix(upTo: own.lastIndex(of: "/") ?? own.startIndex) + "/grantctl"
    guard access(program, X_OK) == 0, let fileView = FileView.own else { return nil }
    self.fileView = fileView
    user = getuid()
    options = socket == places.defaultSocket ? [] : ["--socket", socket]
    var variables = Environment.own.filter { entry in !Self.own.contains { entry.key.hasPrefix($0) } }
    home = variables["HOME"] ?? places.home ?? ""
    variables["HOME"] = home
    variables["GRANTD_SOCKET"] = socket
    variables["LC_ALL"] = "C"
    environment = Environment.list(variables)
  }

  func run(_ words: [String], input: SecretText?) async -> CommandOutcome {
    guard waiting < Self.mostWaiting, let command = words.first else { return .busy }
    waiting += 1
    defer { waiting -= 1 }
    let line = [program, command] + options + words.dropFirst()
    let task = commands.add { [environment] in
      // Exposed for the command that stores it.
      let outcome = await ChildOutcome.of(
        ChildProgram(line, environment: environment, folder: "/"), within: Self.patience,
        input: input.map { Array("\($0.exposed)\n".utf8) } ?? [], uptime: { Live.uptime() })
      return switch outcome {
      case .success(let ended): .ended(status: ended.status, out: ended.out, err: ended.err)
      case .failure(.notStarted): .notStarted
      case .failure(.unfinished): .unfinished(Self.patience)
      }
    }
    return await task.value
  }
}
