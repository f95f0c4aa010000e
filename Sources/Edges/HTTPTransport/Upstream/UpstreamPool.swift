import Broker
import DequeModule
import Listening
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import OAuth

/// The connections of one event loop to one server. Lives on it.
final class UpstreamPool {
  /// Shorter than servers keep idle connections: a request on one that the server closed counts as lost.
  static let idle = Duration.seconds(5)
  /// An unused pool is removed after this time.
  private static let kept = TimeAmount.seconds(60)
  /// To connect and to be secure.
  static let connectTime = TimeAmount.seconds(10)
  /// The same where other addresses are left: all of them have to be tried before a request's time is over.
  private static let shortConnectTime = TimeAmount.seconds(4)

  private struct Connections {
    var idle: [UpstreamConnection] = []
    var open: [ObjectIdentifier: UpstreamConnection] = [:]
    /// Those being made.
    var connecting = 0
  }

  let server: UpstreamServer
  private let names: NameLookups
  private let contexts: TLSContexts
  let flushes: TurnFlush
  /// Since boot, including suspended time.
  let uptime: @Sendable () -> Duration
  private let loop: any EventLoop
  private var connections = Connections()
  private var waiting: Deque<UpstreamExchange> = []
  private var lastUse = NIODeadline.now()
  private var isClosed = false
  private var latestAddress: String?
  /// The proxy for new connections. Connections by another route get no more requests.
  var proxy: HTTPProxy?

  init(
    _ server: UpstreamServer, proxy: HTTPProxy?, names: NameLookups, contexts: TLSContexts, flushes: TurnFlush,
    uptime: @escaping @Sendable () -> Duration, loop: any EventLoop
  ) {
    self.server = server
    self.proxy = proxy
    self.names = names
    self.contexts = contexts
    self.flushes = flushes
    self.uptime = uptime
    self.loop = loop
  }

  // MARK: Requests

  func send(_ exchange: UpstreamExchange) {
    lastUse = .now()
    exchange.pool = self
    waiting.append(exchange)
    serve()
    connectAsNeeded()
  }

  /// Once more, on a new connection: kept ones may have ended together.
  func `repeat`(_ exchange: UpstreamExchange) {
    exchange.isRepeated = true
    guard !isClosed else { return exchange.fail(TransportError(.lost, "the broker is ending")) }
    let old = connections.idle
    connections.idle = []
    for connection in old { connection.close() }
    exchange.pool = self
    waiting.prepend(exchange)
    connectAsNeeded()
  }

  /// No caller waits for it any more.
  func remove(_ exchange: UpstreamExchange) { waiting.removeAll { $0 === exchange } }

  private func nextWaiting() -> UpstreamExchange? {
    let next = waiting.popFirst()
    next?.pool = nil
    return next
  }

  // MARK: Connections

  /// Has nothing to do until the next request.
  func free(_ connection: UpstreamConnection) {
    guard !isClosed else { return connection.close() }
    connections.idle.append(connection)
    guard !waiting.isEmpty else { return }
    // Not in this turn: the server's end may have come with its answer, and is seen only then.
    let own = NIOLoopBound(self, eventLoop: loop)
    loop.execute { own.value.serve() }
  }

  /// Assigns idle connections to waiting requests.
  private func serve() {
    while !waiting.isEmpty, let connection = connections.idle.last {
      // `uptime` includes suspended time, in which the server's time limit ran on.
      guard connection.isUsable, connection.proxy == proxy, connection.idleSince + Self.idle > uptime() else {
        connection.close()
        continue
      }
      guard let next = nextWaiting() else { continue }
      // It waited for a connection, or the process was stopped.
      guard !next.request.isTooLate(at: uptime()) else {
        next.fail(TransportError(.notSent, "the time to send the request to \(server.host) was over"))
        continue
      }
      guard next.receiver?.upstreamMaySend() == true else { continue }
      connections.idle.removeLast()
      connection.begin(next)
    }
  }

  /// It takes no more requests.
  func closed(_ connection: UpstreamConnection) {
    guard connections.open.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
    connections.idle.removeAll { $0 === connection }
    connectAsNeeded()
  }

  /// An address of the server, or of its proxy, works.
  func answered(from address: String, by route: UpstreamRoute) {
    guard latestAddress != address else { return }
    latestAddress = address
    names.works(address, of: route.proxy?.host ?? server.host)
  }

  private func connectAsNeeded() {
    while connections.connecting < waiting.count, connections.open.count + connections.connecting < server.pool.size {
      connections.connecting += 1
      connect()
    }
  }

