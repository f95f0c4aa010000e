public import Principals
import Synchronization

/// Requests that are being decided. A decision takes time from all callers, and tasks run in the order of their arrival:
/// hundreds of one user would delay the next request of another user. A few are decided at a time; the others wait here,
/// and the users take turns.
public final class Entrance: Sendable {
  /// Requests that are being decided at a time.
  static let most = 8
  /// Requests that wait in total. A holder has a quarter of them.
  static let mostWaiting = 1024

  fileprivate struct State {
    var inside = 0
    /// Requests that wait.
    var shares = Shares(all: Entrance.mostWaiting, perHolder: Entrance.mostWaiting / 4)
    var waiting = GroupedRoundRobin<Holder, Holder, CheckedContinuation<Bool, Never>>()
  }

  private let state = Mutex(State())

  init() {}

  /// Returns when the request may be decided: ``release()`` must follow. False: too many requests wait.
  public func enter(_ holder: Holder) async -> Bool {
    guard !state.withLock({ $0.admit() }) else { return true }
    return await withCheckedContinuation { continuation in
      let answer: Bool? = state.withLock { state in
        if state.admit() { return true }
        guard state.shares.acquire(for: holder) == nil else { return false }
        state.waiting.append(continuation, for: holder, of: holder.user)
        return nil
      }
      if let answer { continuation.resume(returning: answer) }
    }
  }

  /// The request is decided.
  public func release() {
    let next = state.withLock { state in
      guard let next = state.waiting.popFirst() else {
        state.inside -= 1
        return nil as CheckedContinuation<Bool, Never>?
      }
      state.shares.giveBack(of: next.key)
      return next.element
    }
    next?.resume(returning: true)
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
