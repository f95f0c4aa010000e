import Broker
import BrokerAPI
import Callback
import Callers
import GrantdConfiguration
import Listening
import Logging
import NIOPosix
import OAuth
import Providers
import UnixSocket

/// The callback listeners: one for the broker's own port, and one for each other loopback port that a provider's
/// registered redirect URIs fix. A port that is taken stops no token from being served.
actor CallbackServing {
  /// Calls the attempt after the pause, unless the task is cancelled before.
  typealias Retry = @Sendable (_ pause: Duration, _ attempt: @escaping @Sendable () async -> Void) -> Task<Void, Never>

  /// How often a taken port is tried again.
  private static let retryPause = Duration.seconds(30)

  private let keeper: SocketKeeper?
  private let logger: Logger
  private let planRetry: Retry
  private var main: CallbackListener?
  private var fixed: [Int: CallbackListener] = [:]
  /// The ports that could not be had.
  private var failures: [BrokerStatus.ListenerView] = []
  private var broker: Broker?
  private var settings = Settings()
  private var retry: Task<Void, Never>?
  private var preferredPort: Int?
  /// The end has begun: nothing more is listened to.
  private var isEnding = false
  private var changes = SerialTasks<[String]>()

  init(
    keeper: SocketKeeper?, logger: Logger, planRetry: @escaping Retry = { Live.retry(after: $0, $1) }
  ) {
    self.keeper = keeper
    self.logger = logger
    self.planRetry = planRetry
  }

  func open(_ settings: Settings, broker: Broker, preferredPort: Int?) async {
    self.broker = broker
    self.preferredPort = preferredPort
    _ = await update(settings)
  }

  /// Listens at these settings' addresses; failures are returned, and tried again. One update at a time.
  func update(_ new: Settings) async -> [String] { await change { _ in new } }

  /// In order; `new` makes the new settings from the active ones.
  private func change(_ new: @escaping @Sendable (Settings) -> Settings) async -> [String] {
    await changes.add { await self.apply(new) }.value
  }

  private func apply(_ change: @Sendable (Settings) -> Settings) async -> [String] {
    guard !isEnding else { return [] }
    let new = change(settings)
    var warnings: [String] = []
    if main != nil, new.callback != settings.callback { warnings.append("[callback] changes with the next restart") }
    settings = main == nil ? new : settings
    settings.providers = new.providers
    settings.systems = new.systems
    failures = []
    guard settings.callback.enabled else { return warnings }
    let (paths, site) = (wantedPaths(), publicSite())
    if let main {
      main.update(paths: paths, publicSite: site)
    } else {
      main = await listen(mainPort(), paths, &warnings)
    }
    let registered = await broker?.registeredCallbackPorts ?? []
    let ports = registered.union(settings.webAddresses.compactMap { $0.isLoopback ? $0.port : nil }).subtracting(
      [main?.port].compactMap(\.self))
    for (port, listener) in fixed where !ports.contains(port) {
      await listener.retire()
      fixed[port] = nil
    }
    for port in ports.sorted() {
      if let listener = fixed[port] {
        listener.update(paths: paths, publicSite: site)
      } else if !isEnding {
        fixed[port] = await listen((port, nil), paths, &warnings)
      }
    }
    await notifyBroker()
    scheduleRetry(missing: main == nil || fixed.count < ports.count)
    return warnings
  }

  /// The end has begun: later browsers wait for the next process, if possible.
  func standBack() async {
    isEnding = true
    retry?.cancel()
    for listener in all { await listener.standBack() }
  }

  func close() async {
    isEnding = true
    retry?.cancel()
    // It may be about to listen somewhere.
    _ = await changes.latest?.value
    await withTaskGroup { group in
      for listener in all { group.addTask { await listener.stop() } }
    }
  }

  private var all: [CallbackListener] {
    [main].compactMap(\.self) + fixed.sorted { $0.key < $1.key }.map(\.value)
  }

  /// The configured port, else the one it had before.
  private func mainPort() -> (port: Int, preferred: Int?) { (settings.callback.port, preferredPort) }

  private func listen(
    _ port: (port: Int, preferred: Int?), _ paths: [String], _ warnings: inout [String]
  ) async -> CallbackListener? {
    guard let broker else { return nil }
    let listener = CallbackListener(
      configuration: .init(
        port: port.port, preferredPort: port.preferred, paths: paths, publicSite: publicSite(),
        ipv4: settings.callback.ipv4, ipv6: settings.callback.ipv6), handler: broker,
      group: MultiThreadedEventLoopGroup.singleton, keeper: keeper,
      users: .init(ownerOfSubordinate: { SubordinateUsers.shared.owner(of: $0) }), logger: logger)
    do throws(CallbackListenerError) {
      try await listener.start()
    } catch {
      logger.error("\(error.description)")
      warnings.append(error.description)
      failures.append(
        .init(
          setting: "callback", address: "port \(port.port)", state: "failed", message: error.description,
          hint:
            "grantd tries the port again every \(Self.retryPause.components.seconds) s. Until then: `grantctl login "
            + "PROVIDER --manual`, or --device."))
      return nil
    }
    for warning in listener.warnings { logger.notice("\(warning)") }
    if isEnding { await listener.standBack() }
    return listener
  }

  private func notifyBroker() async {
    await broker?.callbackListens(
      port: main?.port, others: Set(fixed.keys), addresses: all.flatMap { $0.addresses }.map { "http://\($0)" },
      failures: failures)
  }

  private func scheduleRetry(missing: Bool) {
    retry?.cancel()
    guard missing, !isEnding else { return }
    retry = planRetry(Self.retryPause) { _ = await self.change { $0 } }
  }

  /// What browsers find under the name that a proxy passes on; a reload changes it with everything else.
  var publicOrigin: String? { settings.callback.enabled ? settings.callback.publicOrigin : nil }

  private func publicSite() -> CallbackListener.PublicSite? {
    publicOrigin.map { origin in
      let here = settings.webAddresses.filter { $0.origin == origin }
      let below = settings.systems.filter(\.redirectsWithNonce).compactMap(\.site.redirect.fixed)
        .filter { $0.origin == origin }.map { Self.below($0.path) }
      return .init(origin: origin, paths: Set(here.map(\.path) + below).sorted())
    }
  }

  private func wantedPaths() -> [String] {
    let paths = settings.providers.map(\.client.redirect).map(Self.path)
    let systems = settings.systems.map { system in
      let path = Self.path(system.site.redirect)
      return system.redirectsWithNonce ? Self.below(path) : path
    }
    let returns = settings.providers.compactMap(Self.postLogoutRedirect).filter(\.isLoopback).map(\.path)
    return Set(paths + systems + returns + ["/callback"]).sorted()
  }

  private static func path(_ redirect: ProviderSettings.Redirect) -> String {
    switch redirect {
    case .loopback(_, let path): path
    case .fixed(let uri): uri.isLoopback ? uri.path : "/callback"
    }
  }

  /// Any single segment below.
  private static func below(_ path: String) -> String { path.hasSuffix("/") ? "\(path)*" : "\(path)/*" }

  private static func postLogoutRedirect(_ provider: ProviderSettings) -> RedirectURI? {
    provider.logout.postLogoutRedirectURI.flatMap(RedirectURI.init(rawValue:))
  }
}
