import Foundation
import Synchronization

extension Provider {
  /// RFC 7009.
  func revoke(_ turn: Turn) throws(OAuthFailure) -> Response {
    let client = try client(of: turn)
    let form = turn.request.form
    guard let token = form["token"] else { throw .invalidRequest("token is missing") }
    try ledger.withLock { ledger throws(OAuthFailure) in
      try ledger.revoke(token, hint: form["token_type_hint"], client: client)
    }
    return Response()
  }

  /// RFC 7662; a client learns of its own tokens only.
  func introspect(_ turn: Turn) throws(OAuthFailure) -> Response {
    let client = try client(of: turn)
    guard let text = turn.request.form["token"] else { throw .invalidRequest("token is missing") }
    let (found, extra) = ledger.withLock { ledger in
      ledger.count(.introspection)
      return (ledger.introspection(of: text, at: turn.now), ledger.settings.introspectionExtra)
    }
    guard let found, found.grant.approved.clientID == client.id else { return .json(["active": false]) }
    let approved = found.grant.approved
    return .json(
      .object(found.members).overlaid(with: [
        "active": true, "client_id": .string(client.id), "sub": .string(approved.subject),
        "username": .string(approved.name), "iss": .string(issuer),
      ]).overlaid(with: extra))
  }

  /// RP-Initiated Logout §2. Nobody stays signed in here, so it sends the person back; grants live on unless a
  /// setting ends them.
  func endSession(_ turn: Turn) -> Response {
    let form = turn.request.parameters
    let (keys, settings) = ledger.withLock { ($0.keys, $0.settings.logout) }
    var id = form["client_id"]
    var session: String?
    if let hint = form["id_token_hint"] {
      let claims = keys.lazy.compactMap { $0.verifiedClaims(of: hint) }.first
      guard let audience = (claims?["azp"] ?? claims?["aud"])?.string, id == nil || id == audience else {
        return .page(.problem("The ID token hint is not one of this server's for this application."), status: 400)
      }
      id = audience
      session = claims?["sid"]?.string
    }
    ledger.withLock { ledger in
      ledger.count(.endSession)
      guard settings.endSessionEndsGrants, let session else { return }
      for grant in ledger.grants.values.filter({ $0.sessionID == session }) {
        ledger.end(grant.id, because: "session ended")
      }
    }
    guard let uri = form["post_logout_redirect_uri"] else { return .page(.signedOut) }
    guard let client = id.flatMap({ client($0, at: turn.now) }), allows(redirect: uri, for: client) else {
      return .page(.problem("The application's post-logout redirect URI is not registered."), status: 400)
    }
    guard let state = turn.state(form["state"]) else { return .redirect(to: uri) }
    return .redirect(to: uri + (uri.contains("?") ? "&" : "?") + Form([("state", state)]).encoded)
  }
}

extension Provider.Turn {
  /// The state to send back, or what a fault makes of it.
  func state(_ sent: String?) -> String? {
    if let wrong = fault(.wrongState) { return wrong.parameters.value ?? "wrong-state" }
    return fault(.missingState) == nil ? sent : nil
  }
}

extension Ledger {
  fileprivate func introspection(
    of text: String, at now: Date
  ) -> (grant: Grant, members: [String: DemoServer.JSON])? {
    guard let (token, grant) = access(text, at: now) else {
      guard let (token, grant) = refreshable(text, at: now) else { return nil }
      let scope = grant.approved.scopes.joined(separator: " ")
      return (grant, ["scope": .string(scope), "exp": .int(Int(token.expires.timeIntervalSince1970))])
    }
    var members: [String: DemoServer.JSON] = [
      "token_type": token.jkt == nil ? "Bearer" : "DPoP", "scope": .string(token.scopes.joined(separator: " ")),
      "exp": .int(Int(token.expires.timeIntervalSince1970)), "iat": .int(Int(token.issued.timeIntervalSince1970)),
    ]
    if let jkt = token.jkt { members["cnf"] = ["jkt": .string(jkt)] }
    if !token.resources.isEmpty { members["aud"] = .array(token.resources.map { .string($0) }) }
    return (grant, members)
  }
}
