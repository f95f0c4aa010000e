import BrokerAPI
import Grants
import OAuth

extension Broker {
  func state(of grant: Grant) -> AccountState {
    switch grant.saved.standing {
    case .loginRequired: return .loginRequired
    case .misconfigured: return .actionRequired
    case .good, .failing: break
    }
    guard let line = providers[grant.saved.provider], line.suspended(at: now) == nil else {
      return .actionRequired
    }
    switch (grant.phase, grant.saved.standing) {
    case (.refreshing, .good), (.committing, .good): return .refreshing
    case (_, .failing): return .degraded
    case (.idle, _): return heldUp(grant) == nil ? .ok : .degraded
    case (.refreshing, .loginRequired), (.refreshing, .misconfigured), (.committing, .loginRequired),
      (.committing, .misconfigured):
      return .actionRequired
    }
  }

  /// Its refresh is due and rests, since the provider does not answer.
  private func heldUp(_ grant: Grant) -> (failure: Failure, retryAt: Timestamp)? {
    guard grant.phase == .idle, let line = providers[grant.saved.provider],
      case .unreachable(let failure, _, let retryAt) = condition(of: line),
      let moment = grant.nextMoment(policy: configuration.refresh, at: now), moment <= now
    else { return nil }
    return (failure, retryAt)
  }

  func view(_ grant: Grant) -> AccountView {
    let saved = grant.saved
    let end = refreshTokenEnd(of: grant)
    return AccountView(
      account: saved.account.rawValue, provider: saved.provider.rawValue, state: state(of: grant),
      identity: saved.identity.map {
        .init(subject: $0.subject, issuer: $0.issuer, email: $0.email, name: $0.name, username: $0.username)
      }, scopes: saved.grantedScopes, generation: saved.generation, expires_at: grant.token?.expiresAt?.seconds,
      next_refresh_at: !saved.isRenewable
        ? nil : grant.nextMoment(policy: configuration.refresh, at: now)?.seconds,
      refresh_expires_at: end?.at.seconds, refresh_expiry_learned: end?.isLearned == true ? true : nil,
      refresh_expires_soon: endsSoon(grant) ? true : nil,
      refresh_issued_at: saved.refreshToken == nil ? nil : saved.refreshTokenIssuedAt?.seconds,
      last_refresh_at: grant.token?.issuedAt.seconds,
      logged_in_at: saved.loggedInAt.seconds, last_error: lastError(grant), grant: saved.kind.rawValue,
      token_binding: binding(of: saved), tokens: narrowed(grant), renewable: saved.isRenewable)
  }

  private func binding(of saved: SavedGrant) -> String? {
    if saved.dpopKey != nil { return "dpop" }
    return providers[saved.provider]?.provider.about.usesCertificate == true ? "mtls" : nil
  }

  private func narrowed(_ grant: Grant) -> [AccountView.NarrowedToken]? {
    let tokens = grant.livingTokens.filter(\.key.isNarrowed)
    guard !tokens.isEmpty else { return nil }
    return tokens.sorted { ($0.key.scope, $0.key.resource) < ($1.key.scope, $1.key.resource) }.map {
      .init(
        scopes: $0.scopes, resource: $0.key.resource.isEmpty ? nil : $0.key.resource,
        expires_at: $0.expiresAt?.seconds)
    }
  }

  private func lastError(_ grant: Grant) -> AccountView.LastError? {
    let saved = grant.saved
    func view(_ error: RPCError, _ failure: Failure) -> AccountView.LastError {
      .init(
        reason: error.reason ?? .providerError, message: failure.message, hint: error.hint ?? "",
        at: failure.at.seconds, oauth: error.oauth)
    }
    // What stands in the way of all its accounts is what there is to do.
    switch saved.standing {
    case .good, .failing:
      guard let line = providers[saved.provider] else {
        let error = misconfigured(grant, Failure(message: "", at: loadedAt))
        return view(error, Failure(message: error.message, at: loadedAt))
      }
      if let failure = line.suspended(at: now) { return view(misconfigured(grant, failure), failure) }
    case .loginRequired, .misconfigured: break
    }
    switch saved.standing {
    case .good:
      return heldUp(grant).map { view(unavailable(grant, $0.failure, retryAt: $0.retryAt), $0.failure) }
    case .failing(let failure, _, let retryAt):
      return view(unavailable(grant, failure, retryAt: retryAt), failure)
    case .loginRequired(let reason, let failure): return view(loginRequired(grant, reason, failure), failure)
    case .misconfigured(let failure): return view(misconfigured(grant, failure), failure)
    }
  }

  // MARK: Errors, each with what a person does next

