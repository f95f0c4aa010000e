public import BrokerAPI
public import FoundationEssentials
import Grants
import Logging
public import Principals

// What the edges ask of the broker, beside the socket's methods.
extension Broker {
  /// State for the socket's event loop.
  public nonisolated var cache: TokenCache { accounts.cache }
  /// Actions and refusals, with their callers.
  public nonisolated var trail: AuditTrail { door.audit.trail }

  // MARK: The callback endpoint

  /// The port that the callback endpoint had before, so that pending logins survive a restart.
  public var previousCallbackPort: Int? { journal.values[Self.portKey].flatMap { Int($0) } }

  /// The loopback ports of redirect URIs that are registered at providers of the store.
  public var registeredCallbackPorts: Set<Int> { clients.registrations.callbackPorts }

  private static let portKey = "callback.port"

  /// The callback endpoint listens on its own port, if that is free, and on the ports that providers fix.
  public func callbackListens(
    port: Int?, others: Set<Int>, addresses: [String], failures: [BrokerStatus.ListenerView] = []
  ) async {
    clients.addresses.listens(port: port, others: others, addresses: addresses, failures: failures)
    guard let port, journal.values[Self.portKey] != String(port) else { return }
    await journal.put(Self.portKey, String(port), "the callback port")
  }

  // MARK: Lock

  /// The lock of a user's broker. Without it `broker.lock` holds all releases.
  public func locks(with keyLock: any KeyLock) { tokens.hold.locks(with: keyLock) }

  /// Locks a user's broker under the passphrase of the previous lock, as at a suspend.
  ///
  /// - Parameter cause: for the log.
  public func lock(because cause: String, by caller: Principal) async throws(RPCError) {
    runtime.logger.notice("locking: \(cause)")
    _ = try await tokens.hold.begin(nil, by: caller)
  }

  // MARK: Units' credentials

  /// The account's access token, or its session, for a unit that is being started.
  public func credential(_ request: CredentialRequest) async -> Result<SecretText, RPCError> {
    await tokens.credentials.credential(request)
  }

  /// A connection got no credential by the socket's own decision. Called on its event loop, and waits for nothing.
  public nonisolated func credentialWithheld(_ withheld: CredentialWithheld) { tokens.credentials.withheld(withheld) }

  // MARK: Events, metrics, the audit trail

  /// Calls back with every event, after its change is on disk. The action must not block.
  public func onEvent(_ action: @escaping @Sendable (Event) -> Void) { runtime.events.onEvent(action) }

  /// Further numbers from other parts of the daemon. The source must not block.
  public func alsoMeasure(_ source: @escaping @Sendable () -> [MetricFamily]) {
    runtime.measures.sources.append(source)
  }

  /// Tells which callers the socket held back. The source must not wait.
  public func onStatus(_ source: @escaping @Sendable () -> BrokerStatus.HeldBackView?) {
    runtime.measures.heldBack = source
  }

  /// The HTTP listeners. The source must not wait.
  public func onListeners(_ source: @escaping @Sendable () -> [BrokerStatus.ListenerView]) {
    runtime.measures.listeners = source
  }

  /// Who opens the web page (`ui.open`).
  public nonisolated func onPage(_ opener: any PageOpener) { upkeep.page.set(opener) }

  /// Everything that is counted, as OpenMetrics 1.0 text.
  public func metricsText() async -> String { await reports.views.metricsText() }

  /// Writes the trail until the task is cancelled; what is left then is for ``finishTrail()``.
  public nonisolated func keepTrail() async { await trail.run(sleep: runtime.clock.system.sleep) }

  /// After the last request.
  public nonisolated func finishTrail() async { await trail.flush() }
}

extension Broker: CallbackHandler {
  public func handleCallback(url: String, from browser: BrowserUser) async -> CallbackOutcome {
    await logins.handleCallback(url: url, from: browser)
  }
  public func openLogin(token: String, from browser: BrowserUser) async -> LoginOpening {
    await logins.openLogin(token: token, from: browser)
  }
  public func awaitsFragment(url: String) async -> Bool { await logins.awaitsFragment(url: url) }
  public func handleLogout(provider: String, form: Data) async -> LogoutOutcome {
    await logout.backChannel.handleLogout(provider: provider, form: form)
  }
}
