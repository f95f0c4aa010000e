import Broker
import Foundation
import Logging
import NIOCore
import NIOHTTP1

/// The open connections. Lives on one loop.
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

  let permits: Permits
  let context: Context
  private let loop: any EventLoop
  private var open: [ObjectIdentifier: (handler: RequestHandler, channel: any Channel)] = [:]
  private var isLookingAgain = false
  private var handlersAtWork = 0
  private var logoutsAtWork = 0

  init(_ context: Context, loop: any EventLoop) {
    self.context = context
    self.loop = loop
    permits = Permits(max(2, context.limits.connections))
    permits.onShortage = { [weak self] in self?.makeRoom() }
  }

  /// A new connection waits: the oldest one that has sent nothing is closed, else the oldest whose request is not whole.
  /// So many idle connections keep nobody from signing in.
  private func makeRoom() {
    let waiting = open.values.filter { $0.handler.awaitsRequest }
    func isLate(_ handler: RequestHandler) -> Bool {
      handler.age >= TimeAmount(handler.isSilent ? context.limits.firstWords : context.limits.unhurried)
    }
    let late = waiting.filter { isLate($0.handler) }
    let silent = late.filter { $0.handler.isSilent }
    guard let oldest = (silent.isEmpty ? late : silent).max(by: { $0.handler.age < $1.handler.age }) else {
      // Each has its time, then the next look.
      guard !waiting.isEmpty, !isLookingAgain else { return }
      isLookingAgain = true
      _ = loop.assumeIsolated().scheduleTask(in: TimeAmount(context.limits.firstWords)) { [self] in
        isLookingAgain = false
        if permits.isShort { makeRoom() }
      }
      return
    }
    oldest.channel.close(promise: nil)
  }

  /// Sets an accepted connection up.
  func receive(_ channel: any Channel) throws {
    let limits = context.limits
    let bodyLimit = BodyLimit(limits)
    let handler = RequestHandler(connections: self, bodyLimit: bodyLimit, peer: Peer(channel, context.users))
    var decoderLimits = NIOHTTPDecoderLimitConfiguration()
    decoderLimits.maxHeaderFieldSize = limits.headers
    decoderLimits.maxHeaderListSize = limits.headers
    decoderLimits.maxHeaderFieldCount = limits.headerCount
    let decoder = HTTPRequestDecoder(
      leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .drop, limitConfiguration: decoderLimits)
    try channel.pipeline.syncOperations.addHandlers([
      bodyLimit, HTTPResponseEncoder(), ByteToMessageHandler(decoder), handler,
    ])
    let id = ObjectIdentifier(handler)
    open[id] = (handler, channel)
    channel.closeFuture.assumeIsolated().whenComplete { [self] _ in open[id] = nil }
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
    guard handlersAtWork < context.limits.handlers else { return nil }
    handlersAtWork += 1
    return peer.user().flatMap { [self] browser in
      run {
        await work(browser)
      } ended: { [self] in
        handlersAtWork -= 1
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

  /// How long it may take until every connection that was just accepted has said what it wants.
  var grace: TimeAmount { open.values.map(\.handler.grace).max() ?? .zero }

  /// Ends idle connections now, and all others at last after `Limits.stop`.
  func stop() -> EventLoopFuture<Void> {
    let closed = open.values.map(\.channel.closeFuture)
    let cut = loop.assumeIsolated().scheduleTask(in: TimeAmount(context.limits.stop)) { [self] in
      for (_, channel) in open.values { channel.close(promise: nil) }
    }
    for (handler, _) in Array(open.values) { handler.stop() }
    let all = EventLoopFuture.andAllComplete(closed, on: loop)
    all.assumeIsolated().whenComplete { _ in cut.cancel() }
    return all
  }
}
