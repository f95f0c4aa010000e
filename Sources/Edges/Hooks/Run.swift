import CLinux
import Glibc
import Platform
import Synchronization

/// One run of a program, in its own process group, on a thread that waits for it.
///
/// The group ends with the program: its other processes are killed before it is reaped, while the number is still its
/// own. A process that must outlive a hook is started elsewhere (`systemd-run`).
final class Run: Sendable {
  /// Bytes of standard output and standard error together that are kept; the rest is read and thrown away.
  static let keptOutput = 4096
  /// How late it is seen that the broker ends.
  private static let step = Duration.milliseconds(500)
  /// The same where the kernel has no pidfd, for the end of the program too.
  private static let blindStep = Duration.milliseconds(50)
  /// Bytes of the thread's stack.
  private static let stackSize = 256 << 10

  struct Report: Sendable {
    var result: HookResult
    /// Completes "the hook …".
    var text: String
    var output: [UInt8] = []
  }

  private enum Phase {
    case waiting
    /// The pid is the program's until it is reaped, which is under this lock.
    case running(pid_t)
    case over
  }

  private struct State {
    var phase = Phase.waiting
    var isStopped = false
  }

  private let command: [String]
  private let environment: [String]
  private let input: [UInt8]
  private let timeout: Duration
  private let grace: Duration
  private let uptime: @Sendable () -> Duration
  private let state = Mutex(State())

  init(
    command: [String], environment: [String], input: [UInt8], timeout: Duration, grace: Duration,
    uptime: @escaping @Sendable () -> Duration
  ) {
    self.command = command
    self.environment = environment
    self.input = input
    self.timeout = timeout
    self.grace = grace
    self.uptime = uptime
  }

  /// `ended` is called once, not within this call, whose caller holds a lock: on the run's own thread, or in a task where
  /// there can be none.
  func start(_ ended: @escaping @Sendable (Report) -> Void) {
    let code = OwnThread.start("hook", stack: Self.stackSize) { [self] in ended(run()) }
    if code != 0 { Task.detached { ended(.notStarted(code)) } }
  }

  /// The broker ends: SIGTERM now, SIGKILL after the grace.
  func stop() {
    state.withLock { state in
      state.isStopped = true
      if case .running(let pid) = state.phase { kill(-pid, SIGTERM) }
    }
  }

  private func run() -> Report {
    var input = ChildPipe()
    var output = ChildPipe(keeping: Self.keptOutput)
    guard input.open(keeping: .writing), output.open(keeping: .reading) else { return .notStarted(errno) }
    // As a rule all of it fits, so that even a program that never reads has it.
    input.write(self.input)
    var pid: pid_t = 0
    let failure = spawn(input: input.reading, output: output.writing, &pid)
    guard failure == 0 else { return .notStarted(failure) }
    output.closeWriting()
    let ending = wait(for: pid, &input, &output)
    let status = reap(pid)
    // Its last output; its group has ended, so this ends.
    output.drain()
    return Report(ending, status: status, timeout: timeout, output: output.kept)
  }

  private func spawn(input: Int32, output: Int32, _ pid: inout pid_t) -> Int32 {
    state.withLock { state in
      guard !state.isStopped else { return ECANCELED }
      let program = ChildProgram(
        command, environment: environment, descriptors: [input, output, output], folder: "/", group: .own)
      let failure = program.start(&pid)
      if failure == 0 { state.phase = .running(pid) }
      return failure
    }
  }

  /// Writes the rest of the input and reads the output until the program has ended, and ends it at its limit.
  private func wait(for pid: pid_t, _ input: inout ChildPipe, _ output: inout ChildPipe) -> Ending {
    let pidfd = clinux_pidfd_open(pid)
    defer { if pidfd >= 0 { close(pidfd) } }
    var ending = Ending.byItself
    var deadline = uptime() + timeout
    while clinux_has_ended(pid) == 0 {
      if ending == .byItself, state.withLock({ $0.isStopped }) { (ending, deadline) = (.stopped, uptime() + grace) }
      let left = deadline - uptime()
      if left <= .zero {
        kill(-pid, ending == .byItself ? SIGTERM : SIGKILL)
        if ending == .byItself { ending = .timedOut }
        deadline = uptime() + grace
        continue
      }
      let pause = min(left, pidfd < 0 ? Self.blindStep : Self.step)
      var entries = [
        pollfd(fd: pidfd, events: Int16(POLLIN), revents: 0),
        pollfd(fd: output.reading, events: Int16(POLLIN), revents: 0),
        pollfd(fd: input.writing, events: Int16(POLLOUT), revents: 0),
      ]
      _ = poll(&entries, 3, Int32(pause / .milliseconds(1)) + 1)
      if entries[1].revents != 0 { output.read() }
      if entries[2].revents != 0 { input.write() }
    }
    // It may have obeyed before this thread noticed.
    return ending == .byItself && state.withLock { $0.isStopped } ? .stopped : ending
  }

  /// Nil: the kernel keeps no status, as where SIGCHLD is ignored.
  private func reap(_ pid: pid_t) -> Int32? {
    state.withLock { state in
      kill(-pid, SIGKILL)
      defer { state.phase = .over }
      return ChildProgram.reap(pid)
    }
  }

  fileprivate enum Ending {
    case byItself, timedOut, stopped
  }
}

extension Run.Report {
  fileprivate static func notStarted(_ code: Int32) -> Self {
    .init(result: .notStarted, text: "could not be started: \(String(cString: strerror(code)))")
  }

  fileprivate init(_ ending: Run.Ending, status: Int32?, timeout: Duration, output: [UInt8]) {
    // As waitpid(2) has it: the signal in the lower 7 bits, else the exit status in the next 8.
    let how = status.map { status in
      let signal = status & 0x7f
      return signal == 0 ? "with exit status \((status >> 8) & 0xff)" : "by signal \(signal)"
    }
    switch ending {
    case .timedOut: self.init(result: .timedOut, text: "took longer than \(timeout) and was ended", output: output)
    case .stopped: self.init(result: .stopped, text: "was ended, as the broker ends", output: output)
    case .byItself where status == 0: self.init(result: .succeeded, text: "ended", output: output)
    case .byItself:
      self.init(result: .failed, text: how.map { "ended \($0)" } ?? "ended; its exit status is unknown", output: output)
    }
  }
}
