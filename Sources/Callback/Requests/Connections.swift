import Broker
import FoundationEssentials
import Logging
import NIOCore
import NIOHTTP1

/// The open connections. A user has as many places as there are; once others wait, as many as each of them. Lives on one
/// loop.
final class Connections {
  /// What every connection needs.
  struct Context: Sendable {
    var configuration: CallbackListener.Configuration
    var paths: Paths
    var handler: any CallbackHandler
    var users: CallbackListener.PeerUsers
    var logger: Logger

    var limits: CallbackListener.Limits { configuration.limits }
  }

  /// A connection that is read.
  private struct Open {
    let handler: RequestHandler
    let channel: any Channel
    let user: BrowserUser
    /// It is being closed for another one.
    var isEvicted = false
  }

  /// A connection that was accepted and is not read yet.
  private struct Waiting {
    let channel: any Channel
    let peer: Peer
    let user: BrowserUser
    let early: EarlyBytes
    let since = NIODeadline.now()
  }

  /// For so long a connection that waits takes no place from another. Of one whose client has gone the kernel no longer
  /// says whose it was: it would have a user's share of its own, and is noticed and closed by then.
  private static let settling = TimeAmount.milliseconds(20)

  let context: Context
  private let loop: any EventLoop
  private var open: [ObjectIdentifier: Open] = [:]
  private var waiting: [Waiting] = []
  private var nextLook: (due: NIODeadline, task: Scheduled<Void>)?
  private var handlersAtWork: [BrowserUser: Int] = [:]
  private var logoutsAtWork = 0

  init(_ context: Context, loop: any EventLoop) {
    self.context = context
    self.loop = loop
  }

  // MARK: Places

  /// Whose a connection counts as: subordinate user ids are their owner's.
  private static func holder(of user: BrowserUser) -> BrowserUser {
    if case .user(_, let owner?) = user { .user(owner) } else { user }
  }

  /// Takes an accepted connection. It is read when it has a place. Each is accepted at once, so that the kernel's queue,
  /// which knows no users, stays empty.
  func receive(_ channel: any Channel) throws {
    let peer = Peer(channel, context.users)
    let early = EarlyBytes(limit: context.limits.requestLine + context.limits.headers)
    try channel.pipeline.syncOperations.addHandler(early)
    waiting.append(Waiting(channel: channel, peer: peer, user: Self.holder(of: peer.knownUser), early: early))
    channel.closeFuture.assumeIsolated().whenComplete { [self] _ in waiting.removeAll { $0.early === early } }
    if waiting.count > max(2, context.limits.waiting) { dropOne() }
    serve()
  }

  /// Too many wait: the latest of the user who has the most is closed.
  private func dropOne() {
    var counts: [BrowserUser: Int] = [:]
    for one in waiting { counts[one.user, default: 0] += 1 }
    guard let most = counts.values.max(), let index = waiting.lastIndex(where: { counts[$0.user] == most }) else {
      return
    }
    waiting.remove(at: index).channel.close(promise: nil)
  }

  /// Gives free places to those who wait: first to the users who have the fewest, each user's in their order.
  private func serve() {
    while !waiting.isEmpty {
      let counts = counts()
      guard
        let index = waiting.indices.min(by: {
          counts[waiting[$0].user, default: 0] < counts[waiting[$1].user, default: 0]
        })
      else { return }
      guard open.count < max(2, context.limits.connections) else {
        let age = NIODeadline.now() - waiting[index].since
        return age < Self.settling
          ? lookAgain(in: Self.settling - age) : makeRoom(for: waiting[index].user, counts)
      }
      begin(waiting.remove(at: index))
    }
  }

  private func counts() -> [BrowserUser: Int] {
    var counts: [BrowserUser: Int] = [:]
    for one in open.values { counts[one.user, default: 0] += 1 }
    return counts
  }

