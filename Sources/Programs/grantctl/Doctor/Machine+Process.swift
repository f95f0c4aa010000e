import Glibc
import Platform

extension Machine {
  /// This one.
  static let own = Machine(
    look: inspect,
    names: ProcessFiles.names,
    freeBytes: { path in
      var disk = statvfs()
      guard statvfs(path, &disk) == 0 else { return nil }
      return Int64(clamping: UInt64(disk.f_bavail) * UInt64(disk.f_frsize))
    },
    run: { command, limit in await run(command, limit, nil) },
    ask: { command, input, limit in await run(command, limit, input) })

  private static func run(_ command: [String], _ limit: Duration, _ input: [UInt8]?) async -> Ended? {
    let start = ContinuousClock.now
    // The words of its answers are read.
    let environment = Environment.own.merging(["LC_ALL": "C"]) { $1 }
    let ended = await ChildOutcome.of(
      ChildProgram(command, environment: Environment.list(environment)), within: limit, input: input,
      uptime: { ContinuousClock.now - start })
    return (try? ended.get()).map { Ended(status: $0.status, out: $0.out, err: $0.err) }
  }

  private static func inspect(_ path: String) -> Look {
    var entry = stat()
    guard lstat(path, &entry) == 0 else { return errno == ENOENT || errno == ENOTDIR ? .absent : .hidden }
    let kind: File.Kind =
      switch entry.st_mode & S_IFMT {
      case S_IFREG: .file
      case S_IFDIR: .folder
      case S_IFSOCK: .socket
      default: .other
      }
    return .found(
      File(
        kind: kind, mode: entry.st_mode & 0o7777, uid: entry.st_uid, modifiedAt: Int64(entry.st_mtim.tv_sec)))
  }
}
