import Glibc
import Platform
import Principals
import Synchronization

/// Closes sockets whose close(2) may block, on separate threads: those of Dispatch run Swift's tasks.
final class Closer: Sendable {
  /// At once; the others wait, each with the descriptor that it has.
  static let threads = 64
  /// The maximum of these for one holder, and for all callers without a rule.
  static let threadsOfUser = 16
  static let threadsOfUnnamed = 32

  private struct Work {
    var socket: Int32
    var then: @Sendable () -> Void
  }

  /// A holder's, while there are any.
  private struct Closing {
    var waiting: [Work] = []
    var threads = 0
  }

  private struct State {
    var shares: [Share: Closing] = [:]
    var threads = 0

    func mayStart(_ share: Share) -> Bool {
      guard shares[share]?.threads ?? 0 < Closer.threadsOfUser else { return false }
      return !share.isUnnamed
        || shares.reduce(0) { $0 + ($1.key.isUnnamed ? $1.value.threads : 0) } < Closer.threadsOfUnnamed
    }

    /// The holder's next work for a thread, or that of another who has none.
    mutating func next(after share: Share) -> (share: Share, Work)? {
      shares[share]?.threads -= 1
      if let closing = shares[share], closing.waiting.isEmpty, closing.threads == 0 { shares[share] = nil }
      let fewest = shares.filter { !$0.value.waiting.isEmpty && mayStart($0.key) }
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

  /// - Parameter share: whose connection it was.
  func close(_ socket: Int32, of share: Share, then action: @escaping @Sendable () -> Void) {
    let first = state.withLock { state -> Work? in
      let work = Work(socket: socket, then: action)
      guard state.threads < Self.threads, state.mayStart(share) else {
        state.shares[share, default: Closing()].waiting.append(work)
        return nil
      }
      state.threads += 1
      state.shares[share, default: Closing()].threads += 1
      return work
    }
    guard let first, OwnThread.start("close", { self.close(first, of: share) }) != 0 else { return }
    // There can be no thread now: a later one closes it.
    state.withLock { state in
      state.threads -= 1
      state.shares[share]?.threads -= 1
      state.shares[share]?.waiting.append(first)
    }
  }

  private func close(_ work: Work, of share: Share) {
    var (work, share) = (work, share)
    while true {
      Glibc.close(work.socket)
      work.then()
      guard let next = state.withLock({ $0.next(after: share) }) else { return }
      (share, work) = next
    }
  }
}
