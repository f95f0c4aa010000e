import Synchronization

/// The interrupts of one login. Each is for the part of the login that runs then; one between two parts is for the next.
final class LoginInterrupts: Sendable {
  private struct State {
    var isPending = false
    var action: (@Sendable () -> Void)?
  }

  private let state = Mutex(State())
  private let listening = Mutex<Task<Void, Never>?>(nil)

  init(_ interrupts: AsyncStream<Void>) {
    listening.withLock { $0 = Task { [weak self] in for await _ in interrupts { self?.came() } } }
  }

  deinit { listening.withLock { $0?.cancel() } }

  /// Nil: no part runs.
  func handle(by action: (@Sendable () -> Void)?) {
    let isDue = state.withLock { state in
      state.action = action
      guard action != nil, state.isPending else { return false }
      state.isPending = false
      return true
    }
    if isDue { action?() }
  }

  private func came() {
    let action = state.withLock { state in
      if state.action == nil { state.isPending = true }
      return state.action
    }
    action?()
  }
}
