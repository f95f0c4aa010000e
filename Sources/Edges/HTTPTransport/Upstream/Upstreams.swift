import Broker
import FoundationEssentials
import Listening
import NIOCore
import OAuth
import Synchronization

/// Requests of one event loop, and their shared connections. Data passed on for a client are sent on the loop of the
/// client's connection: they never change threads (decision 58).
public final class Upstreams {
  private let names: NameLookups
  private let contexts: TLSContexts
  private let flushes: TurnFlush
  private let uptime: @Sendable () -> Duration
  private let loop: any EventLoop
  private var proxies: HTTPProxies
  private var pools: [UpstreamServer: UpstreamPool] = [:]
  private var tick: RepeatedTask?
  private var isClosed = false

  init(
    names: NameLookups, contexts: TLSContexts, proxies: HTTPProxies, uptime: @escaping @Sendable () -> Duration,
    loop: any EventLoop
  ) {
    self.names = names
    self.proxies = proxies
    self.contexts = contexts
    self.uptime = uptime
    self.loop = loop
    flushes = TurnFlush(loop)
  }

  /// Sends a request. Its caller bounds how long it may take.
  public func send(_ request: UpstreamRequest, to receiver: any UpstreamReceiver) -> UpstreamExchange {
    let exchange = UpstreamExchange(request, receiver)
    guard !isClosed else {
      let bound = NIOLoopBound(exchange, eventLoop: loop)
      loop.execute { bound.value.fail(.init(.notSent, "the broker is ending")) }
      return exchange
    }
    pool(of: request.server).send(exchange)
    return exchange
  }

  /// The connections to one server, for tests.
  func connections(to server: UpstreamServer) -> UpstreamPool.Counts { pools[server]?.counts ?? .init() }

  private func pool(of server: UpstreamServer) -> UpstreamPool {
    if let pool = pools[server] { return pool }
    let pool = UpstreamPool(
      server, proxy: proxies.proxy(for: server), names: names, contexts: contexts, flushes: flushes, uptime: uptime,
      loop: loop)
    pools[server] = pool
    if tick == nil {
      let own = NIOLoopBound(self, eventLoop: loop)
      tick = loop.scheduleRepeatedTask(initialDelay: .seconds(1), delay: .seconds(1)) { _ in own.value.checkTimes() }
    }
    return pool
  }

  /// For requests from now on. Requests that were sent end as they began.
  func use(_ new: HTTPProxies) {
    proxies = new
    for (server, pool) in pools { pool.proxy = new.proxy(for: server) }
  }

  /// Closes long-idle connections. Otherwise it does so once a second.
  func checkTimes() {
    let now = NIODeadline.now()
    for (server, pool) in pools where !pool.checkTime(now) { pools[server] = nil }
    guard pools.isEmpty else { return }
    tick?.cancel()
    tick = nil
  }

  func close() {
    isClosed = true
    tick?.cancel()
    for pool in pools.values { pool.close() }
    pools = [:]
  }
}

/// The ``Upstreams`` of every event loop.
final class AllUpstreams: Sendable {
  private let names: NameLookups
  private let contexts = TLSContexts()
  private struct State {
    var isClosed = false
    var loops: [ObjectIdentifier: NIOLoopBound<Upstreams>] = [:]
    var proxies = HTTPProxies()
  }

  private let state = Mutex(State())

  private let uptime: @Sendable () -> Duration

  init(names: NameLookups, uptime: @escaping @Sendable () -> Duration) {
    self.names = names
    self.uptime = uptime
  }

  /// Called on the loop.
  func on(_ loop: any EventLoop) -> Upstreams {
    state.withLock { state in
      if let known = state.loops[ObjectIdentifier(loop)] { return known }
      let upstreams = Upstreams(
        names: names, contexts: contexts, proxies: state.proxies, uptime: uptime, loop: loop)
      if state.isClosed { upstreams.close() }
      let new = NIOLoopBound(upstreams, eventLoop: loop)
      state.loops[ObjectIdentifier(loop)] = new
      return new
    }.value
  }

  var currentProxies: HTTPProxies { state.withLock { $0.proxies } }

  func use(_ proxies: HTTPProxies) {
    let all = state.withLock { state in
      state.proxies = proxies
      return Array(state.loops.values)
    }
    for one in all { one.eventLoop.execute { one.value.use(proxies) } }
  }

  func close() async {
    let all = state.withLock { state in
      state.isClosed = true
      return Array(state.loops.values)
    }
    for one in all { try? await one.eventLoop.submit { one.value.close() }.get() }
  }
}

extension HTTPProxies {
  func proxy(for server: UpstreamServer) -> HTTPProxy? {
    proxy(isSecure: server.isSecure, host: server.host, port: server.port)
  }

  func proxy(for url: URL) -> HTTPProxy? {
    let isSecure = url.scheme?.lowercased() != "http"
    let host = (url.host() ?? "").lowercased().filter { $0 != "[" && $0 != "]" }
    return proxy(isSecure: isSecure, host: host, port: url.port ?? (isSecure ? 443 : 80))
  }
}
