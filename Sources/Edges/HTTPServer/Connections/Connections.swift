import Callers
import Logging
import NIOCore

/// The connections of one server, from accept to their end. Lives on the server's own loop; they are served by all loops.
final class Connections {
  private let places: any ConnectionLimits
  private let loop: any EventLoop
  private let served: [ObjectIdentifier: NIOLoopBound<ServedConnections>]
  private var open: [ObjectIdentifier: HTTPConnection] = [:]
  private var stopped: EventLoopPromise<Void>?
  /// The rates of users whose connections are not accepted by an ``Acceptor``.
  private var uncounted: UserConnects

  init(
    _ limits: HTTPServer.Limits, _ application: any HTTPApplication, _ logger: Logger, loop: any EventLoop,
    served: [ObjectIdentifier: NIOLoopBound<ServedConnections>]
  ) {
    self.loop = loop
    self.served = served
    places = application.places(limits, on: loop, logger)
    uncounted = UserConnects(limits, logger)
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
    if case .peer(let peer) = connection.origin, !uncounted.isWithinRate(peer.uid, at: now) {
      return connection.close()
    }
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
