import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth
import Principals
import Providers
import Synchronization

@testable import Broker

func account(_ name: String) -> AccountName { AccountName(rawValue: name)! }
func provider(_ name: String) -> ProviderName { ProviderName(rawValue: name)! }

extension Caller {
  static let root = Caller(uid: 0, gid: 0, groups: [], pid: 1)
  static func user(_ uid: UInt32, groups: [UInt32] = []) -> Caller {
    Caller(uid: uid, gid: uid, groups: groups, pid: 100)
  }
}

/// A connection that keeps the received messages.
final class FakeSession: Session {
  let principal: Principal
  private let state = Mutex(State())

  private struct State {
    var told: [JSON] = []
    var isGone = false
    var isHeldOpen = false
    var closing: [@Sendable () -> Void] = []
  }

  convenience init(_ caller: Caller) { self.init(.process(caller)) }

  init(_ principal: Principal) { self.principal = principal }

  var isReading: Bool { state.withLock { !$0.isGone } }
  var told: [JSON] { state.withLock { $0.told } }
  var types: [String] { told.compactMap { $0["type"]?.string } }
  var closing: Int { state.withLock { $0.closing.count } }

  func notify(method: String, params: JSON) -> Bool {
    state.withLock { state in
      guard !state.isGone else { return false }
      state.told.append(params)
      return true
    }
  }

  func holdOpen() { state.withLock { $0.isHeldOpen = true } }
  var isHeldOpen: Bool { state.withLock { $0.isHeldOpen } }

  func onClose(_ action: @escaping @Sendable () -> Void) { state.withLock { $0.closing.append(action) } }

  func close() {
    let actions = state.withLock { state in
      state.isGone = true
      return state.closing
    }
    for action in actions { action() }
  }
}

/// A broker with everything around it scripted.
final class Rig: Sendable {
  let clock: ManualClock
  let store: MemoryStore
  let audit: MemoryAuditStore
  let transport: ScriptedTransport
  let broker: Broker
  let router: Router
  /// What the next reload reads.
  let reading: ReloadBox

  init(
    clock: ManualClock = ManualClock(), store: MemoryStore = MemoryStore(),
    transport: ScriptedTransport = ScriptedTransport(), configuration: BrokerConfiguration = .plain(),
    audit: MemoryAuditStore = MemoryAuditStore(), administration: (any StoreAdministration)? = nil,
    registrar: (any Registrar)? = nil,
    tokenFiles: (any TokenFileDisk)? = nil, wholeAccounts: Int = 128, edges: Broker.Edges = Broker.Edges(),
    isAsked: Bool = true,
    logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
  ) async throws {
    self.audit = audit
    self.clock = clock
    self.store = store
    self.transport = transport
    let reading = ReloadBox(.success(configuration))
    self.reading = reading
    broker = await Broker(
      store: store, transport: transport, system: clock.system,
      identity: BrokerIdentity(version: "0", pid: 1, host: "a.example"), configuration: configuration,
      logger: logger, registrar: registrar,
      auditStore: audit, administration: administration, tokenFiles: tokenFiles, wholeAccounts: wholeAccounts,
      edges: edges, reloader: ScriptedReloads(reading))
    router = Router(broker)
    try await broker.start()
    // Each was requested before, so it is served from the cache.
    if isAsked { for name in await broker.accounts.names { await broker.accounts.serve(name) } }
    await broker.callbackListens(port: 8400, others: [], addresses: ["http://127.0.0.1:8400"])
  }

  /// A call of a program, by the same path.
  func call<M: RPCMethod>(_ method: M.Type, _ params: M.Params, as caller: Caller = .root) async throws -> M.Result {
    try await call(method, params, on: FakeSession(caller))
  }

  func call<M: RPCMethod>(_ method: M.Type, _ params: M.Params, on session: FakeSession) async throws -> M.Result {
    let request = RPCRequest(method: M.name, params: JSON(encoding: params), isNotification: false)
    return try await router.respond(to: request, session: session).get().decode(M.Result.self)
  }

  func token(_ account: String, minTTL: Double? = nil, timeout: Double? = nil) async throws -> TokenGet.Result {
    try await call(TokenGet.self, .init(account: account, min_ttl: minTTL, timeout: timeout))
  }

  func view(_ account: String) async throws -> AccountView { try await call(AccountGet.self, .init(account: account)) }

  /// The reason of the call's failure; nil if it succeeds.
  func reason<Value>(_ body: () async throws -> Value) async -> ErrorReason? {
    do {
      _ = try await body()
      return nil
    } catch {
      return (error as? RPCError)?.reason
    }
  }

  /// The same, while time passes.
  func reasonInTime<Value>(_ body: @Sendable () async throws -> Value) async -> ErrorReason? {
    await clock.passes { await reason(body) }
  }

  func cached(
    _ account: String, minTTL: Int64? = nil, scopes: String? = nil, as caller: Caller = .root
  ) -> CachedReply? {
    router.cachedTokens(for: .process(caller)).reply(account: account, minTTL: minTTL, scopes: scopes)
  }
}

extension BrokerConfiguration {
  static func plain(
    _ providers: [any Provider] = [OAuthProvider(.plain())], rules: [Rule] = [],
    _ change: (inout RefreshPolicy) -> Void = { _ in }
  ) -> BrokerConfiguration {
    var refresh = RefreshPolicy()
    change(&refresh)
    return BrokerConfiguration(
      providers: providers, policy: Policy(instance: .system, owner: 990, rules: rules), refresh: refresh, path: nil)
  }
}

extension ProviderSettings {
  /// Plain OAuth 2.0 with configured endpoints.
  static func plain(_ name: String = "example", _ change: (inout ProviderSettings) -> Void = { _ in }) -> Self {
    var settings = ProviderSettings(name: provider(name), kind: .oauth2, displayName: name, clientID: "client")
    settings.server.endpoints[.authorization] = "https://id.example/authorize"
    settings.server.endpoints[.token] = "https://id.example/token"
    settings.server.endpoints[.revocation] = "https://id.example/revoke"
    settings.access.scopes = ["read"]
    change(&settings)
    return settings
  }

  /// The same, its endpoints from its metadata.
  static func discovered(_ name: String = "example") -> Self {
    plain(name) { settings in
      settings.server.endpoints = [:]
      settings.server.issuer = Issuer(rawValue: "https://id.example")
      settings.server.discovery = .oauth
    }
  }
}

extension MemoryStore {
  /// An account signed in `age` ago with an hour of `lifetime`; the token `name-a1`, the refresh token `name-r1`.
  func signIn(
    _ name: String, provider providerName: String = "example", age: Duration = .zero,
    lifetime: Duration? = .seconds(3600),
    scopes: [String] = ["read"], refreshes: Bool = true, standing: Standing = .good,
    at now: Timestamp = ManualClock.start
  ) async throws {
    let issuedAt = now - age
    let grant = SavedGrant(
      account: account(name), provider: provider(providerName), identity: Identity(subject: name),
      requestedScopes: scopes, grantedScopes: scopes, refreshToken: refreshes ? Secret("\(name)-r1") : nil,
      generation: 1, standing: standing, createdAt: issuedAt, loggedInAt: issuedAt)
    let token = SavedToken(
      account: account(name), accessToken: Secret("\(name)-a1"), type: "Bearer", scopes: scopes, generation: 1,
      issuedAt: issuedAt, expiresAt: lifetime.map { issuedAt + $0 })
    try await commit([.putGrant(grant), .putToken(token)])
  }
}
