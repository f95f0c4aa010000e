import Foundation
import NIOHTTP1
import Synchronization

/// An authorization request that may be answered at its redirect URI (RFC 6749 §4.1.1, RFC 7636 §4.3).
struct AuthorizationRequest: Sendable {
  var client: DemoServer.Client
  var redirectURI: String
  var state: String?
  var form: Form

  var scopes: [String] { (form["scope"] ?? "").split(separator: " ").map(String.init) }
  var prompts: Set<Substring> { Set((form["prompt"] ?? "").split(separator: " ")) }

  /// What a person must be told on a page, as the redirect URI cannot be trusted (RFC 6749 §4.1.2.1).
  struct Unanswerable: Error {
    var description: String
  }

  init(_ form: Form, _ provider: Provider) throws(Unanswerable) {
    if let name = form.repeated { throw Unanswerable(description: "The parameter \(name) occurs twice.") }
    guard let id = form["client_id"], let client = provider.options.clients.first(where: { $0.id == id }) else {
      throw Unanswerable(description: "The application is not known here.")
    }
    guard let uri = form["redirect_uri"], provider.allows(redirect: uri, for: client) else {
      throw Unanswerable(description: "The application's redirect URI is not registered.")
    }
    self.client = client
    redirectURI = uri
    state = form["state"]
    self.form = form
  }

  /// What is wrong with it, told to the client.
  var failure: OAuthFailure? {
    guard form["response_type"] == "code" else {
      return OAuthFailure(code: "unsupported_response_type", description: "only code is supported")
    }
    guard let challenge = form["code_challenge"] else {
      return client.secret == nil ? .invalidRequest("a public client needs a code_challenge") : nil
    }
    guard form["code_challenge_method"] == "S256" else { return .invalidRequest("code_challenge_method must be S256") }
    return challenge.utf8.count == 43 ? nil : .invalidRequest("an S256 code_challenge has 43 characters")
  }
}

extension Provider {
  /// The authorization endpoint: the consent page, or at once the redirect to the client.
  func authorize(_ turn: Turn) -> Response {
    let form = turn.request.parameters
    let asked: AuthorizationRequest
    do throws(AuthorizationRequest.Unanswerable) {
      asked = try AuthorizationRequest(form, self)
    } catch {
      return .page(.problem(error.description), status: 400)
    }
    if let fault = turn.fault(.oauthError) { return deny(asked, fault.failure, turn) }
    if let failure = asked.failure { return deny(asked, failure, turn) }
    if turn.request.method == .POST { return decide(asked, turn) }
    let approve = ledger.withLock { $0.settings.approve }
    let hint = form["login_hint"]
    let wantsPage = !asked.prompts.isDisjoint(with: ["login", "consent", "select_account"])
    if approve == .auto || (hint != nil && !wantsPage) { return allow(asked, hint ?? "alice", turn) }
    if asked.prompts.contains("none") {
      return deny(
        asked, OAuthFailure(code: "login_required", description: "prompt=none, and nobody is signed in"), turn)
    }
    return .page(.consent(asked, userName: hint ?? "alice", problem: nil))
  }

  /// What the person on the page chose.
  private func decide(_ asked: AuthorizationRequest, _ turn: Turn) -> Response {
    guard asked.form["decision"] == "allow" else { return allow(asked, "deny", turn) }
    let name = asked.form["username"] ?? ""
    guard User(hint: name) != nil else {
      let problem = "There is no user “\(name.prefix(64))”. Try alice, bob or user-1."
      return .page(.consent(asked, userName: name, problem: problem), status: 422)
    }
    return allow(asked, name, turn)
  }

  private func allow(_ asked: AuthorizationRequest, _ hint: String, _ turn: Turn) -> Response {
    guard let user = User(hint: hint) else {
      let reason = hint == "deny" ? "the user refused" : "no such user"
      return deny(asked, OAuthFailure(code: "access_denied", description: reason), turn)
    }
    let approved = Ledger.Approved(
      clientID: asked.client.id, user: user, redirectURI: asked.redirectURI, scopes: asked.scopes,
      nonce: asked.form["nonce"], challenge: asked.form["code_challenge"])
    let code = ledger.withLock { $0.issueCode(for: approved, at: turn.now) }
    return callback(asked, [("code", code)], turn)
  }

  private func deny(_ asked: AuthorizationRequest, _ failure: OAuthFailure, _ turn: Turn) -> Response {
    callback(asked, [("error", failure.code), ("error_description", failure.description)], turn)
  }

  /// The authorization response, errors too, with `iss` (RFC 6749 §4.1.2, RFC 9207 §2).
  private func callback(
    _ asked: AuthorizationRequest, _ parameters: [(name: String, value: String)], _ turn: Turn
  ) -> Response {
    var pairs = parameters
    if let state = asked.state { pairs.append(("state", state)) }
    if let wrong = turn.fault(.wrongIss) {
      pairs.append(("iss", wrong.parameters.value ?? Self.wrongIssuer))
    } else if turn.fault(.missingIss) == nil {
      pairs.append(("iss", issuer))
    }
    let joint = asked.redirectURI.contains("?") ? "&" : "?"
    // 303, so that a form post is followed by a GET (RFC 9700 §4.12).
    return .redirect(to: asked.redirectURI + joint + Form(pairs).encoded, status: 303)
  }

  static let wrongIssuer = "http://wrong-issuer.example"
}
