import BrokerAPI
import Synchronization

/// The calls of one connection that wait for the dispatcher, so that a drain can answer them at its deadline.
final class PendingCalls: Sendable {
  typealias Outcome = Result<JSON, RPCError>

  private struct State {
    var waiting: [UInt64: @Sendable (Outcome) -> Void] = [:]
    var next: UInt64 = 0
    var end: RPCError?
  }

  private let state = Mutex(State())

  /// Runs the work in a task. Its result is passed on, or the error of ``answerAll(_:)`` if that comes first; then the result
  /// is ignored.
  ///
  /// - Parameter finish: called once, in that task, or by ``answerAll(_:)``.
  func begin(
    _ work: @escaping @Sendable () async -> Outcome, then finish: @escaping @Sendable (Outcome) -> Void
  ) {
    let (key, end): (UInt64, RPCError?) = state.withLock { state in
      state.next += 1
      if state.end == nil { state.waiting[state.next] = finish }
      return (state.next, state.end)
    }
    if let end { return finish(.failure(end)) }
    // Without a wait where the work has none.
    Task.immediate {
      let result = await work()
      state.withLock { $0.waiting.removeValue(forKey: key) }?(result)
    }
  }

  /// Answers everything with an error, now and from now on.
  func answerAll(_ error: RPCError) {
    let waiting = state.withLock { state in
      state.end = error
      defer { state.waiting = [:] }
      return state.waiting.values.map { $0 }
    }
    for finish in waiting { finish(.failure(error)) }
  }
}
