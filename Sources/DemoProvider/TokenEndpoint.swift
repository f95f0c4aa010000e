import Crypto
import Foundation
import Synchronization

extension Provider {
  /// The token endpoint (RFC 6749 §3.2).
  func token(_ turn: Turn) throws(OAuthFailure) -> Response {
    let form = turn.request.form
    if let name = form.repeated { throw .invalidRequest("\(name) occurs twice") }
    let client = try client(of: turn.request)
    let issued: Ledger.Issued
    switch form["grant_type"] {
    case "authorization_code":
      guard let code = form["code"] else { throw .invalidRequest("code is missing") }
      issued = try ledger.withLock { ledger throws(OAuthFailure) in
        try ledger.redeem(
          code: code, client: client, redirectURI: form["redirect_uri"], verifier: form["code_verifier"], at: turn.now)
      }
    case "refresh_token":
      guard let token = form["refresh_token"] else { throw .invalidRequest("refresh_token is missing") }
      let scopes = form["scope"].map { $0.split(separator: " ").map(String.init) }
      issued = try ledger.withLock { ledger throws(OAuthFailure) in
        try ledger.refresh(token: token, client: client, scopes: scopes, at: turn.now)
      }
    case nil: throw .invalidRequest("grant_type is missing")
    default: throw OAuthFailure(code: "unsupported_grant_type", description: "only code and refresh token")
    }
    return try answer(issued, turn)
  }

  private func answer(_ issued: Ledger.Issued, _ turn: Turn) throws(OAuthFailure) -> Response {
    var members: [String: DemoServer.JSON] = [
      "access_token": .string(issued.accessToken), "token_type": "Bearer",
      "expires_in": .int(Int(issued.settings.accessTTL.asSeconds)),
      "scope": .string(issued.scopes.joined(separator: " ")),
    ]
    members["refresh_token"] = issued.refreshToken.map { .string($0) }
    if issued.scopes.contains("openid"), !issued.isRefresh || issued.settings.idTokenOnRefresh {
      members["id_token"] = .string(try idToken(for: issued, turn))
    }
    var response = Response.json(.object(members).overlaid(with: issued.settings.tokenExtra))
    response.headers.append(("Cache-Control", "no-store"))
    return response
  }

  /// OIDC Core §2; one from a refresh has no nonce (§12.2).
  private func idToken(for issued: Ledger.Issued, _ turn: Turn) throws(OAuthFailure) -> String {
    let approved = issued.grant.approved
    let claimed = Int(turn.claimedNow.timeIntervalSince1970)
    var claims = approved.user.claims(for: issued.scopes)
    claims["iss"] = .string(turn.fault(.wrongIssuer).map { $0.parameters.value ?? Self.wrongIssuer } ?? issuer)
    claims["aud"] = .string(
      turn.fault(.wrongAudience).map { $0.parameters.value ?? "another-client" } ?? approved.clientID)
    claims["iat"] = .int(claimed)
    claims["exp"] = .int(claimed + Self.idTokenLifetime)
    claims["auth_time"] = .int(Int(issued.grant.authenticated.timeIntervalSince1970))
    claims["at_hash"] = .string(Base64URL.encode(SHA256.hash(data: Data(issued.accessToken.utf8)).prefix(16)))
    if let wrong = turn.fault(.wrongNonce) {
      claims["nonce"] = .string(wrong.parameters.value ?? "wrong-nonce")
    } else if !issued.isRefresh {
      claims["nonce"] = approved.nonce.map { .string($0) }
    }
    let body = DemoServer.JSON.object(claims).overlaid(with: issued.settings.idTokenExtra)
    guard let key = ledger.withLock({ $0.keys.first }), let token = try? key.sign(body, faults: turn.faults) else {
      throw OAuthFailure(code: "server_error", description: "the ID token could not be signed", status: 500)
    }
    return token
  }

  /// Seconds.
  private static let idTokenLifetime = 300
}
