import Foundation
import Synchronization

extension Ledger {
  /// A sign-in that went to another company's application.
  struct Bridged: Sendable {
    var clientID: String
    var form: Form
    var code: String
    var cookie: String
    /// The `fbapp_type` of the way back: `web` for an answer in the query, `native` for one in the fragment.
    var type: String
    var isGood = true
  }
}

/// 7Pass: its bridge to a native application, and the shape of its discovery document.
extension Provider {
  static let bridgeReturn = "/external/callback"
  private static let bridgeCookie = "sevenpass_session"

  /// The application's callback, as if the user had signed in there at once: `fb123://authorize?code&state`. Both
  /// values need escapes. Nil where sign-ins go by no application.
  func bridge(_ asked: AuthorizationRequest) -> Response? {
    let settings = ledger.withLock { $0.settings.sevenPass }
    guard !settings.bridge.isEmpty, asked.dialect == .standard, asked.form["fbapp_pres"] != "0" else { return nil }
    let state = "{\"id\":\"\(Base64URL.random())\",\"challenge\":\"a b+c/d=&e\"}"
    let code = "fbcode-\(Base64URL.random())+/=&"
    let cookie = Base64URL.random()
    ledger.withLock { ledger in
      let bridged = Ledger.Bridged(
        clientID: asked.client.id, form: asked.form, code: code, cookie: cookie,
        type: settings.bridgePlace == .fragment ? "native" : "web")
      ledger.bridged.insert(bridged, for: state)
    }
    let values = Form([("code", code), ("state", state)]).encoded
    let joint = settings.bridgePlace == .fragment ? "#" : settings.bridge.contains("?") ? "&" : "?"
    var response = Response.redirect(to: settings.bridge + joint + values, status: 303)
    response.headers.append(("Set-Cookie", "\(Self.bridgeCookie)=\(cookie); Path=/; HttpOnly"))
    return response
  }

  /// The endpoint for the application's answer in the browser; then the sign-in continues without it.
  func bridgeReturned(_ turn: Turn) -> Response {
    let query = turn.request.query
    let needsCookie = ledger.withLock { $0.settings.sevenPass.bridgeNeedsCookie }
    guard let state = query["state"], let bridged = ledger.withLock({ $0.bridged[state] }), bridged.isGood,
      query["code"] == bridged.code, query["fbapp_type"] == bridged.type
    else { return .page(.problem("This sign-in is unknown or over."), status: 400) }
    guard !needsCookie || turn.request.cookies[Self.bridgeCookie] == bridged.cookie else {
      return .page(.problem("This is another browser than the one that began."), status: 400)
    }
    ledger.withLock { $0.bridged.update(state) { $0.isGood = false } }
    guard let client = client(bridged.clientID, at: turn.now),
      let asked = try? AuthorizationRequest(bridged.form, of: client, turn, self)
    else { return .page(.problem("The application is not known here."), status: 400) }
    return allow(asked, asked.form["login_hint"] ?? ledger.withLock { $0.settings.defaultUser }, turn)
  }

  /// What a recorded discovery document of 7Pass has: hybrid response types, two methods, RS256, no revocation endpoint.
  func sevenPassDiscovery(_ shown: String) -> DemoServer.JSON {
    [
      "issuer": .string(shown), "authorization_endpoint": .string("\(issuer)/authorize"),
      "token_endpoint": .string("\(issuer)/token"), "userinfo_endpoint": .string("\(issuer)/userinfo"),
      "jwks_uri": .string("\(issuer)/jwks"), "end_session_endpoint": .string("\(issuer)/end_session"),
      "scopes_supported": ["openid", "profile", "email", "offline_access"],
      "response_types_supported": [
        "code", "token", "id_token", "code token", "code id_token", "token id_token", "code token id_token",
      ],
      "response_modes_supported": ["query", "fragment"],
      "grant_types_supported": ["authorization_code", "implicit", "refresh_token"],
      "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
      "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
    ]
  }
}
