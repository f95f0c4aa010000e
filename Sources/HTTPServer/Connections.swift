import BrokerAPI
import Callers
import Glibc
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix

/// The open connections of one server. Lives on its loop.
final class Connections {
  private struct Open {
    let handler: ConnectionHandler
    let holder: Holder
  }

  let limits: HTTPServer.Limits
  let application: any HTTPApplication
  private let address: LocalListener
  private let logger: Logger
  private let loop: any EventLoop
  private let groups: ControlGroups
  private let callers: LoopbackCallers
  private var open: [ObjectIdentifier: Open] = [:]
  private var shares: Shares
  /// Connections whose caller is looked for, by user: one look at a time, so that one user keeps one thread at most.
  private var lookups: [Holder: [() -> Void]] = [:]
  private var tick: RepeatedTask?
  private var stopped: EventLoopPromise<Void>?

  init(
    _ limits: HTTPServer.Limits, _ application: any HTTPApplication, _ address: LocalListener, logger: Logger,
    loop: any EventLoop
  ) {
    self.limits = limits
    self.application = application
    self.address = address
    self.logger = logger
    self.loop = loop
    groups = ControlGroups()
    callers = LoopbackCallers(groups: groups)
    shares = Shares(all: limits.connections, perHolder: limits.connectionsPerHolder)
  }

  // MARK: Who calls

  /// Takes an accepted connection. Nothing of it is read before its caller is known and it has a place.
  func accept(_ channel: any Channel) throws {
    switch address {
    case .unix: try acceptLocal(channel)
    case .loopback: try acceptLoopback(channel)
    }
  }

  private func acceptLocal(_ channel: any Channel) throws {
    let groups = self.groups
    let caller = try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
      descriptor -> Caller? in
      guard let credentials = Peer.credentials(of: descriptor) else { return nil }
      return try? Peer(of: descriptor, credentials, groups: groups).caller
    }
    guard let caller = caller ?? nil else { return channel.close(promise: nil) }
    try begin(channel, caller, of: caller.holder, peer: nil)
  }

  private func acceptLoopback(_ channel: any Channel) throws {
    guard let peer = Self.peer(of: channel) else {
      // Nobody here has its other end: it ended, or is in another network namespace.
      guard !application.identifiesCallers else { return channel.close(promise: nil) }
      return try begin(channel, nil, of: .user(.max), peer: nil)
    }
    guard application.identifiesCallers else {
      return try begin(channel, nil, of: callers.holder(of: peer), peer: nil)
    }
    try identify(peer, channel)
  }

  /// - Parameter isSearched: its unit was looked for. Where that could not be done, it has none.
  private func identify(_ peer: LoopbackPeer, _ channel: any Channel, isSearched: Bool = false) throws {
    if let caller = callers.known(peer) ?? (isSearched ? callers.withoutUnit(peer) : nil) {
      return try begin(channel, caller, of: caller.holder, peer: peer)
    }
    // Of one holder's connections one is looked up at a time. The others wait, and have their places already.
    guard takePlace(callers.holder(of: peer)) else { return channel.close(promise: nil) }
    let holder = callers.holder(of: peer)
    func again(isSearched: Bool) -> () -> Void {
      { [self] in
        shares.giveBack(of: holder)
        do { try identify(peer, channel, isSearched: isSearched) } catch { channel.close(promise: nil) }
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

  /// Asks the kernel.
  static func peer(of channel: any Channel) -> LoopbackPeer? {
    guard let own = channel.localAddress, let other = channel.remoteAddress else { return nil }
    let peer = try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
      descriptor in
      own.withSockAddr { own, _ in
        other.withSockAddr { other, _ in LoopbackPeer(of: descriptor, own: own, other: other) }
      }
    }
    return peer ?? nil
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
    let idle = open.values.filter { $0.holder == holder && $0.handler.isIdle }
    guard let longest = idle.min(by: { $0.handler.since < $1.handler.since }) else { return false }
    longest.handler.close()
    forget(longest.handler)
    return true
  }

  /// Its place is free.
  private func forget(_ handler: ConnectionHandler) {
    guard let one = open.removeValue(forKey: ObjectIdentifier(handler)) else { return }
    shares.giveBack(of: one.holder)
    if open.isEmpty { ended() }
  }

  private func begin(_ channel: any Channel, _ caller: Caller?, of holder: Holder, peer: LoopbackPeer?) throws {
    guard stopped == nil, takePlace(holder) else {
      logger.debug("a connection was refused: too many at once", metadata: ["holder": "\(holder)"])
      return channel.close(promise: nil)
    }
    let handler = ConnectionHandler(self, application.conversation(with: caller), caller: caller, peer: peer)
    open[ObjectIdentifier(handler)] = Open(handler: handler, holder: holder)
    channel.closeFuture.assumeIsolated().whenComplete { [self] _ in forget(handler) }
    let pipeline = channel.pipeline.syncOperations
    // Answers say themselves how they are framed: that to HEAD as the one to GET would be.
    var framing = HTTPResponseEncoder.Configuration()
    framing.automaticallySetFramingHeaders = false
    var decoderLimits = NIOHTTPDecoderLimitConfiguration()
    decoderLimits.maxHeaderFieldSize = limits.head
    decoderLimits.maxHeaderListSize = limits.head
    decoderLimits.maxHeaderFieldCount = limits.headerCount
    try pipeline.addHandlers([
      FirstByte(handler), HTTPResponseEncoder(configuration: framing),
      ByteToMessageHandler(
        HTTPRequestDecoder(
          leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .drop, limitConfiguration: decoderLimits)),
      handler,
    ])
    // Else the handler does it when the channel becomes active: NIO drops a read that is asked for before.
    if channel.isActive { try channel.syncOptions?.setOption(.autoRead, value: true) }
    if tick == nil {
      let own = NIOLoopBound(self, eventLoop: loop)
      tick = loop.scheduleRepeatedTask(initialDelay: .seconds(1), delay: .seconds(1)) { _ in
        own.value.checkTimes()
      }
    }
  }

  private func checkTimes() {
    let now = NIODeadline.now()
    for one in Array(open.values) { one.handler.checkTime(now) }
  }

  // MARK: The end

  private func ended() {
    tick?.cancel()
    tick = nil
    stopped?.succeed()
  }

  /// Ends idle connections now, and all others at last after ``HTTPServer/Limits/stop``.
  func stop() -> EventLoopFuture<Void> {
    let promise = loop.makePromise(of: Void.self)
    stopped = promise
    for one in Array(open.values) { one.handler.stop() }
    if open.isEmpty {
      ended()
    } else {
      loop.assumeIsolated().scheduleTask(in: TimeAmount(limits.stop)) { [self] in
        for one in Array(open.values) { one.handler.close() }
      }
    }
    return promise.futureResult
  }
}

/// Tells the connection that something of a request came.
private final class FirstByte: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let handler: ConnectionHandler

  init(_ handler: ConnectionHandler) { self.handler = handler }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    handler.bytesCame()
    context.fireChannelRead(data)
  }
}
