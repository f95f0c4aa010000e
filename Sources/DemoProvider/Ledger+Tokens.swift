import Foundation

extension Ledger {
  /// A refresh (RFC 6749 §6) under the rotation in force.
  mutating func refresh(
    token text: String, client: DemoServer.Client, scopes asked: [String]?, at now: Date
  ) throws(OAuthFailure) -> Issued {
    guard let token = refreshTokens[text], let grant = grants[token.grant], grant.approved.clientID == client.id else {
      throw .invalidGrant("the refresh token is unknown or another client's")
    }
    guard grant.ended == nil else { throw .invalidGrant("the grant has ended: \(grant.ended ?? "")") }
    guard now < token.expires else { throw .invalidGrant("the refresh token has expired") }
    let scopes = asked ?? grant.approved.scopes
    guard Set(scopes).isSubset(of: grant.approved.scopes) else {
      throw OAuthFailure(code: "invalid_scope", description: "a refresh cannot widen the scope")
    }
    let next: String?
    if let rotated = token.rotated {
      guard settings.rotation == .grace, now.timeIntervalSince(rotated) <= settings.grace.asSeconds else {
        end(grant.id, because: "refresh token reused")
        throw .invalidGrant("the refresh token was used before; its family is revoked")
      }
      next = grant.currentRefreshToken
    } else {
      switch settings.rotation {
      case .none:
        next = text
      case .strict, .grace:
        refreshTokens.update(text) { $0.rotated = now }
        next = issueRefreshToken(for: grant.id, at: now)
      }
    }
    grants.update(grant.id) { $0.refreshes += 1 }
    return issue(grant, next, scopes: scopes, isRefresh: true, at: now)
  }

  mutating func issueRefreshToken(for grant: Int, at now: Date) -> String {
    let text = "rt-\(Base64URL.random())"
    let expires = now.addingTimeInterval(settings.refreshTTL.asSeconds)
    refreshTokens.insert(RefreshToken(grant: grant, expires: expires), for: text)
    grants.update(grant) {
      $0.previousRefreshToken = $0.currentRefreshToken
      $0.currentRefreshToken = text
    }
    return text
  }

  mutating func issue(
    _ grant: Grant, _ refreshToken: String?, scopes: [String], isRefresh: Bool, at now: Date
  ) -> Issued {
    let text = "at-\(Base64URL.random())"
    let expires = now.addingTimeInterval(settings.accessTTL.asSeconds)
    grants.update(grant.id) { $0.currentAccessToken = text }
    accessTokens.insert(AccessToken(grant: grant.id, scopes: scopes, issued: now, expires: expires), for: text)
    return Issued(
      grant: grant, accessToken: text, refreshToken: refreshToken, scopes: scopes, settings: settings,
      isRefresh: isRefresh)
  }

  mutating func end(_ grant: Int, because reason: String) {
    grants.update(grant) { $0.ended = $0.ended ?? reason }
  }

  /// Ends every grant of a user, as when the user withdraws consent. How many lived.
  mutating func endGrants(of user: User) -> Int {
    let living = grants.values.filter { $0.approved.user == user && $0.ended == nil }.map(\.id)
    for grant in living { end(grant, because: "user revoked") }
    return living.count
  }

  /// What a bearer may do now; nil for a token that is unknown, expired or revoked.
  func access(_ text: String, at now: Date) -> (token: AccessToken, grant: Grant)? {
    guard let token = accessTokens[text], !token.revoked, now < token.expires, let grant = grants[token.grant],
      grant.ended == nil
    else { return nil }
    return (token, grant)
  }

  /// Nil as for `access`; a rotated token is good within the grace only.
  func refreshable(_ text: String, at now: Date) -> (token: RefreshToken, grant: Grant)? {
    guard let token = refreshTokens[text], now < token.expires, let grant = grants[token.grant], grant.ended == nil
    else { return nil }
    if let rotated = token.rotated {
      guard settings.rotation == .grace, now.timeIntervalSince(rotated) <= settings.grace.asSeconds else { return nil }
    }
    return (token, grant)
  }

  /// Revocation (RFC 7009 §2): a refresh token takes its grant with it, an access token only itself.
  /// An unknown token is no error.
  mutating func revoke(_ text: String, client: DemoServer.Client) throws(OAuthFailure) {
    let owner = refreshTokens[text]?.grant ?? accessTokens[text]?.grant
    guard let owner, let grant = grants[owner] else { return }
    guard grant.approved.clientID == client.id else {
      throw OAuthFailure(code: "unauthorized_client", description: "the token is another client's")
    }
    if refreshTokens[text] != nil {
      end(owner, because: "revoked")
    } else {
      accessTokens.update(text) { $0.revoked = true }
    }
  }
}

extension Ledger {
  /// The faults that hit a request at `place`, each used up by one.
  mutating func takeFaults(at place: DemoServer.Fault.Place) -> [DemoServer.Fault] {
    var taken: [DemoServer.Fault] = []
    for index in faults.indices where faults[index].place.covers(place) && faults[index].kind.acts(at: place) {
      guard faults[index].times != 0 else { continue }
      taken.append(faults[index])
      faultHits[faults[index].kind.rawValue, default: 0] += 1
      faults[index].times? -= 1
    }
    faults.removeAll { $0.times == 0 }
    return taken
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
