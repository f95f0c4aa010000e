public import BrokerAPI
import Synchronization

/// Requests that are being decided. A decision takes time from all callers, and tasks run in the order of their arrival:
/// hundreds of one user would delay the next request of another user. A few are decided at a time; the others wait here,
/// and the users take turns.
public final class Entrance: Sendable {
  /// Requests that are being decided at a time.
  static let most = 8

  fileprivate struct State {
    var inside = 0
    var waiting = GroupedRoundRobin<Holder, Holder, CheckedContinuation<Void, Never>>()
  }

  private let state = Mutex(State())

  init() {}

  /// Returns when the request may be decided. ``leave()`` must follow.
  public func enter(_ holder: Holder) async {
    guard !state.withLock({ $0.admit() }) else { return }
    await withCheckedContinuation { continuation in
      let isAdmitted = state.withLock { state in
        if state.admit() { return true }
        state.waiting.append(continuation, for: holder, of: holder.user)
        return false
      }
      if isAdmitted { continuation.resume() }
    }
  }

  /// The request is decided.
  public func leave() {
    let next = state.withLock { state in
      let next = state.waiting.take()?.element
      if next == nil { state.inside -= 1 }
      return next
    }
    next?.resume()
  }

  /// For tests.
  var counts: (inside: Int, waiting: Int) { state.withLock { ($0.inside, $0.waiting.count) } }
}

extension Entrance.State {
  fileprivate mutating func admit() -> Bool {
    guard inside < Entrance.most else { return false }
    inside += 1
    return true
  }
}
