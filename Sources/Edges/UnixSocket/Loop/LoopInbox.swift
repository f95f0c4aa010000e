import CLinux
import Glibc
import Synchronization

/// Messages of other threads to the loop. Bounded: a connection is in it at most once, and the only commands are the
/// server's, at its start and end.
final class LoopInbox: Sendable {
  typealias Command = @Sendable (SocketLoop) -> Void

  struct Content: Sendable {
    var connections: [LoopToken] = []
    var commands: [Command] = []
  }

  private struct State {
    var content = Content()
    /// The loop was woken and has not taken the content yet.
    var isSignalled = false
    var hasEnded = false
  }

  private let state = Mutex(State())
  /// An eventfd(2).
  let wakeup: Int32

  init() throws(SocketLoop.Failure) {
    wakeup = clinux_wakeup()
    guard wakeup >= 0 else { throw SocketLoop.Failure(call: "eventfd", code: errno) }
  }

  deinit { close(wakeup) }

  /// Has the loop send the connection's outbox.
  func add(_ connection: LoopToken) { put { $0.connections.append(connection) } }

  /// False: the loop has ended, and the command will not run.
  @discardableResult
  func add(_ command: @escaping Command) -> Bool { put { $0.commands.append(command) } }

  /// What `action` returns on the loop; nil: the loop has ended.
  func run<Result: Sendable>(_ action: @escaping @Sendable (SocketLoop) -> Result) async -> Result? {
    await withCheckedContinuation { waiter in
      if !add({ waiter.resume(returning: action($0)) }) { waiter.resume(returning: nil) }
    }
  }

  /// For the loop.
  func drain(forGood: Bool = false) -> Content {
    state.withLock { state in
      state.isSignalled = false
      state.hasEnded = state.hasEnded || forGood
      defer { state.content = Content() }
      return state.content
    }
  }

  @discardableResult
  private func put(_ change: (inout Content) -> Void) -> Bool {
    let (isTaken, wake) = state.withLock { state in
      guard !state.hasEnded else { return (false, false) }
      change(&state.content)
      defer { state.isSignalled = true }
      return (true, !state.isSignalled)
    }
    // Never read, as it is edge-triggered. The 64-bit counter cannot overflow.
    if wake { _ = clinux_wake(wakeup) }
    return isTaken
  }
}
