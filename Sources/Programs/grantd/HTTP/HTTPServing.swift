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
    await socket.open(socketListener(settings), LoopbackListener(application, .process))
  }

  /// The configured listeners.
  var views: [BrokerStatus.ListenerView] { [metrics, port, socket].compactMap(\.view) }

  /// Opens changed addresses before a reload changes anything.
  ///
  /// - Throws: `invalid_configuration` if one cannot be served; then none is open.
  func prepare(_ settings: Settings) async throws(RPCError) {
    do throws(RPCError) {
      for (serving, address) in wanted(settings) where !(await isServed(address, by: serving)) {
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
    for (serving, address) in wanted(settings) { await serving.abandon(address) }
  }

  /// - Returns: a warning for each listener that cannot be had.
  func update(_ settings: Settings) async -> [String] {
    var warnings: [String] = []
    for (serving, address) in wanted(settings) {
      if let warning = await serving.update(address) { warnings.append(warning) }
    }
    return warnings
  }

  /// - Parameter limit: how long requests under way may take.
  func close(within limit: Duration) async {
    async let metricsEnd: Void = metrics.close(within: limit)
    async let portEnd: Void = port.close(within: limit)
    await socket.close(within: limit)
    _ = await (metricsEnd, portEnd)
  }

  /// The addresses of all listeners with these settings.
  private func wanted(_ settings: Settings) -> [(LocalServing, LocalListener?)] {
    [
      (metrics, settings.metrics.listen.map(LocalListener.init)), (port, settings.http.listen.map(LocalListener.init)),
      (socket, socketListener(settings)),
    ]
  }

  private func socketListener(_ settings: Settings) -> LocalListener? {
    places.httpSocketPath(settings).map { .unix(path: $0) }
  }
}
