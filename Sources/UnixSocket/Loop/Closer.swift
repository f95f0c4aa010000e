import Glibc
import Synchronization

/// Closes sockets whose close(2) may wait, on threads of its own: those of Dispatch run Swift's tasks.
final class Closer: Sendable {
  /// At once; the others wait, each with the descriptor that it has.
  static let threads = 64
  /// Of these, a user's.
  static let threadsOfUser = 16

  private struct Work {
    var socket: Int32
    var then: @Sendable () -> Void
  }

  /// A user's, while there are any.
  private struct Share {
    var waiting: [Work] = []
    var threads = 0
  }

  private struct State {
    var shares: [UInt32: Share] = [:]
    var threads = 0

    /// The user's next work for a thread, or that of another who has none.
    mutating func next(after uid: UInt32) -> (uid: UInt32, Work)? {
      shares[uid]?.threads -= 1
      if let share = shares[uid], share.waiting.isEmpty, share.threads == 0 { shares[uid] = nil }
      let fewest = shares.filter { !$0.value.waiting.isEmpty && $0.value.threads < Closer.threadsOfUser }
        .min { $0.value.threads < $1.value.threads }?.key
      guard let fewest, let work = shares[fewest]?.waiting.popLast() else {
        threads -= 1
        return nil
      }
      shares[fewest]?.threads += 1
      return (fewest, work)
    }
  }

  private let state = Mutex(State())

  /// - Parameter uid: whose connection it was.
  func close(_ socket: Int32, of uid: UInt32, then action: @escaping @Sendable () -> Void) {
    let first = state.withLock { state -> Work? in
      let work = Work(socket: socket, then: action)
      guard state.threads < Self.threads, state.shares[uid, default: Share()].threads < Self.threadsOfUser else {
        state.shares[uid, default: Share()].waiting.append(work)
        return nil
      }
      state.threads += 1
      state.shares[uid, default: Share()].threads += 1
      return work
    }
    guard let first, OwnThread.start("close", { self.close(first, of: uid) }) != 0 else { return }
    // There can be no thread now: a later one closes it.
    state.withLock { state in
      state.threads -= 1
      state.shares[uid]?.threads -= 1
      state.shares[uid]?.waiting.append(first)
    }
  }

  private func close(_ work: Work, of uid: UInt32) {
    var (work, uid) = (work, uid)
    while true {
      Glibc.close(work.socket)
      work.then()
      guard let next = state.withLock({ $0.next(after: uid) }) else { return }
      (uid, work) = next
    }
  }
}
