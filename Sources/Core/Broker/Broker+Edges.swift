public import BrokerAPI
public import FoundationEssentials
import Grants
import Logging
public import Principals

extension Broker {
  /// The parts of the daemon that the broker calls, in addition to its store, its transport and the like. All are created
  /// before it. The functions must not wait.
  public struct Edges: Sendable {
    /// Called with every event, after its change is on disk.
    public var onEvent: @Sendable (Event) -> Void = { _ in }
    /// Called when another program has taken the state over: this process must end, and writes nothing more.
    public var onLoss: @Sendable () -> Void = {}
    /// The metrics of the other parts.
    public var metrics: @Sendable () -> [MetricFamily] = { [] }
    /// The callers that the socket held back; nil: none.
    public var heldBack: @Sendable () -> BrokerStatus.HeldBackView? = { nil }
    /// The HTTP listeners.
    public var listeners: @Sendable () -> [BrokerStatus.ListenerView] = { [] }
    /// The lock of a user's broker; nil: `broker.lock` holds all releases.
    public var keyLock: (any KeyLock)?
    /// Opens the web page (`ui.open`).
    public var page: (any PageOpener)?

    public init() {}
  }
}

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

  // MARK: Metrics, the audit trail

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
