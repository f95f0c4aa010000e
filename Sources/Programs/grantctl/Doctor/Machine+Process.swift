import CLinux
@preconcurrency import Glibc
import Platform

extension Machine {
  /// This one.
  static let own = Machine(
    look: look,
    names: ProcessFiles.names,
    freeBytes: { path in
      var disk = statvfs()
      guard statvfs(path, &disk) == 0 else { return nil }
      return Int64(clamping: UInt64(disk.f_bavail) * UInt64(disk.f_frsize))
    },
    run: { command, limit in await Child.run(command, limit) },
    ask: { command, input, limit in await Child.run(command, limit, input: input) })

  private static func look(_ path: String) -> Look {
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

/// A program that is asked something and may not keep us.
private enum Child {
  /// Bytes of each stream; what is beyond is read and thrown away.
  private static let longestOutput = 64 * 1024
  /// How late its end is seen where the kernel has no pidfd.
  private static let blindStep = Duration.milliseconds(10)

  static func run(_ command: [String], _ limit: Duration, input: [UInt8]? = nil) async -> Machine.Ended? {
    await withCheckedContinuation { waiter in
      let code = OwnThread.start("child") { waiter.resume(returning: outcome(command, limit, input)) }
      if code != 0 { waiter.resume(returning: nil) }
    }
  }

  private static func outcome(_ command: [String], _ limit: Duration, _ input: [UInt8]?) -> Machine.Ended? {
    var given = ChildPipe()
    var out = ChildPipe(keeping: longestOutput)
    var err = ChildPipe(keeping: longestOutput)
    guard given.open(keeping: .writing), out.open(keeping: .reading), err.open(keeping: .reading) else { return nil }
    // The words of its answers are read.
    let environment = Environment.own.merging(["LC_ALL": "C"]) { $1 }
    let program = ChildProgram(
      command, environment: Environment.list(environment),
      descriptors: [input.map { _ in given.reading }, out.writing, err.writing])
    var pid = pid_t()
    guard program.start(&pid) == 0 else { return nil }
    out.closeWriting()
    err.closeWriting()
    // What it does not read is no failure: its status says what it is.
    given.write(input ?? [])
    let end = ContinuousClock.now + limit
    let pidfd = clinux_pidfd_open(pid)
    defer { if pidfd >= 0 { close(pidfd) } }
    var hasEnded = false
    while !hasEnded || !out.isAtEnd || !err.isAtEnd {
      let left = end - ContinuousClock.now
      guard left > .zero else {
        if !hasEnded { kill(-pid, SIGKILL) }
        _ = ChildProgram.reap(pid)
        return nil
      }
      var entries = [
        pollfd(fd: hasEnded ? -1 : pidfd, events: Int16(POLLIN), revents: 0),
        pollfd(fd: out.reading, events: Int16(POLLIN), revents: 0),
        pollfd(fd: err.reading, events: Int16(POLLIN), revents: 0),
        pollfd(fd: hasEnded ? -1 : given.writing, events: Int16(POLLOUT), revents: 0),
      ]
      _ = poll(&entries, 4, Int32((pidfd < 0 ? min(left, blindStep) : left) / .milliseconds(1)) + 1)
      if entries[1].revents != 0 { out.read() }
      if entries[2].revents != 0 { err.read() }
      if entries[3].revents != 0 { given.write() }
      hasEnded = clinux_has_ended(pid) != 0
    }
    let status = ChildProgram.reap(pid) ?? 0
    // As waitpid(2) has it: the signal in the lower 7 bits, else the exit status in the next 8.
    return Machine.Ended(
      status: status & 0x7f == 0 ? (status >> 8) & 0xff : status & 0x7f,
      out: String(decoding: out.kept, as: UTF8.self), err: String(decoding: err.kept, as: UTF8.self))
  }
}
