import BrokerAPI
import Grants
import OAuth

// `token.get` with `kind = "id_token"`: the account's verified ID token, or the one of a refresh that all callers share.
extension TokenRequests {
  /// - Parameter isPaced: the caller's budgets and places count; false: the broker asks in its own interest.
  func idToken(
    _ account: AccountName, _ params: TokenGet.Params, _ permission: Permission, isPaced: Bool
  ) async throws(RPCError) -> TokenGet.Result {
    guard params.scopes == nil, params.resource == nil else {
      throw .invalidParams(
        "params.\(params.scopes == nil ? "resource" : "scopes"): an ID token has neither scopes nor a resource",
        hint: "Leave both out with kind = id_token.")
    }
    let minimumTTL = try minimumTTL(params.min_ttl)
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    try authorizer.checkIDToken(account, permission)
    var asker = isPaced ? TokenRequester(permission.principal) : nil
    if let audience = params.audience, let grant = accounts[account], !isOwnAudience(audience, grant) {
      try checkOpenID(grant)
      let key = try accounts.idTokenKey(audience: audience, grant)
      try authorizer.checkResources([audience], of: grant, permission)
      let (token, saved) = try await engine.token(
        of: account, key, minimumTTL: minimumTTL, for: asker, until: deadline)
      try authorizer.checkIDToken(account, try authorizer.renewed(permission))
      if let minimumTTL, let end = token.expiresAt, end - now < minimumTTL {
        throw lacking(.tooShort(lifetime: end - token.issuedAt), grant, minimumTTL)
      }
      accounts.cache.recipients.record(account.rawValue, token.generation, to: Reporter(permission.principal))
      return result(token, saved)
    }
    for _ in 0..<Limit.tokenRounds {
      guard let grant = accounts[account] else { throw unknownAccount(params.account) }
      try checkOpenID(grant)
      // An imported grant is for callers only after the provider confirmed its user.
      guard !grant.isUnproven else {
        _ = try await engine.token(of: account, SavedToken.Key(), minimumTTL: nil, for: asker, until: deadline)
        continue
      }
      switch answer(grant, minimumTTL, asker) {
      case .token(let token): return try release(token, grant, permission)
      case .lacking(let lack): throw lacking(lack, grant, minimumTTL)
      case .refresh:
        asker?.beyond = grant.mainGeneration
        asker?.isForExpired = !hasUsable(grant)
        do throws(RPCError) {
          _ = try await engine.token(
            of: account, SavedToken.Key(), minimumTTL: nil, for: asker, beyond: grant.mainGeneration, until: deadline)
        } catch {
          guard let grant = accounts[account], !isReported(grant, asker),
            let token = grant.lastIDTokenResort(minimumTTL: minimumTTL, at: now, for: asker?.reporter)
          else { throw error }
          return try release(token, grant, permission)
        }
      }
    }
    throw RPCError(
      .timedOut, "account \(account): its ID token changed too often", hint: "Ask again in a moment.")
  }

  /// A caller that reported the account's current token gets neither that token nor the ID token that came with it.
  private func answer(_ grant: Grant, _ minimumTTL: Duration?, _ asker: TokenRequester?) -> Grant.IDTokenAnswer {
    let answer = grant.idTokenAnswer(
      minimumTTL: minimumTTL, at: now, policy: accounts.refreshPolicy, for: asker?.reporter)
    guard case .token = answer, grant.saved.isRenewable, isReported(grant, asker) else { return answer }
    return .refresh
  }

  /// Whether the ID token would do for a caller without a wish.
  private func hasUsable(_ grant: Grant) -> Bool {
    guard let token = grant.saved.idToken.flatMap({ try? IDToken.parse($0) }) else { return false }
    return token.expiresAt - now >= accounts.refreshPolicy.floor(nil, lifetime: token.expiresAt - token.issuedAt)
  }

  private func isReported(_ grant: Grant, _ asker: TokenRequester?) -> Bool {
    guard let asker else { return false }
    return grant.reportedGeneration(by: asker.reporter, SavedToken.Key()) != nil
  }

  /// The audience of the caller refused the ID token: one refresh, and not the same ID token again for this caller.
  func idTokenRejected(
    _ params: TokenReportRejected.Params, _ grant: Grant, _ asker: TokenRequester
  ) async throws(RPCError) -> TokenReportRejected.Result {
    let account = grant.saved.account
    guard params.generation == grant.mainGeneration else {
      // One for another audience is reported like any narrowed token.
      if grant.livingTokens.contains(where: { $0.generation == params.generation }) {
        var params = params
        params.kind = nil
        return try await reportRejected(account, params, by: asker)
      }
      return .init(refreshed: false, generation: grant.mainGeneration)
    }
    guard grant.saved.isRenewable else { throw accounts.loginRequired(grant, .noRefreshToken, nil) }
    accounts[account]?.idTokenReported(by: asker.reporter)
    var params = params
    params.kind = nil
    return try await reportRejected(account, params, by: asker)
  }

  /// Whether the account's own ID token is for this audience.
  private func isOwnAudience(_ audience: String, _ grant: Grant) -> Bool {
    grant.saved.idToken.flatMap { try? IDToken.parse($0) }?.audience.contains(audience) ?? false
  }