  func loginRequired(_ grant: Grant, _ reason: LoginReason, _ failure: Failure?) -> RPCError {
    let why =
      switch reason {
      case .refused: "the provider ended the grant"
      case .lostRotation: "the answer to a refresh was lost, and the provider no longer takes the old refresh token"
      case .noRefreshToken:
        providers[grant.saved.provider]?.provider.about.speaksOAuth == false
          ? "its session at the provider has ended"
          : "the access token is over and the provider gave no refresh token"
      case .refreshTokenExpired: "the refresh token has expired"
      case .identityChanged: "the provider answered for another person"
      case .signedOut: "the person signed out at the provider"
      }
    return RPCError(
      .loginRequired, "account \(grant.saved.account) needs a login: \(why)", hint: loginHint(grant.saved),
      oauth: failure?.oauth.map { OAuthDetail($0) }, detail: reason.rawValue)
  }

  func loginHint(_ saved: SavedGrant) -> String {
    "Sign in again with `grantctl login \(saved.provider) \(saved.account)`."
  }

  func misconfigured(_ grant: Grant, _ failure: Failure) -> RPCError {
    guard providers[grant.saved.provider] != nil else {
      return RPCError(
        .providerMisconfigured, "provider \(grant.saved.provider) is not in the configuration",
        hint: "Add [provider.\(grant.saved.provider)] again, or `grantctl logout \(grant.saved.account)`.")
    }
    let name = grant.saved.account
    if grant.saved.kind.needsNobody, failure.oauth?.code != .invalidClient {
      return RPCError(
        .providerMisconfigured,
        "provider \(grant.saved.provider) gives account \(name) no token: \(failure.message)",
        hint: "Mend [account.\(name)] in the configuration, or what the provider knows of it, then `grantctl reload`.",
        oauth: failure.oauth.map { OAuthDetail($0) })
    }
    return RPCError(
      .providerMisconfigured, "provider \(grant.saved.provider) refuses this client: \(failure.message)",
      hint: "Mend [provider.\(grant.saved.provider)] in the configuration, then `grantctl reload`.",
      oauth: failure.oauth.map { OAuthDetail($0) })
  }

  func unavailable(_ grant: Grant, _ failure: Failure, retryAt: Timestamp) -> RPCError {
    let wait = max(1, (retryAt - now).wholeSeconds)
    return RPCError(
      .temporarilyUnavailable, "no fresh token for account \(grant.saved.account): \(failure.message)",
      hint: "Nothing to do: the broker tries again by itself in \(wait) s.", retryAfter: Double(wait),
      oauth: failure.oauth.map { OAuthDetail($0) })
  }

  func unknownAccount(_ name: String) -> RPCError {
    RPCError(.unknownAccount, "no account \(name.prefix(128).debugDescription)")
  }

  func unknownProvider(_ name: String) -> RPCError {
    let known = providers.keys.sorted().map(\.rawValue)
    return RPCError(
      .unknownProvider, "no provider \(name.prefix(64).debugDescription)",
      hint: known.isEmpty
        ? "No provider is configured: add a [provider.NAME] section to the configuration, then `grantctl reload`."
        : "Configured are: \(known.joined(separator: ", ")).")
  }

  func shuttingDown() -> RPCError { RPCError(.shuttingDown, "the broker is stopping") }

  func storeError(_ error: StoreError) -> RPCError {
    RPCError(.storeFailure, error.message, hint: error.hint)
  }

  /// What a failed conversation means for the login or request that held it.
  func error(_ failure: ProviderFailure, provider: ProviderName) -> RPCError {
    let oauth = failure.oauth.map { OAuthDetail($0) }
    let message = "provider \(provider): \(failure.message)"
    switch failure {
    case .ended, .invalid: return RPCError(.providerError, message, oauth: oauth)
    case .rejected(let rejection):
      return RPCError(
        .registrationRejected, message, hint: "Mend what it names, and send it again.",
        detail: rejection.code, fields: rejection.fields.isEmpty ? nil : rejection.fields)
    case .tokenRefused:
      return RPCError(
        .providerError, message, hint: "`grantctl doctor \(provider)` tells more of the provider.", oauth: oauth)
    case .misconfigured:
      return RPCError(
        .providerMisconfigured, message,
        hint: "Mend [provider.\(provider)] in the configuration, then `grantctl reload`.", oauth: oauth)
    case .tryLater(_, _, let retryAfter), .unclear(_, let retryAfter):
      return RPCError(
        .temporarilyUnavailable, message, retryAfter: retryAfter.map { Double($0.wholeSeconds) } ?? 30, oauth: oauth)
    case .lost, .notSent, .blocked: return RPCError(.temporarilyUnavailable, message, retryAfter: 30)
    case .denied:
      return RPCError(.loginDenied, message, hint: "Start again with `grantctl login`, perhaps as somebody else.")
    case .unsupported: return RPCError(.unsupportedByProvider, message)
    }
  }
}

extension OAuthDetail {
  init(_ error: OAuthError) {
    self.init(error: error.code.rawValue, error_description: error.description, error_uri: error.uri)
  }
}