  private func connect() {
    let own = NIOLoopBound(self, eventLoop: loop)
    Task { [server, proxy, names, contexts, loop] in
      let route: Result<UpstreamRoute, TransportError>
      do throws(TransportError) {
        route = .success(try await UpstreamRoute(to: server, via: proxy, names, contexts))
      } catch {
        route = .failure(error)
      }
      loop.execute { own.value.connect(route) }
    }
  }

  private func connect(_ route: Result<UpstreamRoute, TransportError>) {
    switch route {
    case .success(let route): connect(route, isOneOfMany: route.addresses.count > 1, first: nil)
    case .failure(let error): failed(error)
    }
  }

  /// Tries the addresses in order.
  ///
  /// - Parameter first: the failure of the first one, reported for all.
  private func connect(_ route: UpstreamRoute, isOneOfMany: Bool, first: TransportError?) {
    var route = route
    guard let address = route.addresses.popFirst(),
      let place = try? SocketAddress(ipAddress: address, port: route.port)
    else { return failed(first ?? TransportError(.notSent, "no connection to \(server.host)")) }
    let time = isOneOfMany ? Self.shortConnectTime : Self.connectTime
    let handshake = route.context.map { _ in loop.makePromise(of: Void.self) }
    let connection = UpstreamConnection(self, at: address, by: route, handshake: handshake)
    let tunnel = route.tunnel.map { ProxyTunnel(to: server, via: $0, on: loop) }
    let (bound, boundTunnel, rest) = (
      NIOLoopBound(connection, eventLoop: loop), NIOLoopBound(tunnel, eventLoop: loop), route
    )
    let begun = NIODeadline.now()
    ClientBootstrap(group: loop).connectTimeout(time)
      .channelOption(.tcpOption(.tcp_nodelay), value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          if let tunnel = boundTunnel.value { return try tunnel.add(to: channel) }
          try rest.add(bound.value, to: channel)
        }
      }
      .connect(to: place).assumeIsolated()
      .flatMap { [self] channel in
        guard let tunnel else {
          return handshake.map { secured($0, until: begun + time) } ?? loop.makeSucceededVoidFuture()
        }
        return tunnel.opened(on: channel).assumeIsolated().flatMapThrowing { try rest.add(bound.value, to: channel) }
          .nonisolated().assumeIsolated()
          .flatMap {
            handshake.map { self.secured($0, until: .now() + Self.connectTime) } ?? self.loop.makeSucceededVoidFuture()
          }
          .nonisolated()
      }
      .whenComplete { [self] result in
        switch result {
        case .success: ready(connection)
        case .failure(let error):
          handshake?.fail(error)
          connection.close()
          tunnel?.close()
          let failure = rest.error(error, isTunnelOpen: tunnel?.isOpen ?? false)
          guard failure.isOfAddress, !rest.addresses.isEmpty else { return failed(rest.named(first ?? failure)) }
          connect(rest, isOneOfMany: isOneOfMany, first: first ?? failure)
        }
      }
  }

  private func secured(_ handshake: EventLoopPromise<Void>, until deadline: NIODeadline) -> EventLoopFuture<Void> {
    let late = TransportError(.notSent, "no secure connection to \(server.peer(via: proxy)) in time", cause: .tls)
    let timer = loop.scheduleTask(deadline: deadline) { handshake.fail(late) }
    handshake.futureResult.whenComplete { _ in timer.cancel() }
    return handshake.futureResult
  }

  private func ready(_ connection: UpstreamConnection) {
    connections.connecting -= 1
    connections.open[ObjectIdentifier(connection)] = connection
    guard !isClosed else { return connection.close() }
    connection.isReady(at: uptime())
    connections.idle.append(connection)
    serve()
  }

  private func failed(_ error: TransportError) {
    connections.connecting -= 1
    nextWaiting()?.fail(error)
    connectAsNeeded()
  }

  struct Counts: Sendable, Equatable {
    var idle = 0
    var open = 0
    /// Requests.
    var waiting = 0
  }

  var counts: Counts { Counts(idle: connections.idle.count, open: connections.open.count, waiting: waiting.count) }

  // MARK: Time and the end

  /// Closes long-idle connections; false: none left.
  func checkTime(_ now: NIODeadline) -> Bool {
    let old = connections.idle.filter { $0.idleSince + Self.idle < uptime() }
    for connection in old { connection.close() }
    return !connections.open.isEmpty || connections.connecting > 0 || !waiting.isEmpty || lastUse + Self.kept > now
  }

  func close() {
    isClosed = true
    let exchanges = waiting
    waiting = []
    for one in exchanges { one.fail(TransportError(.notSent, "the broker is ending")) }
    for connection in Array(connections.open.values) { connection.close() }
  }
}
