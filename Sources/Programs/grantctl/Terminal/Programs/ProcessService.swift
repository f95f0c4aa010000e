@preconcurrency import Glibc
import Platform
import Synchronization

/// A program that outlives this one.
enum ProcessService {
  /// Starts it with its output in the log.
  static func start(_ command: [String], log path: String) -> StartedService {
    guard let program = command.first.flatMap(find) else {
      return .failed("\(command.first ?? "") is neither in PATH nor beside this program")
    }
    if let reason = makeFolder(ProcessFiles.split(path).folder) { return .failed(reason) }
    let log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard log >= 0 else { return .failed("\(path): \(words(errno))") }
    defer { close(log) }
    let child = ChildProgram(
      [program] + command.dropFirst(), environment: Environment.list(Environment.own), descriptors: [nil, log, log],
      folder: "/", group: .ownSession)
    var pid = pid_t()
    let code = child.start(&pid)
    guard code == 0 else { return .failed(words(code)) }
    // No other code takes its status while this process runs.
    let end = End()
    _ = OwnThread.start("service") { [pid] in
      _ = ChildProgram.reap(pid)
      end.hasCome.withLock { $0 = true }
    }
    return .running { end.hasCome.withLock { $0 } }
  }

  private final class End: Sendable {
    let hasCome = Mutex(false)
  }

  private static func find(_ name: String) -> String? {
    let path = Environment.own["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
    var folders = path.split(separator: ":").map(String.init)
    if let own = Environment.ownProgram { folders.insert(ProcessFiles.split(own).folder, at: 0) }
    return folders.map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
  }

  /// For their owner only, as grantd makes its folders.
  private static func makeFolder(_ path: String) -> String? {
    if mkdir(path, 0o700) == 0 || errno == EEXIST { return nil }
    let above = ProcessFiles.split(path).folder
    guard errno == ENOENT, above != path else { return "\(path): \(words(errno))" }
    if let reason = makeFolder(above) { return reason }
    return mkdir(path, 0o700) == 0 || errno == EEXIST ? nil : "\(path): \(words(errno))"
  }

  private static func words(_ number: Int32) -> String { String(cString: strerror(number)) }
}
