import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth
import Principals
import Synchronization

/// Callers' views of the whole broker.
@BrokerActor
final class Views: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  let engine: RefreshEngine
  let logins: Logins
  let revocations: Revocations
  let journal: Journal
  let door: Door
  let addresses: CallbackAddresses
  let identity: BrokerIdentity
  let reloading: Reloading
  private(set) var startedAt: Timestamp

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, engine: RefreshEngine, logins: Logins,
    revocations: Revocations, journal: Journal, door: Door, addresses: CallbackAddresses, reloading: Reloading,
    _ identity: BrokerIdentity
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.engine = engine
    self.logins = logins
    self.revocations = revocations
    self.journal = journal
    self.door = door
    self.addresses = addresses
    self.reloading = reloading
    self.identity = identity
    startedAt = runtime.clock.now
  }

  func clockStepped(by step: Duration) { startedAt = startedAt + step }

  func status(
    for caller: Principal, files: [BrokerStatus.FileView], hold: BrokerStatus.HoldView?
  ) async -> BrokerStatus.Result {
    let ending = await refreshTokensEnding(for: caller)
    let counts = stateCounts()
    let permissions = door.authorizer.policy.permissions(of: caller)
    return BrokerStatus.Result(
      version: identity.version, instance: door.authorizer.policy.instance.rawValue, pid: identity.pid,
      state: isDraining ? "shutting_down" : "running", started_at: startedAt.seconds, summary: summary,
      accounts: Dictionary(uniqueKeysWithValues: AccountState.allCases.map { ($0.rawValue, counts[$0, default: 0]) }),
      providers: providers.count, pending_logins: logins.unendedCount,
      callback: addresses.addresses,
      store: storeView,
      configuration: .init(path: reloading.configuration.path, loaded_at: accounts.configuredAt.seconds),
      provider_conditions: providers.sorted.map(conditionView),
      refresh_tokens_ending: ending,
      caller: caller.uid.map {
        .init(
          uid: Int64($0), access: Dictionary(uniqueKeysWithValues: permissions.map { ($0.key.rawValue, $0.value) }))
      },
      held_back: heldBack(for: caller), files: files.isEmpty ? nil : files,
      listeners: listenerViews, set_aside: setAside(for: caller), clock: clockView, hold: hold,
      sharing: journal.store.sharing)
  }

  /// The clock, if it shows an earlier time than when a saved token was issued.
  var clockView: BrokerStatus.ClockView? {
    guard let newest = accounts.wrongClock else { return nil }
    let behind = newest - now
    return .init(
      behind_seconds: behind.wholeSeconds,
      message: "this machine's clock is wrong, or was: it shows \(now.text), and a saved token was issued at "
        + newest.text,
      hint: "Set the clock: `timedatectl` shows whether it is synchronized. Until then tokens on disk are refreshed "
        + "before they are used.")
  }

  private var listenerViews: [BrokerStatus.ListenerView]? {
    let views = addresses.failures + measures.edges.listeners()
    return views.isEmpty ? nil : views
  }

  /// The list of delayed callers is not for all callers.
  private func heldBack(for caller: Principal) -> BrokerStatus.HeldBackView? {
    var view = measures.edges.heldBack()
    if !door.authorizer.policy.allows(.manage, account: nil, caller: caller) { view?.latest = nil }
    return view
  }

  private var storeView: BrokerStatus.StoreView {
    let path = journal.store.location
    guard let failure = journal.failure else {
      if !journal.isSlow, let lost = journal.store.lostCommits, let view = olderView(lost) { return view }
      guard journal.isSlow else { return repairedView ?? .init(path: path, state: "ok", message: nil) }
      return .init(
        path: path, state: "slow", message: "a commit takes long",
        hint: "Look at the disk: `iostat -x 1`, `journalctl -k`. Answers wait until what they say is on it.",
        since: journal.oldestCommit.map { wall($0).seconds })
    }
    if journal.store.writesFail != nil {
      return .init(
        path: path, state: "degraded", message: failure.message,
        hint: "Mount it read-write: grantd then continues within 30 s. Until then it returns the tokens on disk and "
          + "begins no refresh and no login.",
        since: journal.failingSince?.seconds, held_back: engine.heldBackCount)
    }
    return .init(
      path: path, state: "failing", message: failure.message, hint: failure.hint,
      since: journal.failingSince?.seconds, held_back: engine.heldBackCount)
  }

  /// How many accounts are in each state.
  func stateCounts() -> [AccountState: Int] {
    accounts.stateCounts(overdue: engine.restingCount).values.reduce(into: [:]) { all, counts in
      all.merge(counts) { $0 + $1 }
    }
  }

  /// `12 ok, 1 needs login`.
  var summary: String {
    let counts = stateCounts()
    var parts: [String] = []
    func add(_ count: Int, _ text: String) { if count > 0 { parts.append("\(count) \(text)") } }
    add(counts[.ok, default: 0] + counts[.refreshing, default: 0], "ok")
    add(counts[.degraded, default: 0], "degraded")
    let logins = counts[.loginRequired, default: 0]
    add(logins, logins == 1 ? "needs login" : "need login")
    let actions = counts[.actionRequired, default: 0]
    add(actions, actions == 1 ? "needs an admin" : "need an admin")
    let text = parts.isEmpty ? "no accounts yet" : parts.joined(separator: ", ")
    return journal.failure == nil ? text : text + "; the state cannot be written"
  }

  /// Refresh tokens that have ended or end soon, of accounts whose grant still lives and that the caller may see.
  private func refreshTokensEnding(for caller: Principal) async -> Int {
    var count = 0
    var batch = Batch(of: Batch.light)
    for account in engine.refreshTokensEnding {
      if door.authorizer.policy.allows(
        .observe, method: BrokerStatus.name, account: account.rawValue, caller: caller)
      {
        count += 1
      }
      await batch.next()
    }
    return count
  }

  // MARK: Providers

  private func conditionView(_ connection: ProviderConnection) -> BrokerStatus.ConditionView {
    let (condition, since, retryAt, failure): (String, Timestamp?, Timestamp?, FailureRecord?) =
      switch connection.condition {
      case .ok: ("ok", nil, nil, nil)
      case .recovering: ("recovering", nil, nil, nil)
      case .suspended(let failure, let until): ("suspended", failure.at, until, failure)
      case .unreachable(let failure, let since, let retryAt): ("unreachable", since, retryAt, failure)
      }
    return .init(
      provider: connection.provider.name.rawValue, condition: condition, since: since?.seconds,
      retry_at: retryAt?.seconds,
      skew_seconds: connection.observed.skew.map { Double($0.offset.milliseconds) / 1000 },
      last_error: failure?.message ?? connection.diagnostics.lastError,
      odd_answers: connection.diagnostics.oddities.isEmpty ? nil : connection.diagnostics.oddities,
      lost_grants: measures.providers[connection.provider.name].flatMap { $0.lost == 0 ? nil : Int($0.lost) })
  }

  func providerList() -> ProviderList.Result {
    .init(providers: providers.sorted.map(view))
  }

  func provider(_ params: ProviderGet.Params) async throws(RPCError) -> ProviderGet.Result {
    let name = try providerName(params.provider)
    guard let asked = providers[name] else { throw providers.unknown(params.provider) }
    let metadata = try? await asked.currentMetadata().get()
    guard let connection = providers[name] else { throw providers.unknown(params.provider) }
    let tokens = connection.provider.tokenTraits
    let traits = connection.provider.authorizationTraits
    var endpoints: [String: String] = [:]
    endpoints["authorization"] = metadata?.endpoints[.authorization]?.absoluteString
    endpoints["token"] = metadata?.endpoints[.token]?.absoluteString
    endpoints["jwks"] = metadata?.endpoints[.keys]?.absoluteString
    endpoints["userinfo"] = metadata?.endpoints[.userinfo]?.absoluteString
    endpoints["revocation"] = metadata?.endpoints[.revocation]?.absoluteString
    let supports = [
      "refresh": metadata?.supported.grantTypes?.contains("refresh_token") ?? true,
      "revocation": metadata?.endpoints[.revocation] != nil, "userinfo": metadata?.endpoints[.userinfo] != nil,
      "id_token": tokens.usesIDTokens, "pkce": traits.usesPKCE,
      "sessions": connection.provider.logoutTraits.listsSessions,
    ]
    return .init(
      provider: view(connection), redirect_uri: addresses.redirectAddress(traits), endpoints: endpoints,
      supports: supports,
      metadata_fetched_at: connection.metadata.known?.at.seconds)
  }

  private func view(_ connection: ProviderConnection) -> ProviderView {
    let description = connection.provider.description
    let state =
      switch connection.condition {
      case .suspended: "suspended"
      case .unreachable: "unreachable"
      case .recovering: "recovering"
      // Nothing that needs the provider was asked for since; the first login would fail.
      case .ok: connection.metadata.known == nil && connection.metadata.failure != nil ? "unreachable" : "ok"
      }
    return ProviderView(
      provider: connection.provider.name.rawValue, kind: description.kind, profile: description.profile,
      display_name: description.displayName, issuer: description.issuer, client_id: description.clientID,
      scopes: connection.provider.tokenTraits.scopes,
      accounts: accounts.count(at: connection.provider.name), state: state,
      last_error: connection.diagnostics.lastError,
      refreshes_per_second: connection.gate.limit.rate.map { ($0 * 100).rounded() / 100 })
  }
}

extension ProviderList: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    broker.reports.views.providerList()
  }
}

extension ProviderGet: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    var result = try await broker.reports.views.provider(call.params)
    if let name = ProviderName(rawValue: call.params.provider),
      let section = broker.clients.registrations.section(of: name)
    {
      (result.section, result.section_files) = (section.keys, section.files)
      result.section_base = section.base?.rawValue
    }
    if let name = ProviderName(rawValue: call.params.provider), let connection = broker.providers[name] {
      result.forward_path = broker.clients.resources.forwardPath(of: connection.provider)
    }
    return result
  }
}

extension BrokerStatus: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    await broker.reports.views.status(
      for: call.caller, files: broker.tokens.files.views(for: call.caller), hold: broker.tokens.hold.view)
  }
}
