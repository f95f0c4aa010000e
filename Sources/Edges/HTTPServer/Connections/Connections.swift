import Callers
import Glibc
import Listening
import Logging
import NIOCore

/// The connections of one server, from accept to their end. Lives on the server's own loop; they are served by all loops.
final class Connections {
  private let places: any HTTPPlaces
  private let loop: any EventLoop
  private let served: [ObjectIdentifier: NIOLoopBound<ServedConnections>]
  private var open: [ObjectIdentifier: HTTPConnection] = [:]
  private var stopped: EventLoopPromise<Void>?
  private var uncounted: UncountedConnections

  init(
    _ limits: HTTPServer.Limits, _ application: any HTTPApplication, _ logger: Logger, loop: any EventLoop,
    served: [ObjectIdentifier: NIOLoopBound<ServedConnections>]
  ) {
    self.loop = loop
    self.served = served
    places = application.places(limits, on: loop, logger)
    uncounted = UncountedConnections(limits, logger)
  }

  /// Each is accepted at once, so that the kernel's queue, which knows no users, stays empty.
  func accept(_ connection: HTTPConnection) {
    guard stopped == nil else { return connection.close() }
    open[ObjectIdentifier(connection)] = connection
    connection.channel.closeFuture.hop(to: loop).assumeIsolated().whenComplete { [self] _ in
      open[ObjectIdentifier(connection)] = nil
      connection.record(.over, since: .now())
      places.ended(connection)
      if open.isEmpty { stopped?.succeed() }
    }
    if connection.progress != .over { places.accepted(connection) }
  }

  /// The same for a connection that no ``Admission`` has counted: it is closed if its user opens too many in a second.
  func acceptUncounted(_ connection: HTTPConnection, at now: NIODeadline = .now()) {
    guard uncounted.isWithinRate(connection.origin, at: now) else { return connection.close() }
    accept(connection)
  }

  /// Ends idle connections now, and all others after this time.
  func stop(within limit: Duration) -> EventLoopFuture<Void> {
    let promise = loop.makePromise(of: Void.self)
    stopped = promise
    places.close()
    for one in served.values { one.eventLoop.execute { one.value.stop() } }
    if open.isEmpty {
      promise.succeed()
    } else {
      let cut = loop.assumeIsolated().scheduleTask(in: TimeAmount(limit)) { [self] in
        // By their handlers first: an answer's end may be its connection's, and a cut one has to look cut.
        for one in served.values { one.eventLoop.execute { one.value.cut() } }
        for one in Array(open.values) where one.progress <= .silent { one.close() }
      }
      promise.futureResult.assumeIsolated().whenComplete { _ in cut.cancel() }
    }
    return promise.futureResult
  }
}

/// The rates of users whose connections are not accepted by an ``Acceptor``.
private struct UncountedConnections {
  private static let own = geteuid()

  private let logger: Logger
  private var rates: ConnectRates
  private var refusals = Refusals()

  init(_ limits: HTTPServer.Limits, _ logger: Logger) {
    self.logger = logger
    rates = ConnectRates(perSecond: limits.connectsPerSecond)
  }

  mutating func isWithinRate(_ origin: HTTPConnection.Origin, at now: NIODeadline) -> Bool {
    guard case .peer(let peer) = origin, peer.uid != 0, peer.uid != Self.own else { return true }
    let user = SubordinateUsers.shared.owner(of: peer.uid) ?? peer.uid
    guard !rates.acquire(user, at: now) else { return true }
    if refusals.refused(at: now) != nil {
      logger.warning("connections were refused: uid \(user) opens more than \(rates.perSecond) in a second")
    }
    return false
  }
}
