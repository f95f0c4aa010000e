import Foundation
import Synchronization

extension Provider {
  /// The token endpoint (RFC 6749 §3.2).
  func token(_ turn: Turn) throws(OAuthFailure) -> Response {
    let form = turn.request.form
    if let name = form.repeated { throw .invalidRequest("\(name) occurs twice") }
    if turn.place == .tokenAssertion { return try answer(assertionGrant(turn), turn) }
    let asking = Ledger.Asking(
      client: try client(of: turn), origin: turn.place, scopes: form.words("scope"), resources: form.all("resource"),
      jkt: try proof(of: turn), now: turn.now, dialect: Dialect(path: turn.request.path))
    let issued: Ledger.Issued
    switch turn.place {
    case .tokenCode:
      guard let code = form["code"] else { throw .invalidRequest("code is missing") }
      issued = try ledger.withLock { ledger throws(OAuthFailure) in
        try ledger.redeem(
          code: code, redirectURI: form["redirect_uri"], verifier: form["code_verifier"], for: asking)
      }
    case .tokenRefresh:
      guard let token = form["refresh_token"] else { throw .invalidRequest("refresh_token is missing") }
      issued = try ledger.withLock { ledger throws(OAuthFailure) in try ledger.refresh(token: token, for: asking) }
    case .tokenDevice:
      guard let code = form["device_code"] else { throw .invalidRequest("device_code is missing") }
      issued = try ledger.withLock { ledger throws(OAuthFailure) in try ledger.poll(code, for: asking) }
    case .tokenClient: issued = try clientCredentials(asking)
    case .tokenPassword: issued = try password(form, asking)
    case .tokenExchange: return try exchange(form, asking, turn)
    default:
      guard form["grant_type"] != nil else { throw .invalidRequest("grant_type is missing") }
      throw OAuthFailure(code: "unsupported_grant_type", description: "the grant type is not known here")
    }
    return try answer(issued, turn)
  }

  /// RFC 6749 §5.1, and what settings make of it.
  func answer(
    _ issued: Ledger.Issued, _ turn: Turn, extra: [String: DemoServer.JSON] = [:]
  ) throws(OAuthFailure) -> Response {
    let settings = issued.settings
    var members: [String: DemoServer.JSON] = [
      "access_token": .string(issued.accessToken), "token_type": issued.jkt == nil ? "Bearer" : "DPoP",
      "expires_in": .int(Int(settings.accessTTL.asSeconds)),
    ]
    switch settings.token.scopeAnswer {
    case .asGranted, .narrowed: members["scope"] = settings.token.scope(issued.scopes)
    case .reordered: members["scope"] = settings.token.scope(issued.scopes.reversed())
    case .absent: break
    }
    if settings.token.expiresInShape == .string {
      members["expires_in"] = members["expires_in"].map { .string($0.text) }
    }
    members["refresh_token"] = issued.refreshToken.map { .string($0) }
    let dialect = Dialect(path: turn.request.path)
    if dialect == .standard, issued.hasIDToken { members["id_token"] = .string(try idToken(for: issued, turn)) }
    let own = dialect == .dropbox ? Dropbox.members(issued) : [:]
    let body = DemoServer.JSON.object(members).overlaid(with: own).overlaid(with: extra)
      .overlaid(with: settings.tokenExtra)
    return Self.tokenResponse(body, settings)
  }

  static func tokenResponse(_ body: DemoServer.JSON, _ settings: DemoServer.Settings) -> Response {
    let wrap = settings.token.wrap
    var response = Response.json(wrap.isEmpty ? body : .object([wrap: body]))
    response.headers.append(("Cache-Control", "no-store"))
    return response
  }
}

extension DemoServer.Settings.Token {
  fileprivate func scope(_ scopes: [String]) -> DemoServer.JSON {
    scopeShape == .array ? .array(scopes.map { .string($0) }) : .string(scopes.joined(separator: " "))
  }
}

extension Ledger.Issued {
  fileprivate var hasIDToken: Bool {
    guard scopes.contains("openid"), grant.approved.user != nil else { return false }
    if isRefresh { return settings.idTokenOnRefresh }
    return grant.origin == .tokenCode || (grant.origin == .tokenDevice && settings.device.idToken)
  }
}

extension Provider {
  /// OIDC Core §2; one from a refresh has no nonce (§12.2) unless a setting repeats it.
  private func idToken(for issued: Ledger.Issued, _ turn: Turn) throws(OAuthFailure) -> String {
    let approved = issued.grant.approved
    let claimed = Int(turn.claimedNow.timeIntervalSince1970)
    let authenticated = issued.grant.authenticated.timeIntervalSince1970
    var claims = approved.claims(for: issued.scopes)
    if let wrong = turn.fault(.wrongSubject) { claims["sub"] = .string(wrong.parameters.value ?? "sub-somebody") }
    claims["iss"] = .string(turn.fault(.wrongIssuer).map { $0.parameters.value ?? Self.wrongIssuer } ?? issuer)
    claims["aud"] = audience(for: approved.clientID, turn)
    let service = issued.settings.sevenPass.service
    if !service.isEmpty {
      claims["aud"] = [.string(service), .string(approved.clientID)]
      claims["azp"] = .string(approved.clientID)
    }
    claims["iat"] = .int(claimed)
    claims["exp"] = .int(turn.fault(.expired) == nil ? claimed + Self.idTokenLifetime : claimed - 3600)
    claims["sid"] = .string(issued.grant.sessionID)
    claims["auth_time"] = .int(Int(authenticated))
    if turn.fault(.authTimeZero) != nil { claims["auth_time"] = 0 }
    if turn.fault(.authTimeFloat) != nil { claims["auth_time"] = .double(floor(authenticated) + 0.25) }
    let hashed = turn.fault(.wrongHash) == nil ? issued.accessToken : "another token"
    claims["at_hash"] = ledger.withLock { $0.keys.first?.halfHash(of: hashed) }.map { .string($0) }
    if let wrong = turn.fault(.wrongNonce) {
      claims["nonce"] = .string(wrong.parameters.value ?? "wrong-nonce")
    } else if !issued.isRefresh || issued.settings.nonceOnRefresh {
      claims["nonce"] = approved.nonce.map { .string($0) }
    }
    return try sign(.object(claims).overlaid(with: issued.settings.idTokenExtra), turn)
  }

  private func audience(for client: String, _ turn: Turn) -> DemoServer.JSON {
    if let wrong = turn.fault(.wrongAudience) { return .string(wrong.parameters.value ?? "another-client") }
    if turn.fault(.audienceShared) != nil { return [.string(client), "another-client"] }
    return turn.fault(.audienceList) == nil ? .string(client) : [.string(client)]
  }

  /// Seconds.
  private static let idTokenLifetime = 300
}
