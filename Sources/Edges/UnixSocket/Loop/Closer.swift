import CLinux
import Platform
import Synchronization

/// Closes sockets whose close(2) may block, on separate threads: those of Dispatch run Swift's tasks.
///
/// A socket that is being closed has no descriptor any more. One that waits for a thread keeps its descriptor, so these are
/// counted by user, whether the connection got a slot or was refused before.
final class Closer: Sendable {
  /// At once; the others wait, each with the descriptor that it has.
  static let threads = 64
  /// The maximum of these for one user, and for all callers without a rule.
  static let threadsOfUser = 16
  static let threadsOfUnnamed = 32
  /// Sockets that wait: of a user, and of all users. Beyond it new connections of a user with waiting ones are refused.
  static let waitingOfUser = 128
  static let waitingOfAll = 1024
  /// Microseconds after which a close is interrupted. It ends then if it waits for a socket (SO_LINGER), not if it waits
  /// for a file system (FUSE).
  static let patience: Int64 = 2000

  /// Whose connection it was.
  struct Account: Hashable {
    /// The owner of a subordinate user id.
    var user: UInt32
    /// No rule is for it, or it was refused before that was known.
    var isUnnamed: Bool
  }

  private struct Work {
    var socket: Int32
    var then: @Sendable () -> Void
  }

  /// An account's, while there are any.
  private struct Closing {
    var waiting: [Work] = []
    var threads = 0
  }

  private struct State {
    var accounts: [Account: Closing] = [:]
    var threads = 0
    var waiting = 0

    /// A user's, with and without a rule.
    func sum(of user: UInt32, _ count: (Closing) -> Int) -> Int {
      [true, false].reduce(0) { $0 + (accounts[Account(user: user, isUnnamed: $1)].map(count) ?? 0) }
    }

    func mayStart(_ account: Account) -> Bool {
      guard sum(of: account.user, \.threads) < Closer.threadsOfUser else { return false }
      return !account.isUnnamed
        || accounts.reduce(0) { $0 + ($1.key.isUnnamed ? $1.value.threads : 0) } < Closer.threadsOfUnnamed
    }

    mutating func start(_ account: Account) {
      accounts[account, default: Closing()].threads += 1
    }

    mutating func wait(_ work: Work, of account: Account) {
      accounts[account, default: Closing()].waiting.append(work)
      waiting += 1
    }

    /// A thread of this account has ended, or has other work now.
    mutating func end(_ account: Account) {
      accounts[account]?.threads -= 1
      if let closing = accounts[account], closing.waiting.isEmpty, closing.threads == 0 { accounts[account] = nil }
    }

    /// The next work for a thread, of the account with the fewest threads; nil: the thread ends.
    mutating func next(after account: Account) -> (account: Account, Work)? {
      end(account)
      let fewest = accounts.filter { !$0.value.waiting.isEmpty && mayStart($0.key) }
        .min { $0.value.threads < $1.value.threads }?.key
      guard let fewest, let work = accounts[fewest]?.waiting.popLast() else {
        threads -= 1
        return nil
      }
      waiting -= 1
      start(fewest)
      return (fewest, work)
    }
  }

  private let state = Mutex(State())
  private let closeSocket: @Sendable (Int32) -> Void

  /// - Parameter close: close(2).
  init(close: @escaping @Sendable (Int32) -> Void) { closeSocket = close }

  /// Whether no further connection of the user is served until some of its sockets are closed.
  func isFull(_ user: UInt32) -> Bool {
    state.withLock { state in
      guard state.waiting > 0 else { return false }
      let own = state.sum(of: user, \.waiting.count)
      return own >= Self.waitingOfUser || own > 0 && state.waiting >= Self.waitingOfAll
    }
  }

  /// - Parameter action: called when it is closed.
  func close(_ socket: Int32, of account: Account, then action: @escaping @Sendable () -> Void) {
    let first = state.withLock { state -> Work? in
      let work = Work(socket: socket, then: action)
      guard state.threads < Self.threads, state.mayStart(account) else {
        state.wait(work, of: account)
        return nil
      }
      state.threads += 1
      state.start(account)
      return work
    }
    guard let first, OwnThread.start("close", { self.close(first, of: account) }) != 0 else { return }
    // There can be no thread now: a later one closes it.
    state.withLock { state in
      state.threads -= 1
      state.wait(first, of: account)
      state.end(account)
    }
  }

  private func close(_ work: Work, of account: Account) {
    clinux_interrupt_waits(Self.patience)
    defer { clinux_interrupt_waits(0) }
    var (work, account) = (work, account)
    while true {
      closeSocket(work.socket)
      work.then()
      guard let next = state.withLock({ $0.next(after: account) }) else { return }
      (account, work) = next
    }
  }
}
