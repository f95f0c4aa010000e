import Glibc
import Synchronization

/// Closes sockets whose close(2) may wait, on threads of its own: those of Dispatch run Swift's tasks.
final class Closer: Sendable {
  /// At once; the others wait, each with the place and the descriptor that it has.
  static let threads = 64

  private struct State {
    var waiting: [(socket: Int32, then: @Sendable () -> Void)] = []
    var threads = 0
  }

  private let state = Mutex(State())

  func close(_ socket: Int32, then action: @escaping @Sendable () -> Void) {
    let isNeeded = state.withLock { state in
      state.waiting.append((socket, action))
      guard state.threads < Self.threads else { return false }
      state.threads += 1
      return true
    }
    // Where there can be no thread, a later one closes it.
    if isNeeded, OwnThread.start("close", { self.closeAll() }) != 0 { state.withLock { $0.threads -= 1 } }
  }

  private func closeAll() {
    while let next = next() {
      Glibc.close(next.socket)
      next.then()
    }
  }

  private func next() -> (socket: Int32, then: @Sendable () -> Void)? {
    state.withLock { state in
      if state.waiting.isEmpty { state.threads -= 1 }
      return state.waiting.popLast()
    }
  }
}
