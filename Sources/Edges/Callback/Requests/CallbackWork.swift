import Broker
import FoundationEssentials
import Logging
import NIOCore

/// Running work for browsers and providers, off the loop, and its limits. Used on one loop.
final class CallbackWork {
  /// Shared by every connection.
  struct Context: Sendable {
    var configuration: CallbackListener.Configuration
    var paths: Paths
    var handler: any CallbackHandler
    var users: CallbackListener.PeerUsers
    var logger: Logger
  }

  /// The action for a URL.
  enum Completion: Sendable {
    case outcome(CallbackOutcome)
    /// A page has to bring its fragment first.
    case fragmentWanted
  }

  private let handler: any CallbackHandler
  private let limits: CallbackListener.Limits
  private let loop: any EventLoop
  private var handlersAtWork: [BrowserUser: Int] = [:]
  /// By the provider that the request names.
  private var logoutsAtWork: [String: Int] = [:]

  init(_ context: Context, on loop: any EventLoop) {
    handler = context.handler
    limits = context.configuration.limits
    self.loop = loop
  }

  /// Completes the login of `url`. Nil: too many are being completed.
  ///
  /// The task is never cancelled, neither by a closed browser nor by the deadline: the code in `url` is valid for one
  /// exchange, and its answer must not be lost.
  ///
  /// - Parameter isWhole: it includes the fragment, if any.
  func complete(_ url: String, isWhole: Bool, from peer: BrowserPeer) -> EventLoopFuture<Completion>.Isolated? {
    handle(from: peer) { [handler] browser in
      if !isWhole, await handler.awaitsFragment(url: url) { return .fragmentWanted }
      return .outcome(await handler.handleCallback(url: url, from: browser))
    }
  }

  /// Opens a link. Nil: too many requests are being handled.
  func open(link token: String, from peer: BrowserPeer) -> EventLoopFuture<LoginOpening>.Isolated? {
    handle(from: peer) { [handler] in await handler.openLogin(token: token, from: $0) }
  }

  private func handle<Outcome: Sendable>(
    from peer: BrowserPeer, _ work: @escaping @Sendable (BrowserUser) async -> Outcome
  ) -> EventLoopFuture<Outcome>.Isolated? {
    let holder = peer.knownUser.holder
    guard handlersAtWork.values.reduce(0, +) < limits.handlers,
      handlersAtWork[holder, default: 0] < limits.handlersPerUser
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

  /// Hands a logout token over. Nil: too many are being looked at.
  ///
  /// Nor is this task ever cancelled: a token that was remembered as taken must not be half done.
  func logOut(_ provider: String, _ form: ByteBuffer) -> EventLoopFuture<LogoutOutcome>.Isolated? {
    guard logoutsAtWork.values.reduce(0, +) < limits.logouts,
      logoutsAtWork[provider, default: 0] < limits.logoutsPerProvider
    else { return nil }
    logoutsAtWork[provider, default: 0] += 1
    return run { [handler] in
      await handler.handleLogout(provider: provider, form: Data(form.readableBytesView))
    } ended: { [self] in
      let left = logoutsAtWork[provider, default: 0] - 1
      logoutsAtWork[provider] = left > 0 ? left : nil
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
}
