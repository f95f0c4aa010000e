import Foundation

extension Ledger {
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
    _ grant: Grant, _ refreshToken: String?, scopes: [String], resources: [String], isRefresh: Bool, for asking: Asking
  ) -> Issued {
    let text = "at-\(Base64URL.random())"
    let expires = asking.now.addingTimeInterval(settings.accessTTL.asSeconds)
    grants.update(grant.id) {
      $0.currentAccessToken = text
      $0.lastIssued = asking.now
    }
    accessTokens.insert(
      AccessToken(
        grant: grant.id, scopes: scopes, resources: resources, jkt: asking.jkt, issued: asking.now, expires: expires),
      for: text)
    return Issued(
      grant: grant, accessToken: text, refreshToken: refreshToken, scopes: scopes, jkt: asking.jkt, settings: settings,
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
  mutating func revoke(_ text: String, hint: String?, client: DemoServer.Client) throws(OAuthFailure) {
    let kind = refreshTokens[text] != nil ? "refresh_token" : accessTokens[text] != nil ? "access_token" : "unknown"
    let isHeeded = !settings.logout.strictHint || hint == nil || hint == kind
    if let owner = refreshTokens[text]?.grant ?? accessTokens[text]?.grant, let grant = grants[owner] {
      guard grant.approved.clientID == client.id else {
        throw OAuthFailure(code: "unauthorized_client", description: "the token is another client's")
      }
      if !isHeeded {
        // The token is looked for among those of the hint's kind only, and so is not found.
      } else if kind == "refresh_token" {
        end(owner, because: "revoked")
      } else {
        accessTokens.update(text) { $0.revoked = true }
      }
    }
    count(.revocation)
    guard revocations.count < Limits.revocations else { return }
    revocations.append(.init(kind: kind, hint: hint, revoked: isHeeded && kind != "unknown"))
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
}
