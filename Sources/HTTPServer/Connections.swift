import BrokerAPI
import Callers
import Glibc
import Logging
import NIOCore
import NIOPosix

/// Who may connect: the callers of one server's connections, and their places. Lives on the server's own loop; the
/// connections are served by all loops.
final class Connections {
  private struct Open {
    let connection: ServedConnection
    let holder: Holder
  }

  /// Who is at the other end, as the kernel says at accept.
  enum Origin: Sendable {
    case process(Caller)
    case peer(LoopbackPeer)
    /// Nobody here has the other end: it ended, or is in another network namespace.
    case nobody
  }

  private let limits: HTTPServer.Limits
  private let application: any HTTPApplication
  private let logger: Logger
  private let loop: any EventLoop
  private let callers: LoopbackCallers
  private let served: [ObjectIdentifier: NIOLoopBound<ServedConnections>]
  private var open: [ObjectIdentifier: Open] = [:]
  private var shares: Shares
  /// Connections whose caller is looked for, by user: one look at a time, so that one user keeps one thread at most.
  private var lookups: [Holder: [() -> Void]] = [:]
  private var stopped: EventLoopPromise<Void>?

  init(
    _ limits: HTTPServer.Limits, _ application: any HTTPApplication, groups: ControlGroups, logger: Logger,
    loop: any EventLoop, served: [ObjectIdentifier: NIOLoopBound<ServedConnections>]
  ) {
    self.limits = limits
    self.application = application
    self.logger = logger
    self.loop = loop
    self.served = served
    callers = LoopbackCallers(groups: groups)
    shares = Shares(all: limits.connections, perHolder: limits.connectionsPerHolder)
  }

  // MARK: Who calls

  /// On the loop of the connection: nothing of it is read before its caller is known and it has a place.
  static func origin(of channel: any Channel, at address: LocalListener, _ groups: ControlGroups) throws -> Origin {
    switch address {
    case .unix:
      let caller = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
        descriptor -> Caller? in
        guard let credentials = Peer.credentials(of: descriptor) else { return nil }
        return try? Peer(of: descriptor, credentials, groups: groups).caller
      }
      return (caller ?? nil).map(Origin.process) ?? .nobody
    case .loopback: return ServedConnections.peer(of: channel).map(Origin.peer) ?? .nobody
    }
  }

  func accept(_ channel: any Channel, _ origin: Origin, isPort: Bool) {
    switch origin {
    case .process(let caller): begin(channel, caller, of: caller.holder, peer: nil)
    case .peer(let peer) where application.identifiesCallers: identify(peer, channel)
    case .peer(let peer): begin(channel, nil, of: callers.holder(of: peer), peer: nil)
    case .nobody where isPort && !application.identifiesCallers: begin(channel, nil, of: .user(.max), peer: nil)
    case .nobody: channel.close(promise: nil)
    }
  }

  /// - Parameter isSearched: its unit was looked for. Where that could not be done, it has none.
  private func identify(_ peer: LoopbackPeer, _ channel: any Channel, isSearched: Bool = false) {
    if let caller = callers.known(peer) ?? (isSearched ? callers.withoutUnit(peer) : nil) {
      return begin(channel, caller, of: caller.holder, peer: peer)
    }
    // Of one holder's connections one is looked up at a time. The others wait, and have their places already.
    guard takePlace(callers.holder(of: peer)) else { return channel.close(promise: nil) }
    let holder = callers.holder(of: peer)
    func again(isSearched: Bool) -> () -> Void {
      { [self] in
        shares.giveBack(of: holder)
        identify(peer, channel, isSearched: isSearched)
      }
    }
    if lookups[holder] != nil {
      lookups[holder]?.append(again(isSearched: false))
      return
    }
    lookups[holder] = [again(isSearched: true)]
    let callers = self.callers
    NIOThreadPool.singleton.runIfActive(eventLoop: loop) { _ = callers.find(peer) }.assumeIsolated().whenComplete {
      [self] _ in
      for again in lookups.removeValue(forKey: holder) ?? [] { again() }
    }
  }

  // MARK: Places

  private func takePlace(_ holder: Holder) -> Bool {
    for _ in 0..<2 {
      switch shares.take(for: holder) {
      case nil: return true
      case .ofHolder: guard closeIdle(of: holder) else { return false }
      case .ofAll: guard let largest = shares.largest(beside: holder), closeIdle(of: largest) else { return false }
      }
    }
    return false
  }

  /// Closes the connection of a holder that has been idle the longest; false: none is.
  private func closeIdle(of holder: Holder) -> Bool {
    let idle = open.values.lazy.filter { $0.holder == holder }
      .compactMap { one in one.connection.idle.map { (one.connection, $0) } }
    guard let (longest, _) = idle.min(by: { $0.1 < $1.1 }) else { return false }
    longest.channel.close(promise: nil)
    forget(longest)
    return true
  }

  /// Its place is free.
  private func forget(_ connection: ServedConnection) {
    guard let one = open.removeValue(forKey: ObjectIdentifier(connection)) else { return }
    shares.giveBack(of: one.holder)
    if open.isEmpty { stopped?.succeed() }
  }

  private func begin(_ channel: any Channel, _ caller: Caller?, of holder: Holder, peer: LoopbackPeer?) {
    guard stopped == nil, takePlace(holder) else {
      logger.debug("a connection was refused: too many at once", metadata: ["holder": "\(holder)"])
      return channel.close(promise: nil)
    }
    let connection = ServedConnection(channel)
    open[ObjectIdentifier(connection)] = Open(connection: connection, holder: holder)
    channel.closeFuture.hop(to: loop).assumeIsolated().whenComplete { [self] _ in forget(connection) }
    guard let served = served[ObjectIdentifier(channel.eventLoop)] else { return channel.close(promise: nil) }
    @Sendable func begin() {
      do { try served.value.begin(connection, caller, peer: peer) } catch { channel.close(promise: nil) }
    }
    channel.eventLoop.inEventLoop ? begin() : channel.eventLoop.execute(begin)
  }

  // MARK: The end

  /// Ends idle connections now, and all others at last after ``HTTPServer/Limits/stop``.
  func stop() -> EventLoopFuture<Void> {
    let promise = loop.makePromise(of: Void.self)
    stopped = promise
    for one in served.values { one.eventLoop.execute { one.value.stop() } }
    if open.isEmpty {
      promise.succeed()
    } else {
      loop.assumeIsolated().scheduleTask(in: TimeAmount(limits.stop)) { [self] in
        for one in Array(open.values) { one.connection.channel.close(promise: nil) }
      }
    }
    return promise.futureResult
  }
}
