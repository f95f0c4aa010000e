import Foundation
import Synchronization

extension Provider {
  /// RFC 6749 §4.4: for clients that authenticate, and without a refresh token (§4.4.3).
  func clientCredentials(_ asking: Ledger.Asking) throws(OAuthFailure) -> Ledger.Issued {
    guard !asking.client.isPublic else {
      throw OAuthFailure(code: "unauthorized_client", description: "a public client has no credentials")
    }
    let approved = Ledger.Approved(
      clientID: asking.client.id, principal: asking.client.id, scopes: asking.scopes ?? [],
      resources: asking.resources)
    return try open(approved, asking, isRefreshable: false)
  }

  /// RFC 6749 §4.3, if a setting allows it: the password is the user's name and `-password`.
  func password(_ form: Form, _ asking: Ledger.Asking) throws(OAuthFailure) -> Ledger.Issued {
    guard ledger.withLock({ $0.settings.token.passwordGrant }) else {
      throw OAuthFailure(code: "unauthorized_client", description: "the password grant is off")
    }
    guard let name = form["username"], let user = User(hint: name), form["password"] == "\(user.name)-password" else {
      throw .invalidGrant("the user name or the password is wrong")
    }
    let approved = Ledger.Approved(clientID: asking.client.id, user: user, scopes: asking.scopes ?? [])
    return try open(approved, asking, isRefreshable: true)
  }

  /// RFC 7523 §2.1 and §3.1. The scope is the request's, or the assertion's as Google has it. The client may
  /// authenticate besides, and need not.
  func assertionGrant(_ turn: Turn) throws(OAuthFailure) -> Ledger.Issued {
    let form = turn.request.form
    let isAuthenticated =
      ["client_id", "client_assertion"].contains { form[$0] != nil } || turn.request.credentials(scheme: "Basic") != nil
    let client = isAuthenticated ? try client(of: turn) : nil
    do throws(OAuthFailure) {
      guard let assertion = form["assertion"].flatMap({ CompactJWT($0) }) else {
        throw .invalidRequest("assertion is missing, or no JWT")
      }
      guard let account = assertion.claims["iss"]?.string, let keys = keys(ofIssuer: account, at: turn.now) else {
        throw .invalidGrant("the assertion's issuer is not known here")
      }
      guard assertion.verifies(by: keys) else { throw .invalidGrant("the assertion's signature is wrong") }
      guard let subject = assertion.claims["sub"]?.string ?? assertion.claims["iss"]?.string else {
        throw .invalidGrant("the assertion has no sub")
      }
      try check(assertion, lifetime: Limits.grantAssertionLifetime, at: turn.now) { .invalidGrant($0) }
      let claimed = assertion.claims["scope"]?.string?.split(separator: " ").map(String.init)
      let asking = Ledger.Asking(
        client: client ?? DemoServer.Client(id: account), origin: turn.place, scopes: form.words("scope") ?? claimed,
        resources: form.all("resource"), jkt: try proof(of: turn), now: turn.now)
      let approved = Ledger.Approved(
        clientID: asking.client.id, user: User(hint: subject), principal: subject, scopes: asking.scopes ?? [])
      let issued = try open(approved, asking, isRefreshable: false)
      ledger.withLock { $0.count(.assertion) }
      return issued
    } catch {
      if error.code != OAuthFailure.nonceNeeded { ledger.withLock { $0.count(.assertionRefused) } }
      throw error
    }
  }

  private func keys(ofIssuer issuer: String, at now: Date) -> [DemoServer.JSON]? {
    if let account = ledger.withLock({ $0.serviceAccounts[issuer] }) { return account.keys }
    return client(issuer, at: now).map(\.keys)
  }

  private func open(
    _ approved: Ledger.Approved, _ asking: Ledger.Asking, isRefreshable: Bool
  ) throws(OAuthFailure) -> Ledger.Issued {
    try ledger.withLock { ledger throws(OAuthFailure) in
      try ledger.open(approved, for: asking, isRefreshable: isRefreshable, authenticated: asking.now)
    }
  }
}

extension Provider {
  private static let tokenType = "urn:ietf:params:oauth:token-type:"

  /// RFC 8693: an access token of this server for another one, or for an ID token, whose type is then `N_A`.
  func exchange(_ form: Form, _ asking: Ledger.Asking, _ turn: Turn) throws(OAuthFailure) -> Response {
    guard let subject = form["subject_token"], let subjectType = form["subject_token_type"] else {
      throw .invalidRequest("subject_token and subject_token_type are needed")
    }
    guard (form["actor_token"] == nil) == (form["actor_token_type"] == nil) else {
      throw .invalidRequest("actor_token and actor_token_type belong together")
    }
    let grant = try grant(of: subject, type: subjectType, at: turn.now)
    if let actor = form["actor_token"], let type = form["actor_token_type"] {
      _ = try self.grant(of: actor, type: type, at: turn.now)
    }
    let scopes = asking.scopes ?? grant.approved.scopes
    guard Set(scopes).isSubset(of: grant.approved.scopes) else {
      throw OAuthFailure(code: "invalid_scope", description: "an exchange cannot widen the scope")
    }
    var asking = asking
    asking.resources += form.all("audience").map { $0.contains(":") ? $0 : "urn:audience:\($0)" }
    var approved = grant.approved
    (approved.clientID, approved.scopes, approved.resources) = (asking.client.id, scopes, [])
    let wanted = form["requested_token_type"] ?? "\(Self.tokenType)access_token"
    let known = ["access_token", "refresh_token", "id_token", "jwt"].map { Self.tokenType + $0 }
    guard known.contains(wanted) else { throw .invalidRequest("requested_token_type is not known here") }
    let issued = try ledger.withLock { [approved, asking] ledger throws(OAuthFailure) in
      ledger.count(.exchange)
      return try ledger.open(
        approved, for: asking, isRefreshable: wanted == "\(Self.tokenType)refresh_token", authenticated: asking.now)
    }
    var extra: [String: DemoServer.JSON] = ["issued_token_type": .string(wanted)]
    if wanted.hasSuffix(":id_token") || wanted.hasSuffix(":jwt") {
      extra["token_type"] = "N_A"
      extra["access_token"] = .string(
        try sign(
          [
            "iss": .string(issuer), "sub": .string(approved.subject),
            "aud": .string(asking.resources.first ?? asking.client.id),
            "iat": .int(Int(turn.now.timeIntervalSince1970)), "exp": .int(Int(turn.now.timeIntervalSince1970) + 300),
          ], turn))
    }
    return try answer(issued, turn, extra: extra)
  }

  /// The live grant that a token is of; its type must be what it is (RFC 8693 §2.1).
  private func grant(of token: String, type: String, at now: Date) throws(OAuthFailure) -> Ledger.Grant {
    let (found, keys) = ledger.withLock { ledger in
      switch type {
      case "\(Self.tokenType)access_token": (ledger.access(token, at: now)?.grant, ledger.keys)
      case "\(Self.tokenType)refresh_token": (ledger.refreshable(token, at: now)?.grant, ledger.keys)
      default: (Ledger.Grant?.none, ledger.keys)
      }
    }
    if let found { return found }
    if type == "\(Self.tokenType)id_token" || type == "\(Self.tokenType)jwt",
      let session = keys.lazy.compactMap({ $0.verifiedClaims(of: token) }).first?["sid"]?.string,
      let grant = ledger.withLock({ $0.grants.values.first { $0.sessionID == session && $0.ended == nil } })
    {
      return grant
    }
    throw .invalidRequest("a token is not good, or not of the type that it is said to be")
  }
}
