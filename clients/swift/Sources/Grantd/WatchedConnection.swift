import AsyncClient
import BlockingClient
import BrokerAPI
import Synchronization

/// A connection that ends if the broker leaves a call unanswered for longer than the call's limit.
///
/// One task sleeps until the earliest limit. A task for each call would stay in memory until its limit, although the
/// answer comes in microseconds: a cancelled sleep keeps its timer.
final class WatchedConnection: Sendable {
  private struct State {
    var ends: [Int64: ContinuousClock.Instant] = [:]
    var last: Int64 = 0
    /// When the task that sleeps wakes up; nil: there is none.
    var wakes: ContinuousClock.Instant?
  }

  let client: SocketClient
  private let state = Mutex(State())

  init(_ client: SocketClient) { self.client = client }

  /// The answer to a call that waits.
  func answer(to call: Int64, within limit: Duration) async throws(SocketClient.Failure) -> JSON {
    let (id, end) = watch(for: limit)
    defer { state.withLock { _ = $0.ends.removeValue(forKey: id) } }
    do {
      return try await client.answer(to: call)
    } catch {
      guard error.error == .disconnected, ContinuousClock.now >= end else { throw error }
      throw SocketClient.Failure(.timedOut)
    }
  }

  private func watch(for limit: Duration) -> (id: Int64, end: ContinuousClock.Instant) {
    let end = ContinuousClock.now + limit
    let (id, isFirst) = state.withLock { state in
      state.last += 1
      state.ends[state.last] = end
      let isFirst = state.wakes.map { end < $0 } ?? true
      if isFirst { state.wakes = end }
      return (state.last, isFirst)
    }
    if isFirst { watch(until: end) }
    return (id, end)
  }

  private func watch(until first: ContinuousClock.Instant) {
    Task { [weak self] in
      var end = first
      while true {
        try? await Task.sleep(until: end, tolerance: nil, clock: .continuous)
        guard let next = await self?.next(after: end) else { return }
        end = next
      }
    }
  }

  /// The limit to sleep until; nil: another task watches, or there is nothing to wait for.
  private func next(after end: ContinuousClock.Instant) async -> ContinuousClock.Instant? {
    let (next, isLate) = state.withLock { state -> (ContinuousClock.Instant?, Bool) in
      guard state.wakes == end else { return (nil, false) }
      state.wakes = state.ends.values.min()
      guard let earliest = state.wakes, earliest <= ContinuousClock.now else { return (state.wakes, false) }
      return (nil, true)
    }
    if isLate { await client.close() }
    return next
  }
}