  /// An ID token by a token exchange, which was verified when it arrived.
  private func result(_ token: SavedToken, _ saved: SavedGrant) -> TokenGet.Result {
    TokenGet.Result(
      access_token: nil, token_type: nil,
      // Exposed to be released to the caller.
      id_token: token.accessToken.exposed, kind: TokenKind.idToken.rawValue, expires_at: token.expiresAt?.seconds,
      expires_in: token.expiresAt.map { max(0, ($0 - now).wholeSeconds) }, scope: [],
      account: saved.account.rawValue, provider: saved.provider.rawValue,
      issuer: providers[saved.provider]?.provider.description.issuer, generation: token.generation)
  }

  private func release(
    _ token: IDToken, _ grant: Grant, _ permission: Permission
  ) throws(RPCError) -> TokenGet.Result {
    let account = grant.saved.account
    try authorizer.checkIDToken(account, try authorizer.renewed(permission))
    accounts.cache.recipients.record(account.rawValue, grant.mainGeneration, to: Reporter(permission.principal))
    return TokenGet.Result(
      access_token: nil, token_type: nil,
      // Exposed to be released to the caller.
      id_token: token.raw.exposed, kind: TokenKind.idToken.rawValue, expires_at: token.expiresAt.seconds,
      expires_in: max(0, (token.expiresAt - now).wholeSeconds), scope: [], account: account.rawValue,
      provider: grant.saved.provider.rawValue, issuer: token.issuer, generation: grant.mainGeneration)
  }

  // MARK: Errors

  /// The account can have an ID token at all.
  private func checkOpenID(_ grant: Grant) throws(RPCError) {
    let (account, name) = (grant.saved.account, grant.saved.provider)
    guard let provider = providers[name]?.provider else {
      throw accounts.misconfigured(grant, FailureRecord(message: "the provider is not configured", at: now))
    }
    guard !grant.saved.kind.isUnattended else {
      throw RPCError(
        .unsupportedByProvider, "account \(account) has no user, so it has no ID token",
        hint: "Use an account that a user signed in to: `grantctl login PROVIDER ACCOUNT`.")
    }
    guard grant.saved.idToken == nil, !provider.tokenTraits.usesIDTokens else { return }
    guard provider.tokenTraits.hasOpenID else {
      throw RPCError(
        .unsupportedByProvider, "provider \(name) is of kind \(provider.description.kind), which has no ID tokens",
        hint:
          "If it supports OpenID Connect, change `kind` and `issuer` in \(name.section), then sign in again.")
    }
    throw RPCError(
      .scopeNotGranted, "account \(account) was signed in without the scope openid, so it has no ID token",
      hint: "Add openid to `scopes` in \(name.section), then `grantctl login \(name) \(account)`.")
  }

  private func lacking(_ lack: Grant.IDTokenLack, _ grant: Grant, _ minimumTTL: Duration?) -> RPCError {
    let (account, name) = (grant.saved.account, grant.saved.provider)
    let end =
      grant.saved.idToken.flatMap { try? IDToken.parse($0) }.map { token in
        let left = (token.expiresAt - now).wholeSeconds
        return left > 0 ? "the current one is valid for \(left) s" : "the current one has expired"
      } ?? "the account has none"
    switch lack {
    case .absent:
      return RPCError(
        .unsupportedByProvider, "provider \(name) issued no ID token for account \(account)",
        hint: "Sign in again with `grantctl login \(name) \(account)`. \(Self.refreshHint(name))")
    case .notRenewed(let outcome):
      let what =
        switch outcome {
        case .unchanged: "returned the login's old ID token at the refresh"
        case .refused(let why): "refreshed the tokens, but \(why)"
        case .absent, .new: "returned no ID token at the refresh"
        }
      return RPCError(
        .unsupportedByProvider, "account \(account): provider \(name) \(what), and \(end)",
        hint: "\(Self.refreshHint(name)) Until then: `grantctl login \(name) \(account)`.")
    case .encrypted:
      return RPCError(
        .unsupportedByProvider, "the ID token of account \(account) is encrypted (JWE), and cannot be verified",
        hint: "Remove id_token_encrypted_response_alg from the client at the provider, then "
          + "`grantctl login \(name) \(account)`.")
    case .unreadable(let why):
      return RPCError(.providerError, "account \(account): \(why)", hint: accounts.loginHint(grant.saved))
    case .tooShort(let lifetime):
      let wanted = minimumTTL.map { "min_ttl is \($0.wholeSeconds) s, and " } ?? ""
      return RPCError(
        .unsupportedByProvider,
        "account \(account): \(wanted)a fresh ID token of provider \(name) has at most \(lifetime.wholeSeconds) s",
        hint: "Ask with `min_ttl` of at most \(lifetime.wholeSeconds), or have the provider issue longer ID tokens.")
    case .notRenewable:
      return RPCError(
        .loginRequired, "the ID token of account \(account) cannot be renewed, and \(end)",
        hint: accounts.loginHint(grant.saved), detail: LoginReason.noRefreshToken.rawValue)
    }
  }

  private static func refreshHint(_ name: ProviderName) -> String {
    "If the provider returns ID tokens only with the scope openid, set refresh_scope = true in \(name.section)."
  }
}