  /// A user's connection waits. One of a user who has more places than that is closed, whatever it does: a login that it
  /// completes goes on. Otherwise the oldest is closed that has sent nothing, or whose request is not whole in time.
  private func makeRoom(for user: BrowserUser, _ counts: [BrowserUser: Int]) {
    guard !open.values.contains(where: \.isEvicted) else { return }
    let most = counts.values.max() ?? 0
    if counts[user, default: 0] + 1 < most {
      let candidates = open.filter { counts[$0.value.user] == most }
      let first = candidates.min { one, other in
        let (one, other) = (one.value.handler, other.value.handler)
        return (one.progress, other.age) < (other.progress, one.age)
      }
      return evict(first?.key)
    }
    let incomplete = open.filter { $0.value.handler.awaitsRequest }
    func isLate(_ handler: RequestHandler) -> Bool {
      handler.age >= TimeAmount(handler.isSilent ? context.limits.firstWords : context.limits.unhurried)
    }
    let late = incomplete.filter { isLate($0.value.handler) }
    let silent = late.filter { $0.value.handler.isSilent }
    if let oldest = (silent.isEmpty ? late : silent).max(by: { $0.value.handler.age < $1.value.handler.age }) {
      return evict(oldest.key)
    }
    // Each has its time, then the next look.
    if !incomplete.isEmpty { lookAgain(in: TimeAmount(context.limits.firstWords)) }
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

  private func evict(_ id: ObjectIdentifier?) {
    guard let id else { return }
    open[id]?.isEvicted = true
    open[id]?.channel.close(promise: nil)
  }

  private func begin(_ connection: Waiting) {
    let channel = connection.channel
    do {
      let handler = try setUp(channel, connection.peer)
      let id = ObjectIdentifier(handler)
      open[id] = Open(handler: handler, channel: channel, user: connection.user)
      channel.closeFuture.assumeIsolated().whenComplete { [self] _ in
        open[id] = nil
        serve()
      }
      try connection.early.replay(on: channel.pipeline.syncOperations)
      try channel.syncOptions?.setOption(.autoRead, value: true)
    } catch {
      channel.close(promise: nil)
    }
  }

  private func setUp(_ channel: any Channel, _ peer: Peer) throws -> RequestHandler {
    let limits = context.limits
    let bodyLimit = BodyLimit(limits)
    let handler = RequestHandler(connections: self, bodyLimit: bodyLimit, peer: peer)
    var decoderLimits = NIOHTTPDecoderLimitConfiguration()
    decoderLimits.maxHeaderFieldSize = limits.headers
    decoderLimits.maxHeaderListSize = limits.headers
    decoderLimits.maxHeaderFieldCount = limits.headerCount
    let decoder = HTTPRequestDecoder(
      leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .drop, limitConfiguration: decoderLimits)
    try channel.pipeline.syncOperations.addHandlers([
      bodyLimit, HTTPResponseEncoder(), ByteToMessageHandler(decoder), handler,
    ])
    return handler
  }

  /// What is done about an address.
  enum Completion: Sendable {
    case outcome(CallbackOutcome)
    /// A page has to bring its fragment first.
    case fragmentWanted
  }

  /// Completes the login that `url` belongs to, off the loop. Nil: too many are being completed.
  ///
  /// The task is never cancelled, neither by a browser that goes away nor by the deadline: the code in `url` is good
  /// for one exchange, and its answer must not be lost.
  ///
  /// - Parameter isWhole: the fragment is in it where there is one.
  func complete(_ url: String, isWhole: Bool, from peer: Peer) -> EventLoopFuture<Completion>.Isolated? {
    let handler = context.handler
    return handle(from: peer) { browser in
      if !isWhole, await handler.awaitsFragment(url: url) { return .fragmentWanted }
      return .outcome(await handler.handleCallback(url: url, from: browser))
    }
  }

  /// Opens a link, off the loop. Nil: too many requests are being handled.
  func open(link token: String, from peer: Peer) -> EventLoopFuture<LoginOpening>.Isolated? {
    let handler = context.handler
    return handle(from: peer) { await handler.openLogin(token: token, from: $0) }
  }

  private func handle<Outcome: Sendable>(
    from peer: Peer, _ work: @escaping @Sendable (BrowserUser) async -> Outcome
  ) -> EventLoopFuture<Outcome>.Isolated? {
    let holder = Self.holder(of: peer.knownUser)
    guard handlersAtWork.values.reduce(0, +) < context.limits.handlers,
      handlersAtWork[holder, default: 0] < context.limits.handlersPerUser
    else { return nil }
    handlersAtWork[holder, default: 0] += 1
    return peer.user().flatMap { [self] browser in
      run {
        await work(browser)
      } ended: { [self] in
        let left = handlersAtWork[holder, default: 0] - 1
        handlersAtWork[holder] = left > 0 ? left : nil
      }.nonisolated()
    }
  }

  /// Hands a logout token over, off the loop. Nil: too many are being looked at.
  ///
  /// Nor is this task ever cancelled: a token that was remembered as taken must not be half done.
  func logOut(_ provider: String, _ bytes: Data) -> EventLoopFuture<LogoutOutcome>.Isolated? {
    guard logoutsAtWork < context.limits.logouts else { return nil }
    logoutsAtWork += 1
    let handler = context.handler
    return run {
      await handler.handleLogout(provider: provider, form: bytes)
    } ended: { [self] in
      logoutsAtWork -= 1
    }
  }

  private func run<Outcome: Sendable>(
    _ work: @escaping @Sendable () async -> Outcome, ended: @escaping () -> Void
  ) -> EventLoopFuture<Outcome>.Isolated {
    let promise = loop.makePromise(of: Outcome.self)
    promise.completeWithTask { await work() }
    let outcome = promise.futureResult.assumeIsolated()
    outcome.whenComplete { _ in ended() }
    return outcome
  }

  /// How long it may take until every connection that was just accepted has said what it wants. Those that wait are read.
  func grace() -> TimeAmount {
    beginAll()
    return open.values.map(\.handler.grace).max() ?? .zero
  }

  /// No more will come: those that wait, which have a bound of their own, need no places.
  private func beginAll() {
    let all = waiting
    waiting = []
    for one in all { begin(one) }
  }

  /// Ends idle connections now, and all others at last after `Limits.stop`.
  func stop() -> EventLoopFuture<Void> {
    beginAll()
    let closed = open.values.map(\.channel.closeFuture)
    let cut = loop.assumeIsolated().scheduleTask(in: TimeAmount(context.limits.stop)) { [self] in
      for one in open.values { one.channel.close(promise: nil) }
    }
    for one in Array(open.values) { one.handler.stop() }
    let all = EventLoopFuture.andAllComplete(closed, on: loop)
    all.assumeIsolated().whenComplete { _ in cut.cancel() }
    return all
  }
}
