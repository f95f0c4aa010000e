import CLinux
@preconcurrency import Glibc

/// What a program printed that was asked something and may not keep us, and its exit status.
public struct ChildOutcome: Sendable, Equatable {
  /// Bytes of each stream; what is beyond is read and thrown away.
  private static let longestOutput = 64 * 1024
  /// How late its end is seen where the kernel has no pidfd.
  private static let blindStep = Duration.milliseconds(10)

  /// Bytes of the thread's stack.
  private static let stackSize = 256 << 10

  public enum Failure: Error {
    case notStarted
    /// It was ended after the time.
    case unfinished
  }

  /// The exit status, or the number of the signal.
  public var status: Int32
  public var out: String
  public var err: String

  /// Starts a program with its own descriptors.
  public static func of(
    _ program: ChildProgram, within limit: Duration, input: [UInt8]? = nil,
    uptime: @escaping @Sendable () -> Duration
  ) async -> Result<ChildOutcome, Failure> {
    await withCheckedContinuation { waiter in
      let code = OwnThread.start("child", stack: stackSize) {
        waiter.resume(returning: outcome(program, limit, input, uptime))
      }
      if code != 0 { waiter.resume(returning: .failure(.notStarted)) }
    }
  }

  private static func outcome(
    _ program: ChildProgram, _ limit: Duration, _ input: [UInt8]?, _ uptime: () -> Duration
  ) -> Result<ChildOutcome, Failure> {
    var given = ChildPipe()
    var out = ChildPipe(keeping: longestOutput)
    var err = ChildPipe(keeping: longestOutput)
    guard given.open(keeping: .writing), out.open(keeping: .reading), err.open(keeping: .reading) else {
      return .failure(.notStarted)
    }
    var program = program
    program.descriptors = [input.map { _ in given.reading }, out.writing, err.writing]
    var pid = pid_t()
    guard program.start(&pid) == 0 else { return .failure(.notStarted) }
    out.closeWriting()
    err.closeWriting()
    // Unread input is not a failure: the exit status reports one.
    given.write(input ?? [])
    let end = uptime() + limit
    let pidfd = clinux_pidfd_open(pid)
    defer { if pidfd >= 0 { close(pidfd) } }
    var hasEnded = false
    while !hasEnded || !out.isAtEnd || !err.isAtEnd {
      let left = end - uptime()
      guard left > .zero else {
        if !hasEnded { kill(-pid, SIGKILL) }
        _ = ChildProgram.reap(pid)
        return .failure(.unfinished)
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
    return .success(
      ChildOutcome(
        status: status & 0x7f == 0 ? (status >> 8) & 0xff : status & 0x7f,
        out: String(decoding: out.kept, as: UTF8.self), err: String(decoding: err.kept, as: UTF8.self)))
  }
}
