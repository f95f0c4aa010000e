import Foundation

extension Ledger {
  /// A refresh (RFC 6749 §6) under the active rotation.
  mutating func refresh(token text: String, for asking: Asking) throws(OAuthFailure) -> Issued {
    let now = asking.now
    guard let token = refreshTokens[text], let grant = grants[token.grant],
      grant.approved.clientID == asking.client.id
    else { throw badRefreshToken("the refresh token is unknown or another client's") }
    if settings.refresh.parallel == .error500, grant.refreshesInFlight > 1 {
      throw .serverError("another refresh of this grant is in flight")
    }
    if settings.token.onePerSecond, let last = grant.lastIssued, last.wholeSecond == now.wholeSecond {
      throw .serverError("a token of this grant was issued in this very second")
    }
    guard grant.ended == nil else { throw badRefreshToken("the grant has ended: \(grant.ended ?? "")") }
    guard now < token.expires else { throw badRefreshToken("the refresh token has expired") }
    guard grant.jkt == nil || grant.jkt == asking.jkt else {
      throw .invalidGrant("the refresh token is bound to another DPoP key")
    }
    let (scopes, resources, isNarrowed) = try narrowing(of: grant, asking)
    let keeps = isNarrowed && !settings.refresh.narrowedRotates
    let rotation = asking.dialect == .dropbox ? .none : settings.rotation
    let next = try successor(of: text, token, grant, keeping: keeps, rotation, at: now)
    if settings.refresh.killsAccessToken, let old = grant.currentAccessToken {
      accessTokens.update(old) { $0.revoked = true }
    }
    grants.update(grant.id) { $0.refreshes += 1 }
    return issue(grant, next, scopes: scopes, resources: resources, isRefresh: true, for: asking)
  }

  /// What the refreshed access token is for, and whether that is less than the grant.
  private func narrowing(
    of grant: Grant, _ asking: Asking
  ) throws(OAuthFailure) -> (scopes: [String], resources: [String], isNarrowed: Bool) {
    let full = grant.approved
    let scopes = asking.scopes ?? full.scopes
    guard Set(scopes).isSubset(of: full.scopes) else {
      throw OAuthFailure(code: "invalid_scope", description: "a refresh cannot widen the scope")
    }
    let resources = try narrowed(asking.resources, to: full.resources)
    let fewerScopes = Set(scopes) != Set(full.scopes)
    let fewerResources = Set(resources) != Set(full.resources)
    switch settings.refresh.narrowing {
    case .ignored: return (full.scopes, full.resources, false)
    case .honoured: return (scopes, resources, fewerScopes || fewerResources)
    case .refused:
      if fewerScopes { throw OAuthFailure(code: "invalid_scope", description: "a refresh cannot narrow the scope") }
      if fewerResources { throw OAuthFailure(code: "invalid_target", description: "a refresh cannot name a resource") }
      return (scopes, resources, false)
    }
  }

  /// The refresh token of the answer; nil: it has none, and the old one stays valid.
  private mutating func successor(
    of text: String, _ token: RefreshToken, _ grant: Grant, keeping: Bool, _ rotation: DemoServer.Rotation,
    at now: Date
  ) throws(OAuthFailure) -> String? {
    guard let rotated = token.rotated else {
      if keeping { return nil }
      switch rotation {
      case .none:
        if settings.refresh.prolongs {
          refreshTokens.update(text) { $0.expires = now.addingTimeInterval(settings.refreshTTL.asSeconds) }
        }
        return text
      case .strict, .grace:
        refreshTokens.update(text) { $0.rotated = now }
        return issueRefreshToken(for: grant.id, at: now)
      }
    }
    count(.reuse)
    let isRecent = now.timeIntervalSince(rotated) <= settings.grace.asSeconds
    if settings.refresh.parallel == .bothDie, isRecent {
      let stillborn = issueRefreshToken(for: grant.id, at: now)
      end(grant.id, because: "refreshed twice in parallel")
      return stillborn
    }
    guard settings.rotation == .grace, isRecent else {
      end(grant.id, because: "refresh token reused")
      throw badRefreshToken("the refresh token was used before; its family is revoked")
    }
    return grant.currentRefreshToken
  }

  /// The answer to a refresh token that is not good.
  private func badRefreshToken(_ description: String) -> OAuthFailure {
    switch settings.refresh.badToken {
    case .invalidGrant: .invalidGrant(description)
    case .invalidRequest: .invalidRequest(description)
    case .empty400: OAuthFailure(code: "", description: description)
    case .empty403: OAuthFailure(code: "", description: description, status: 403)
    }
  }

  /// Counts a refresh that has arrived; what to give to `refreshLeft`.
  mutating func refreshArrived(with token: String) -> Int? {
    guard let grant = refreshTokens[token]?.grant else { return nil }
    grants.update(grant) {
      $0.refreshesInFlight += 1
      $0.refreshesInFlightMax = max($0.refreshesInFlightMax, $0.refreshesInFlight)
    }
    return grant
  }

  mutating func refreshLeft(_ grant: Int) {
    grants.update(grant) { $0.refreshesInFlight -= 1 }
  }
}

extension Date {
  fileprivate var wholeSecond: Double { floor(timeIntervalSince1970) }
}
