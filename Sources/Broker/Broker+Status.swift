public import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth

extension Broker {
  func status() -> BrokerStatus.Result {
    let counts = stateCounts()
    return BrokerStatus.Result(
      version: identity.version, instance: configuration.policy.instance.rawValue, pid: identity.pid,
      state: isDraining ? "shutting_down" : "running", started_at: startedAt.seconds, summary: currentSummary,
      accounts: Dictionary(uniqueKeysWithValues: AccountState.allCases.map { ($0.rawValue, counts[$0, default: 0]) }),
      providers: providers.count, pending_logins: logins.values.filter { $0.endedAt == nil }.count,
      callback: callbackAddresses,
      store: .init(
        path: store.location, state: storeFailure == nil ? "ok" : "failing", message: storeFailure?.message),
      configuration: .init(path: configuration.path, loaded_at: loadedAt.seconds))
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
      "id_token": about.usesIDTokens, "pkce": about.usesPKCE,
    ]
    return .init(
      provider: view(line), redirect_uri: redirect(about), endpoints: endpoints, supports: supports,
      metadata_fetched_at: line.metadata?.at.seconds)
  }

  private func redirect(_ about: ProviderAbout) -> String {
    switch about.redirect {
    case .fixed(let uri): uri.rawValue
    case .loopback(let host, let path): "http://\(host)\(callbackPort.map { ":\($0)" } ?? "")\(path)"
    }
  }

  private func view(_ line: ProviderLine) -> ProviderView {
    let about = line.provider.about
    let state =
      if line.suspended(at: now) != nil {
        "suspended"
      } else if line.metadata == nil, line.metadataFailure != nil { "unreachable" } else { "ok" }
    return ProviderView(
      provider: line.provider.name.rawValue, kind: about.kind, profile: about.profile,
      display_name: about.displayName, issuer: about.issuer, client_id: about.clientID, scopes: about.scopes,
      accounts: grants.values.filter { $0.saved.provider == line.provider.name }.count, state: state,
      last_error: line.lastError)
  }

  // MARK: Reload

  /// Reads, checks, and only then puts in force; a bad file changes nothing.
  public func reload() async throws(RPCError) -> BrokerReload.Result {
    reloads += 1
    let turn = reloads
    let new = try await readConfiguration()
    // A later reload that was quicker read the newer file: it stays in force.
    guard turn > appliedReload else { return .init(providers: providers.count, warnings: configuration.warnings) }
    appliedReload = turn
    apply(new)
    logger.notice("reloaded the configuration", metadata: ["configuration": "\(new.path ?? "built-in defaults")"])
    emit(Event(type: .configurationReloaded, at: now.seconds))
    return .init(providers: new.providers.count, warnings: new.warnings)
  }

  private func apply(_ new: BrokerConfiguration) {
    configuration = new
    loadedAt = now
    cache.configure(policy: new.policy, refresh: new.refresh)
    let names = Set(new.providers.map(\.name))
    for (name, line) in providers where !names.contains(name) {
      for waiter in line.queue { waiter.resume() }
      providers[name] = nil
    }
    for provider in new.providers {
      guard var line = providers[provider.name] else {
        providers[provider.name] = ProviderLine(provider, id: nextLine())
        continue
      }
      // Settings may have changed: nothing learned under the old ones counts. Requests under way go on.
      line.provider = provider
      line.settings += 1
      line.metadata = nil
      line.metadataTask = nil
      line.metadataFailure = nil
      line.keys = nil
      line.keysTask = nil
      line.keysRefetchedAt = nil
      line.suspension = nil
      line.lastError = nil
      providers[provider.name] = line
    }
    for account in Array(grants.keys) {
      if case .misconfigured = grants[account]?.saved.standing { grants[account]?.retryNow(at: now) }
      changed(account)
    }
    nudge?.yield()
  }
}
