import Foundation
import NIOHTTP1
import Synchronization

extension Provider {
  /// OIDC Core §5.3; the errors are those of RFC 6750 §3 and RFC 9449 §7.1.
  func userinfo(_ turn: Turn) throws(OAuthFailure) -> Response {
    let token: Ledger.AccessToken
    let grant: Ledger.Grant
    switch access(turn) {
    case .refused(let response): return response
    case .granted(let found): (token, grant) = found
    }
    guard token.scopes.contains("openid") else {
      let challenge = "Bearer realm=\"demo\", error=\"insufficient_scope\", scope=\"openid\""
      return Response(status: 403, headers: [("WWW-Authenticate", challenge)])
    }
    let settings = ledger.withLock { $0.settings }
    var claims = grant.approved.claims(for: token.scopes)
    if let wrong = turn.fault(.wrongSubject) { claims["sub"] = .string(wrong.parameters.value ?? "sub-somebody") }
    let body = DemoServer.JSON.object(claims).overlaid(with: settings.userinfoExtra)
    guard settings.resource.userinfoSigned else { return .json(body) }
    let now = Int(turn.claimedNow.timeIntervalSince1970)
    let signed = body.overlaid(with: [
      "iss": .string(turn.fault(.wrongIssuer).map { $0.parameters.value ?? Self.wrongIssuer } ?? issuer),
      "aud": .string(
        turn.fault(.wrongAudience).map { $0.parameters.value ?? "another-client" } ?? grant.approved.clientID),
      "iat": .int(now), "exp": .int(turn.fault(.expired) == nil ? now + 300 : now - 3600),
    ])
    return Response(body: .text(try sign(signed, turn), type: "application/jwt"))
  }

  /// A resource that tells what it was asked with.
  func resource(_ turn: Turn) throws(OAuthFailure) -> Response {
    switch access(turn) {
    case .refused(let response): return response
    case .granted((let token, let grant)):
      return .json([
        "sub": .string(grant.approved.subject), "client_id": .string(grant.approved.clientID),
        "scope": .string(token.scopes.joined(separator: " ")), "method": .string(turn.request.method.rawValue),
        "resources": .array(token.resources.map { .string($0) }), "bound": .bool(token.jkt != nil),
      ])
    }
  }

  private enum Access {
    case granted((Ledger.AccessToken, Ledger.Grant))
    case refused(Response)
  }

  private func access(_ turn: Turn) -> Access {
    let style = ledger.withLock { $0.settings.resource.unauthorized }
    let bound = turn.request.credentials(scheme: "DPoP")
    let scheme = bound == nil ? "Bearer" : "DPoP"
    guard let text = bound ?? turn.request.credentials(scheme: "Bearer") else {
      return .refused(Response.challenge(scheme, nil).styled(style))
    }
    let unknown = OAuthFailure(code: "invalid_token", description: "unknown, expired or revoked")
    guard let (token, grant) = ledger.withLock({ $0.access(text, at: turn.now) }) else {
      return .refused(Response.challenge(scheme, unknown).styled(style))
    }
    guard (token.jkt == nil) == (bound == nil) else {
      let mixed = OAuthFailure(code: "invalid_token", description: "the token needs the other scheme")
      return .refused(Response.challenge(token.jkt == nil ? "Bearer" : "DPoP", mixed).styled(style))
    }
    guard bound != nil else { return .granted((token, grant)) }
    do throws(OAuthFailure) {
      guard try proof(of: turn, accessToken: text) == token.jkt else {
        throw OAuthFailure(code: "invalid_token", description: "the token is bound to another key")
      }
      return .granted((token, grant))
    } catch {
      if error.code == OAuthFailure.nonceNeeded { return .refused(.nonceNeeded(at: turn.place)) }
      return .refused(Response.challenge("DPoP", error).styled(style))
    }
  }
}

extension Response {
  /// A 401 that says why (RFC 6750 §3, RFC 9449 §7.1).
  static func challenge(_ scheme: String, _ failure: OAuthFailure?) -> Self {
    let why = failure.map { ", error=\"\($0.code)\", error_description=\"\($0.description)\"" } ?? ""
    let algorithms = scheme == "DPoP" ? ", algs=\"ES256 EdDSA RS256\"" : ""
    return Self(status: 401, headers: [("WWW-Authenticate", "\(scheme) realm=\"demo\"\(why)\(algorithms)")])
  }

  /// The same refusal as less careful servers put it.
  fileprivate func styled(_ style: DemoServer.Settings.Resource.Unauthorized) -> Self {
    switch style {
    case .challenge: self
    case .empty: Self(status: 401)
    case .noScheme: Self(status: 401, headers: [("WWW-Authenticate", "error=\"invalid_token\"")])
    case .jsonAsHTML: Self(status: 401, body: .text("{\"error\":\"invalid_token\"}", type: "text/html"))
    }
  }
}
