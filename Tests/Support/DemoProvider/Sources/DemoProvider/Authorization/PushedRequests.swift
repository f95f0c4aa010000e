import Foundation
import Synchronization

extension Ledger {
  /// A pushed authorization request (RFC 9126 §2.2).
  struct Pushed: Sendable {
    var clientID: String
    var form: Form
    var isSigned: Bool
    var expires: Date
    var isUsed = false
  }

  /// The request behind a request URI; nil where it is unknown, another client's, expired or used.
  func pushed(_ uri: String, by client: DemoServer.Client, at now: Date) -> Pushed? {
    guard let request = pushed[uri], request.clientID == client.id, !request.isUsed, now < request.expires else {
      return nil
    }
    return request
  }

  mutating func usePushed(_ uri: String) {
    pushed.update(uri) { $0.isUsed = true }
    count(.pushUsed)
  }
}

extension Provider {
  /// The pushed authorization request endpoint (RFC 9126 §2).
  func push(_ turn: Turn) throws(OAuthFailure) -> Response {
    let form = turn.request.form
    if let name = form.repeated { throw .invalidRequest("\(name) occurs twice") }
    let client = try client(of: turn)
    guard form["request_uri"] == nil else { throw .invalidRequest("request_uri cannot be pushed") }
    let asked: AuthorizationRequest
    do throws(AuthorizationRequest.Unanswerable) {
      asked = try AuthorizationRequest(form, of: client, turn, self)
    } catch {
      throw .invalidRequest(error.description)
    }
    if let failure = asked.failure { throw failure }
    var kept = asked.form.pairs
    if let jkt = try proof(of: turn), asked.form["dpop_jkt"] == nil { kept.append(("dpop_jkt", jkt)) }
    let credentials = ["client_secret", "client_assertion", "client_assertion_type", "request"]
    let pushed = Form(kept.filter { !credentials.contains($0.name) })
    let uri = "urn:ietf:params:oauth:request_uri:\(Base64URL.random())"
    let settings = ledger.withLock { ledger in
      let expires = turn.now.addingTimeInterval(ledger.settings.authorization.parTTL.asSeconds)
      ledger.pushed.insert(
        Ledger.Pushed(clientID: client.id, form: pushed, isSigned: asked.isSigned, expires: expires), for: uri)
      ledger.count(.push)
      return ledger.settings.authorization
    }
    let members: DemoServer.JSON = [
      "request_uri": .string(uri), "expires_in": .int(Int(settings.parTTL.asSeconds)),
    ]
    var response = Response.json(members.overlaid(with: settings.parExtra), status: settings.parStatus)
    response.headers.append(("Cache-Control", "no-store"))
    return response
  }
}

extension Provider {
  /// The parameters in a signed authorization request; none outside count (RFC 9101 §4, §6).
  func parameters(
    ofRequestObject text: String, _ client: DemoServer.Client, at now: Date
  ) throws(OAuthFailure) -> Form {
    do throws(OAuthFailure) {
      guard let object = CompactJWT(text) else { throw .invalidRequestObject("it is no JWT") }
      let isVerified =
        object.algorithm.hasPrefix("HS")
        ? client.secret.map { object.verifies(by: $0) } ?? false : object.verifies(by: client.keys)
      guard isVerified else { throw .invalidRequestObject("no key of the client verifies it") }
      let claims = object.claims
      let type = object.header["typ"]?.string?.lowercased() ?? "jwt"
      guard ["jwt", "oauth-authz-req+jwt"].contains(type) else { throw .invalidRequestObject("its typ is \(type)") }
      guard claims["client_id"]?.string == client.id, claims["iss"]?.string ?? client.id == client.id else {
        throw .invalidRequestObject("client_id or iss is not the client")
      }
      guard object.audience(isOneOf: [issuer]) else { throw .invalidRequestObject("its aud is not the issuer") }
      guard claims["exp"]?.number ?? .infinity > now.timeIntervalSince1970 - Limits.clockTolerance else {
        throw .invalidRequestObject("it has expired")
      }
      guard claims["request"] == nil, claims["request_uri"] == nil, case .object(let members) = claims else {
        throw .invalidRequestObject("it holds another request")
      }
      ledger.withLock { $0.count(.requestObject) }
      return Self.form(of: members)
    } catch {
      ledger.withLock { $0.count(.requestObjectRefused) }
      throw error
    }
  }

  /// Strings as they are, lists of `resource` repeated, everything else as its JSON text.
  private static func form(of members: [String: DemoServer.JSON]) -> Form {
    let claims: Set = ["iss", "aud", "exp", "iat", "nbf", "jti"]
    return Form(
      members.filter { !claims.contains($0.key) }.flatMap { name, value -> [(name: String, value: String)] in
        if name == "resource", case .array(let all) = value { return all.compactMap { $0.string }.map { (name, $0) } }
        return [(name, value.string ?? value.text)]
      })
  }
}

extension OAuthFailure {
  fileprivate static func invalidRequestObject(_ description: String) -> Self {
    .init(code: "invalid_request_object", description: "the request object is refused: \(description)")
  }
}
