public import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth
import Synchronization

extension Broker {
  func status(for caller: Caller) -> BrokerStatus.Result {
    let counts = stateCounts()
    let permissions = configuration.policy.permissions(of: caller)
    return BrokerStatus.Result(
      version: identity.version, instance: configuration.policy.instance.rawValue, pid: identity.pid,
      state: isDraining ? "shutting_down" : "running", started_at: startedAt.seconds, summary: currentSummary,
      accounts: Dictionary(uniqueKeysWithValues: AccountState.allCases.map { ($0.rawValue, counts[$0, default: 0]) }),
      providers: providers.count, pending_logins: logins.values.filter { $0.endedAt == nil }.count,
      callback: callbackAddresses,
      store: storeView, configuration: .init(path: configuration.path, loaded_at: loadedAt.seconds),
      provider_conditions: providers.keys.sorted().compactMap { providers[$0] }.map(conditionView),
      refresh_tokens_ending: refreshTokensEnding(for: caller),
      caller: .init(
        uid: Int64(caller.uid),
        access: Dictionary(uniqueKeysWithValues: permissions.map { ($0.key.rawValue, $0.value) })))
  }

  private var storeView: BrokerStatus.StoreView {
    guard let storeFailure else {
      guard storeIsSlow else { return .init(path: store.location, state: "ok", message: nil) }
      return .init(
        path: store.location, state: "slow", message: "a commit takes long",
        hint: "Look at the disk: `iostat -x 1`, `journalctl -k`. Answers wait until what they say is on it.",
        since: commits.values.min().map { wall($0).seconds })
    }
    return .init(
      path: store.location, state: "failing", message: storeFailure.message, hint: storeFailure.hint,
      since: storeFailingSince?.seconds, held_back: heldBack)
  }

  /// How many accounts' refreshes are due and wait for the store.
  private var heldBack: Int {
    grants.values.filter { grant in
      guard grant.saved.isRenewable, providers[grant.saved.provider] != nil, holdsBack(grant) != nil else {
        return false
      }
      return grant.nextMoment(policy: configuration.refresh, at: now).map { $0 <= now } ?? false
    }.count
  }

  private func conditionView(_ line: ProviderLine) -> BrokerStatus.ConditionView {
    let (condition, since, retryAt, failure): (String, Timestamp?, Timestamp?, Failure?) =
      switch condition(of: line) {
      case .ok: ("ok", nil, nil, nil)
      case .recovering: ("recovering", nil, nil, nil)
      case .suspended(let failure, let until): ("suspended", failure.at, until, failure)
      case .unreachable(let failure, let since, let retryAt): ("unreachable", since, retryAt, failure)
      }
    return .init(
      provider: line.provider.name.rawValue, condition: condition, since: since?.seconds, retry_at: retryAt?.seconds,
      skew_seconds: line.skew.map { Double($0.offset.milliseconds) / 1000 },
      last_error: failure?.message ?? line.lastError)
  }

  func providerList() -> ProviderList.Result {
    .init(providers: providers.keys.sorted().compactMap { providers[$0] }.map(view))
  }

  func provider(_ params: ProviderGet.Params) async throws(RPCError) -> ProviderGet.Result {
    let name = try providerName(params.provider)
    guard providers[name] != nil else { throw unknownProvider(params.provider) }
    let metadata = try? await self.metadata(of: name).get()
    guard let line = providers[name] else { throw unknownProvider(params.provider) }
    let about = line.provider.about
    var endpoints: [String: String] = [:]
    endpoints["authorization"] = metadata?.authorizationEndpoint?.absoluteString
    endpoints["token"] = metadata?.tokenEndpoint?.absoluteString
    endpoints["jwks"] = metadata?.jwksURI?.absoluteString
    endpoints["userinfo"] = metadata?.userinfoEndpoint?.absoluteString
    endpoints["revocation"] = metadata?.revocationEndpoint?.absoluteString
    let supports = [
      "refresh": metadata?.grantTypesSupported?.contains("refresh_token") ?? true,
      "revocation": metadata?.revocationEndpoint != nil, "userinfo": metadata?.userinfoEndpoint != nil,
      "id_token": about.usesIDTokens, "pkce": about.usesPKCE, "sessions": about.listsSessions,
    ]
    return .init(
      provider: view(line), redirect_uri: redirectAddress(about), endpoints: endpoints, supports: supports,
      metadata_fetched_at: line.metadata?.at.seconds)
  }

  func redirectAddress(_ about: ProviderAbout) -> String {
    switch about.redirect {
    case .fixed(let uri): uri.rawValue
    case .loopback(let host, let path): "http://\(host)\(callbackPort.map { ":\($0)" } ?? "")\(path)"
    }
  }

  private func view(_ line: ProviderLine) -> ProviderView {
    let about = line.provider.about
    let state =
      switch condition(of: line) {
      case .suspended: "suspended"
      case .unreachable: "unreachable"
      case .recovering: "recovering"
      // Nothing that needs the provider was asked for since; the first login would fail.
      case .ok: line.metadata == nil && line.metadataFailure != nil ? "unreachable" : "ok"
      }
    return ProviderView(
      provider: line.provider.name.rawValue, kind: about.kind, profile: about.profile,
      display_name: about.displayName, issuer: about.issuer, client_id: about.clientID, scopes: about.scopes,
      accounts: grants.values.filter { $0.saved.provider == line.provider.name }.count, state: state,
      last_error: line.lastError)
  }

  // MARK: Reload

  /// Reads, checks, and only then puts in force; a bad file changes nothing.
  ///
  /// - Parameter caller: who asks for it; nil: a signal.
  public func reload(for caller: Caller? = nil) async throws(RPCError) -> BrokerReload.Result {
    reloads += 1
    let turn = reloads
    let new: BrokerConfiguration
    do throws(RPCError) {
      new = try await readConfiguration()
    } catch {
      auditReload(for: caller, error)
      throw error
    }
    // A later reload that was quicker read the newer file: it stays in force.
    guard turn > appliedReload else { return .init(providers: providers.count, warnings: configuration.warnings) }
    appliedReload = turn
    applyAndAudit(new, for: caller)
    await takeDeclared()
    logger.notice("reloaded the configuration", metadata: ["configuration": "\(new.path ?? "built-in defaults")"])
    emit(Event(type: .configurationReloaded, at: now.seconds))
    return .init(providers: new.providers.count, warnings: new.warnings)
  }

  func apply(_ new: BrokerConfiguration) {
    configuration = new
    loadedAt = now
    trail.configure(new.audit)
    offered.withLock { $0 = new.credentials }
    rates.configure(new.callerLimits)
    cache.configure(policy: new.policy, refresh: new.refresh)
    releases.forgetWords()
    transfers.forgetOutgoing()
    wakeReleases()
    let all = allProviders(new.providers)
    let names = Set(all.map(\.name))
    for name in providers.keys where !names.contains(name) {
      providers[name] = nil
      measures.forget(name)
    }
    for provider in all {
      // Requests under way go on.
      providers[provider.name, default: newLine(provider)].provider = provider
      providers[provider.name]?.forgetWhatWasLearned()
      providers[provider.name]?.gate.recheck(at: uptime)
    }
    for account in Array(grants.keys) {
      if case .misconfigured = grants[account]?.saved.standing { grants[account]?.retryNow(at: now) }
      changed(account)
    }
    nudge?.yield()
  }

  func newLine(_ provider: any Provider) -> ProviderLine {
    ProviderLine(provider, id: nextLine(), learned: learnedLifetime(of: provider.name))
  }
}
