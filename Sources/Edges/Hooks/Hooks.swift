public import Broker
public import BrokerAPI
public import Logging
import Synchronization

/// Runs programs when something happens. An event starts all hooks that want it at once, as far as there are places;
/// the rest waits in order, and neither the broker nor another hook waits for them.
public final class Hooks: Sendable {
  public struct Limits: Sendable {
    /// Programs that run at a time.
    public var running = 8
    /// The maximum of these for one hook: a slow one leaves slots to the others.
    public var runningOfOne = 4
    /// Runs that wait; beyond them the oldest is dropped.
    public var queued = 256
    /// From SIGTERM to SIGKILL.
    public var grace = Duration.seconds(2)
    /// Hooks at the broker's end are not disturbed for this time.
    public var ending = Duration.seconds(2)

    public init() {}
  }

  /// The results of the runs so far.
  public struct HookStatistics: Sendable, Equatable {
    public var running = 0
    public var queued = 0
    public var dropped: UInt64 = 0
    public var results: [HookResult: UInt64] = [:]
  }

  private struct Pending {
    var hook: Hook
    var input: HookInput
  }

  private struct State {
    var hooks: [Hook] = []
    var queue: [Pending] = []
    var running: [UInt64: Running] = [:]
    var next: UInt64 = 0
    var dropped: UInt64 = 0
    /// Said once until the queue is empty again.
    var dropWasSaid = false
    var results: [HookResult: UInt64] = [:]
    var isStopped = false
  }

  private struct Running {
    var hook: Hook
    var run: Run
  }

  private let state = Mutex(State())
  private let limits: Limits
  private let environment: [String: String]
  private let uptime: @Sendable () -> Duration
  private let logger: Logger

  /// - Parameter environment: the broker's own, from which hooks get `PATH`, `LANG` and the variables of their
  ///   settings.
  /// - Parameter uptime: a clock that never steps.
  public init(
    limits: Limits = Limits(), environment: [String: String], uptime: @escaping @Sendable () -> Duration, logger: Logger
  ) {
    self.limits = limits
    self.environment = environment
    self.uptime = uptime
    self.logger = logger
  }

  public var statistics: HookStatistics {
    state.withLock {
      HookStatistics(
        running: $0.running.count, queued: $0.queue.count, dropped: $0.dropped, results: $0.results)
    }
  }

  /// From the next event on these are run. Runs that wait or are under way are as they were.
  public func replace(by hooks: [Hook]) { state.withLock { $0.hooks = hooks } }

  /// Something happened. Returns at once.
  public func handle(_ event: Event) {
    let (isFirstDrop, limit): (Bool, Int) = state.withLock { state in
      let wanted = state.isStopped ? [] : state.hooks.filter { $0.wants(event) }
      guard !wanted.isEmpty else { return (false, 0) }
      let input = HookInput(event)
      state.queue += wanted.map { Pending(hook: $0, input: input) }
      startMore(&state)
      let excess = state.queue.count - limits.queued
      guard excess > 0 else { return (false, 0) }
      state.queue.removeFirst(excess)
      state.dropped += UInt64(excess)
      defer { state.dropWasSaid = true }
      return (!state.dropWasSaid, limits.queued)
    }
    if isFirstDrop { logger.warning("hooks are too slow: more than \(limit) runs wait, and the oldest are dropped") }
  }

  private func startMore(_ state: inout State) {
    var index = 0
    while index < state.queue.count, state.running.count < limits.running {
      let hook = state.queue[index].hook
      guard state.running.values.count(where: { $0.hook.name == hook.name }) < limits.runningOfOne else {
        index += 1
        continue
      }
      start(state.queue.remove(at: index), &state)
    }
    if state.queue.isEmpty { state.dropWasSaid = false }
  }

  private func start(_ pending: Pending, _ state: inout State) {
    let (hook, input) = (pending.hook, pending.input)
    let run = Run(
      command: hook.command, environment: input.environment(own: environment, pass: hook.passEnvironment),
      input: input.line, timeout: hook.timeout, grace: limits.grace, uptime: uptime)
    state.next += 1
    let id = state.next
    state.running[id] = Running(hook: hook, run: run)
    // Holds on to this object until the program has ended, so that it is always reaped.
    run.start { [self] report in ended(id, hook, input.event, report) }
  }

  private func ended(_ id: UInt64, _ hook: Hook, _ event: Event, _ report: Run.Report) {
    log(hook, event, report)
    state.withLock { state in
      state.running[id] = nil
      state.results[report.result, default: 0] += 1
      if !state.isStopped { startMore(&state) }
    }
  }

  private func log(_ hook: Hook, _ event: Event, _ report: Run.Report) {
    var metadata: Logger.Metadata = ["event": "\(event.type.rawValue)", "command": "\(hook.command.first ?? "")"]
    if let account = event.account { metadata["account"] = "\(account)" }
    let output = String(decoding: report.output, as: UTF8.self)
    // One line of the journal for each, without terminal control characters.
    if !output.isEmpty { metadata["output"] = "\(HookInput.clean(output, limit: Run.keptOutput))" }
    switch report.result {
    case .succeeded: logger.debug("the hook of \(hook.name) \(report.text)", metadata: metadata)
    case .failed, .timedOut, .notStarted, .stopped:
      logger.warning("the hook of \(hook.name) \(report.text)", metadata: metadata)
    }
  }

  /// Begins no more, leaves what runs some time, then ends it. Returns when all have ended, or soon after.
  public func stop() async {
    state.withLock { state in
      state.isStopped = true
      state.queue = []
    }
    await wait(atMost: limits.ending)
    for run in runs { run.stop() }
    await wait(atMost: limits.grace + .seconds(2))
  }

  private var runs: [Run] { state.withLock { $0.running.values.map(\.run) } }

  private func wait(atMost limit: Duration) async {
    let end = uptime() + limit
    while !runs.isEmpty, uptime() < end { try? await Task.sleep(for: .milliseconds(20)) }
  }
}

/// How a run ended.
public enum HookResult: String, Sendable, CaseIterable {
  case succeeded
  /// An exit status other than 0, or a signal.
  case failed
  case timedOut = "timed_out"
  /// No such program, or it may not be executed.
  case notStarted = "not_started"
  /// The broker ended before it did.
  case stopped
}
