import Synchronization

/// The interrupts of one login. The first one ends it: the part that runs then, or the next one.
final class LoginInterrupts: Sendable {
  private struct State {
    var hasCome = false
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
    let hasCome = state.withLock { state in
      state.action = action
      return state.hasCome
    }
    if hasCome { action?() }
  }

  private func came() {
    let action = state.withLock { state in
      state.hasCome = true
      return state.action
    }
    action?()
  }
}
