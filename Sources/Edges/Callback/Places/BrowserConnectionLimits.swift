import Broker
import HTTPServer
import NIOCore

/// Places by browser user: a user has as many as there are; once others wait, as many as each of them. Lives on one loop.
final class BrowserConnectionLimits: ConnectionLimits {
  /// A connection that is read.
  private struct Open {
    let connection: HTTPConnection
    let user: BrowserUser
    let begun = NIODeadline.now()
    /// It is being closed for another one.
    var isEvicted = false

    var age: TimeAmount { .now() - begun }
    /// Its request is not whole.
    var awaitsRequest: Bool { (.silent ... .inBody).contains(connection.progress) }
    /// Not a byte of its request has come.
    var isSilent: Bool { connection.progress == .silent }
  }

  /// A connection that was accepted and is not read yet.
  private struct Waiting {
    let connection: HTTPConnection
    let peer: BrowserPeer
    let user: BrowserUser
    let since = NIODeadline.now()
  }

  /// The time in which a waiting connection evicts no other: that of a client which has closed its end is noticed by then,
  /// unless the machine is busy.
  private static let settling = TimeAmount.milliseconds(20)

  private let context: CallbackWork.Context
  private let work: CallbackWork
  private let loop: any EventLoop
  private var open: [ObjectIdentifier: Open] = [:]
  private var waiting: [Waiting] = []
  private var nextLook: (due: NIODeadline, task: Scheduled<Void>)?

  private var limits: CallbackListener.Limits { context.configuration.limits }

  init(_ context: CallbackWork.Context, on loop: any EventLoop) {
    self.context = context
    self.loop = loop
    work = CallbackWork(context, on: loop)
  }

  /// It is read when it has a slot.
  func accepted(_ connection: HTTPConnection) {
    let peer = BrowserPeer(connection, context.users)
    waiting.append(Waiting(connection: connection, peer: peer, user: peer.knownUser.holder))
    if waiting.count > max(2, limits.waiting) { dropOne() }
    serve()
  }

  func ended(_ connection: HTTPConnection) {
    let count = waiting.count
    waiting.removeAll { $0.connection === connection }
    if open.removeValue(forKey: ObjectIdentifier(connection)) != nil || waiting.count < count { serve() }
  }

  /// Too many wait: the latest of the user who has the most is closed.
  private func dropOne() {
    let counts = Self.counts(waiting.lazy.map(\.user))
    guard let most = counts.values.max(), let index = waiting.lastIndex(where: { counts[$0.user] == most }) else {
      return
    }
    waiting.remove(at: index).connection.close()
  }

  /// Assigns free slots to waiting connections: first to the known users with the fewest, each user's in order.
  private func serve() {
    while !waiting.isEmpty {
      let counts = Self.counts(open.values.lazy.map(\.user))
      let isFull = open.count >= max(2, limits.connections)
      // Those of known users come first: a slot that was freed for one of them must not go to an unknown one.
      func rank(_ index: Int) -> (Int, Int) {
        let user = waiting[index].user
        return (user == .unknown ? 1 : 0, counts[user, default: 0])
      }
      guard let index = waiting.indices.min(by: { rank($0) < rank($1) }) else { return }
      guard !isFull else {
        let age = NIODeadline.now() - waiting[index].since
        return age < Self.settling
          ? lookAgain(in: Self.settling - age) : makeRoom(for: waiting[index].user, counts)
      }
      begin(waiting.remove(at: index))
    }
  }

  private static func counts(_ users: some Sequence<BrowserUser>) -> [BrowserUser: Int] {
    users.reduce(into: [:]) { $0[$1, default: 0] += 1 }
  }

  /// A user's connection waits. One of a user with more slots is closed, in any state: a login that it completes
  /// continues. Otherwise the oldest is closed that has sent nothing, or whose request is not complete in time.
  ///
  /// An unknown user has no share: on a busy machine it may be a client that has closed its end, and that is noticed
  /// later. Its callback would not complete a login.
  private func makeRoom(for user: BrowserUser, _ counts: [BrowserUser: Int]) {
    guard !open.values.contains(where: \.isEvicted) else { return }
    let most = counts.values.max() ?? 0
    if user != .unknown, counts[user, default: 0] + 1 < most {
      let candidates = open.values.filter { counts[$0.user] == most }
      return evict(candidates.min { ($0.connection.progress, $1.age) < ($1.connection.progress, $0.age) })
    }
    let incomplete = open.values.filter(\.awaitsRequest)
    let late = incomplete.filter { $0.age >= TimeAmount($0.isSilent ? limits.firstWords : limits.unhurried) }
    let silent = late.filter(\.isSilent)
    if let oldest = (silent.isEmpty ? late : silent).max(by: { $0.age < $1.age }) { return evict(oldest) }
    // Each has its time, then the next look.
    if !incomplete.isEmpty { lookAgain(in: TimeAmount(limits.firstWords)) }
  }

  private func lookAgain(in pause: TimeAmount) {
    let due = NIODeadline.now() + pause
    if let next = nextLook, next.due <= due { return }
    nextLook?.task.cancel()
    let task = loop.assumeIsolated().scheduleTask(in: pause) { [self] in
      nextLook = nil
      serve()
    }
    nextLook = (due, task)
  }

  private func evict(_ one: Open?) {
    guard let one else { return }
    open[ObjectIdentifier(one.connection)]?.isEvicted = true
    one.connection.close()
  }

  private func begin(_ one: Waiting) {
    open[ObjectIdentifier(one.connection)] = Open(connection: one.connection, user: one.user)
    one.connection.begin(CallbackConversation(context, work, one.peer))
  }

  /// The maximum time until every accepted connection has sent its request. Waiting ones are read.
  func grace() -> TimeAmount {
    close()
    let firstWords = TimeAmount(limits.firstWords)
    return open.values.filter(\.isSilent).map { max(.zero, firstWords - $0.age) }.max() ?? .zero
  }

  /// No more will arrive: the waiting ones, which have their own limit, need no slots.
  func close() {
    let all = waiting
    waiting = []
    for one in all { begin(one) }
  }
}

extension BrowserUser {
  /// Whose a connection counts as: subordinate user ids are their owner's.
  var holder: BrowserUser { if case .user(_, let owner?) = self { .user(owner) } else { self } }
}
