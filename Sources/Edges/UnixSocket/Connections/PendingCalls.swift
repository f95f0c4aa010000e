import BrokerAPI
import Synchronization

/// The calls of one connection that wait for the dispatcher, so that a drain can answer them at its deadline.
final class PendingCalls: Sendable {
  private typealias Waiter = CheckedContinuation<Result<JSON, RPCError>, Never>

  private struct State {
    var waiters: [UInt64: Waiter] = [:]
    var next: UInt64 = 0
    var end: RPCError?
  }

  private let state = Mutex(State())

  /// The result of `work`, or the error of ``answerAll(_:)`` if that comes first; then the result of `work` is ignored.
  func answer(_ work: @escaping @Sendable () async -> Result<JSON, RPCError>) async -> Result<JSON, RPCError> {
    await withCheckedContinuation { waiter in
      guard let key = add(waiter) else { return }
      // Without a wait where the work has none.
      Task.immediate {
        let result = await work()
        state.withLock { $0.waiters.removeValue(forKey: key) }?.resume(returning: result)
      }
    }
  }

  /// Answers everything with an error, now and from now on.
  func answerAll(_ error: RPCError) {
    let waiters = state.withLock { state in
      state.end = error
      defer { state.waiters = [:] }
      return state.waiters.values.map { $0 }
    }
    for waiter in waiters { waiter.resume(returning: .failure(error)) }
  }

  private func add(_ waiter: Waiter) -> UInt64? {
    let (key, end): (UInt64, RPCError?) = state.withLock { state in
      state.next += 1
      if state.end == nil { state.waiters[state.next] = waiter }
      return (state.next, state.end)
    }
    guard let end else { return key }
    waiter.resume(returning: .failure(end))
    return nil
  }
}
