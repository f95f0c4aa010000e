import Broker
import BrokerAPI
import GrantdConfiguration
import HTTPServer
import Logging
import Loopback
import MetricsEndpoint

/// All HTTP except the callback endpoint: the metrics, and the interface for programs.
struct HTTPServing: Sendable {
  private let metrics: LocalServing
  private let port: LocalServing
  private let socket: LocalServing
  private let places: Places

  init(_ places: Places, _ kept: KeptDescriptors, logger: Logger) {
    self.places = places
    metrics = LocalServing(
      .init(
        name: "metrics", key: "[metrics] listen", path: "/metrics", limits: .metrics, keeper: kept.keeper("metrics")),
      logger: logger)
    port = LocalServing(.init(name: "HTTP", key: "[http] listen", keeper: kept.keeper("http")), logger: logger)
    var limits = HTTPServer.Limits()
    // As for the broker's own socket: the policy decides, by the kernel's identification of the caller.
    limits.mode = places.instance == .system ? 0o666 : 0o600
    socket = LocalServing(.init(name: "HTTP", key: "[http] unix", limits: limits), logger: logger)
  }

  func open(_ settings: Settings, _ broker: Broker, _ application: LoopbackApplication) async {
    await metrics.open(
      settings.metrics.listen.map(LocalListener.init), MetricsApplication { await broker.metricsText() })
    await port.open(settings.http.listen.map(LocalListener.init), LoopbackListener(application, .peer))
    await socket.open(socketAddress(settings), LoopbackListener(application, .process))
  }

  /// The configured listeners.
  var views: [BrokerStatus.ListenerView] { [metrics, port, socket].compactMap(\.view) }

  /// Opens changed addresses before a reload changes anything.
  ///
  /// - Throws: `invalid_configuration` if one cannot be served; then none is open.
  func prepare(_ settings: Settings) async throws(RPCError) {
    let wanted = [
      (metrics, settings.metrics.listen.map(LocalListener.init)), (port, settings.http.listen.map(LocalListener.init)),
      (socket, socketAddress(settings)),
    ]
    do throws(RPCError) {
      for (serving, address) in wanted where !(await isServed(address, by: serving)) {
        try await serving.prepare(address)
      }
    } catch {
      await abandon(settings)
      throw error
    }
  }

  /// Whether another listener of the broker has the address now, and gives it up in the same reload.
  private func isServed(_ address: LocalListener?, by serving: LocalServing) async -> Bool {
    guard let address else { return false }
    for other in [metrics, port, socket] where other !== serving {
      if await other.isServing(address) { return true }
    }
    return false
  }

  /// Closes the prepared listeners of these settings, unless they are in use, or another reload has prepared them too.
  func abandon(_ settings: Settings) async {
    await metrics.abandon(settings.metrics.listen.map(LocalListener.init))
    await port.abandon(settings.http.listen.map(LocalListener.init))
    await socket.abandon(socketAddress(settings))
  }

  /// - Returns: a warning for each listener that cannot be had.
  func update(_ settings: Settings) async -> [String] {
    let warnings = [
      await metrics.update(settings.metrics.listen.map(LocalListener.init)),
      await port.update(settings.http.listen.map(LocalListener.init)),
      await socket.update(socketAddress(settings)),
    ]
    return warnings.compactMap(\.self)
  }

  /// - Parameter limit: how long requests under way may take.
  func close(within limit: Duration) async {
    async let metricsEnd: Void = metrics.close(within: limit)
    async let portEnd: Void = port.close(within: limit)
    await socket.close(within: limit)
    _ = await (metricsEnd, portEnd)
  }

  private func socketAddress(_ settings: Settings) -> LocalListener? {
    places.httpSocketPath(settings).map { .unix(path: $0) }
  }
}
