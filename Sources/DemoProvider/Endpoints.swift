import Foundation
import Synchronization

extension Provider {
  /// OpenID Connect Discovery §3 and RFC 8414 §2, one document at both addresses.
  func discovery(_ turn: Turn) -> Response {
    let shown = turn.fault(.wrongIssuer).map { $0.parameters.value ?? Self.wrongIssuer } ?? issuer
    let methods: DemoServer.JSON = ["none", "client_secret_basic", "client_secret_post"]
    let document: DemoServer.JSON = [
      "issuer": .string(shown),
      "authorization_endpoint": .string("\(issuer)/authorize"), "token_endpoint": .string("\(issuer)/token"),
      "jwks_uri": .string("\(issuer)/jwks"), "userinfo_endpoint": .string("\(issuer)/userinfo"),
      "revocation_endpoint": .string("\(issuer)/revoke"), "introspection_endpoint": .string("\(issuer)/introspect"),
      "end_session_endpoint": .string("\(issuer)/end_session"),
      "scopes_supported": ["openid", "profile", "email", "offline_access"],
      "response_types_supported": ["code"], "response_modes_supported": ["query"],
      "grant_types_supported": ["authorization_code", "refresh_token"],
      "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
      "token_endpoint_auth_methods_supported": methods, "revocation_endpoint_auth_methods_supported": methods,
      "introspection_endpoint_auth_methods_supported": methods, "code_challenge_methods_supported": ["S256"],
      "prompt_values_supported": ["none", "login", "consent", "select_account"],
      "claims_supported": [
        "sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "name", "preferred_username", "email",
        "email_verified",
      ],
      "authorization_response_iss_parameter_supported": true,
    ]
    return .json(document.overlaid(with: ledger.withLock { $0.settings.discoveryExtra }))
  }

  /// OIDC Core §5.3; the errors are those of RFC 6750 §3.
  func userinfo(_ turn: Turn) -> Response {
    guard let bearer = turn.request.credentials(scheme: "Bearer") else {
      return Response(status: 401, headers: [("WWW-Authenticate", "Bearer realm=\"demo\"")])
    }
    let (access, extra) = ledger.withLock { ($0.access(bearer, at: turn.now), $0.settings.userinfoExtra) }
    guard let (token, grant) = access else {
      let challenge =
        "Bearer realm=\"demo\", error=\"invalid_token\", error_description=\"unknown, expired or revoked\""
      return Response(status: 401, headers: [("WWW-Authenticate", challenge)])
    }
    guard token.scopes.contains("openid") else {
      let challenge = "Bearer realm=\"demo\", error=\"insufficient_scope\", scope=\"openid\""
      return Response(status: 403, headers: [("WWW-Authenticate", challenge)])
    }
    return .json(.object(grant.approved.user.claims(for: token.scopes)).overlaid(with: extra))
  }

  /// RFC 7009.
  func revoke(_ turn: Turn) throws(OAuthFailure) -> Response {
    let client = try client(of: turn.request)
    guard let token = turn.request.form["token"] else { throw .invalidRequest("token is missing") }
    try ledger.withLock { ledger throws(OAuthFailure) in try ledger.revoke(token, client: client) }
    return Response()
  }

  /// RFC 7662; a client learns of its own tokens only.
  func introspect(_ turn: Turn) throws(OAuthFailure) -> Response {
    let client = try client(of: turn.request)
    guard let text = turn.request.form["token"] else { throw .invalidRequest("token is missing") }
    let found = ledger.withLock { ledger -> (grant: Ledger.Grant, members: [String: DemoServer.JSON])? in
      if let (token, grant) = ledger.access(text, at: turn.now) {
        let members: [String: DemoServer.JSON] = [
          "token_type": "Bearer", "scope": .string(token.scopes.joined(separator: " ")),
          "exp": .int(Int(token.expires.timeIntervalSince1970)), "iat": .int(Int(token.issued.timeIntervalSince1970)),
        ]
        return (grant, members)
      }
      guard let (token, grant) = ledger.refreshable(text, at: turn.now) else { return nil }
      let scope = grant.approved.scopes.joined(separator: " ")
      return (grant, ["scope": .string(scope), "exp": .int(Int(token.expires.timeIntervalSince1970))])
    }
    guard let found, found.grant.approved.clientID == client.id else { return .json(["active": false]) }
    let user = found.grant.approved.user
    return .json(
      .object(found.members).overlaid(with: [
        "active": true, "client_id": .string(client.id), "sub": .string(user.subject),
        "username": .string(user.name), "iss": .string(issuer),
      ]))
  }

  /// RP-Initiated Logout §2. Nobody stays signed in here, so it only sends the person back; grants live on.
  func endSession(_ turn: Turn) -> Response {
    let form = turn.request.parameters
    let keys = ledger.withLock { $0.keys }
    var id = form["client_id"]
    if let hint = form["id_token_hint"] {
      guard let audience = keys.lazy.compactMap({ $0.verifiedClaims(of: hint) }).first?["aud"]?.string,
        id == nil || id == audience
      else {
        return .page(.problem("The ID token hint is not one of this server's for this application."), status: 400)
      }
      id = audience
    }
    guard let uri = form["post_logout_redirect_uri"] else { return .page(.signedOut) }
    guard let client = options.clients.first(where: { $0.id == id }), allows(redirect: uri, for: client) else {
      return .page(.problem("The application's post-logout redirect URI is not registered."), status: 400)
    }
    guard let state = form["state"] else { return .redirect(to: uri) }
    return .redirect(to: uri + (uri.contains("?") ? "&" : "?") + Form([("state", state)]).encoded)
  }
}
