import Foundation
import Synchronization

/// An authorization request that may be answered at its redirect URI (RFC 6749 §4.1.1, RFC 7636 §4.3), whether it came
/// in the query, was pushed (RFC 9126) or is signed (RFC 9101).
struct AuthorizationRequest: Sendable {
  var client: DemoServer.Client
  var redirectURI: String
  /// The parameters that count.
  var form: Form
  /// The parameters as they came.
  var raw: Form
  /// The `request_uri` it was pushed to.
  var pushed: String?
  var isSigned = false
  var dialect: Dialect
  /// Where its page posts to.
  var path: String
  /// Who was named in what was pushed beside it (Uber).
  var prefill: String?
  private var settings: DemoServer.Settings.Authorization
  private var requestObjectFailure: OAuthFailure?
  private var needsChallenge: Bool

  var state: String? { form["state"] }
  var scopes: [String] { form.words("scope") ?? dialect.defaultScopes }
  var prompts: Set<Substring> { Set((form["prompt"] ?? "").split(separator: " ")) }
  var isImplicit: Bool { (settings.implicitGrant || dialect == .dropbox) && form["response_type"] == "token" }
  /// Whether the answer is a signed JWT in the query (JARM §2.3).
  var wantsSignedResponse: Bool { ["jwt", "query.jwt"].contains(form["response_mode"] ?? "") }

  /// What a person must be told on a page, as the redirect URI cannot be trusted (RFC 6749 §4.1.2.1).
  struct Unanswerable: Error {
    var description: String
  }

  /// One from the front channel.
  init(_ turn: Provider.Turn, _ provider: Provider) throws(Unanswerable) {
    let raw = turn.request.parameters
    if let name = raw.repeated { throw Unanswerable(description: "The parameter \(name) occurs twice.") }
    guard let id = raw["client_id"], let client = provider.client(id, at: turn.now) else {
      throw Unanswerable(description: "The application is not known here.")
    }
    var form = raw
    var isSigned = false
    let dialect = Dialect(path: turn.request.path)
    if dialect == .uber, let uri = raw["request_uri"] {
      let (hint, ignores) = provider.ledger.withLock { ledger in
        let found = ledger.pushed(uri, by: client, at: turn.now)
        if found != nil { ledger.count(.pushUsed) }
        return (found.map { $0.form["login_hint"] ?? "" }, ledger.settings.uber.ignoresUnknownRequestURI)
      }
      guard hint != nil || ignores else { throw Unanswerable(description: "The request URI is unknown or expired.") }
      try self.init(form, of: client, turn, provider)
      prefill = hint.flatMap { User(hint: $0)?.name }
      return
    }
    if let uri = raw["request_uri"] {
      guard let pushed = provider.ledger.withLock({ $0.pushed(uri, by: client, at: turn.now) }) else {
        throw Unanswerable(description: "The request URI is unknown, expired or used.")
      }
      (form, isSigned) = (pushed.form, pushed.isSigned)
    }
    try self.init(form, of: client, turn, provider)
    self.raw = raw
    pushed = raw["request_uri"]
    if isSigned { self.isSigned = true }
  }

  /// One whose parameters are all here.
  init(
    _ form: Form, of client: DemoServer.Client, _ turn: Provider.Turn, _ provider: Provider
  ) throws(Unanswerable) {
    self.client = client
    self.form = form
    raw = form
    path = turn.request.path
    dialect = Dialect(path: path)
    let all = provider.ledger.withLock { $0.settings }
    settings = all.authorization
    needsChallenge = dialect == .uber ? all.uber.needsChallenge : client.isPublic
    if let object = form["request"] {
      do throws(OAuthFailure) {
        self.form = try provider.parameters(ofRequestObject: object, client, at: turn.now)
        isSigned = true
      } catch {
        requestObjectFailure = error
      }
    }
    guard let uri = self.form["redirect_uri"],
      provider.allows(redirect: uri, for: client) || (dialect == .dropbox && Dropbox.allows(uri, client))
    else {
      throw Unanswerable(description: "The application's redirect URI is not registered.")
    }
    redirectURI = uri
  }

  /// What is wrong with it, told to the client.
  var failure: OAuthFailure? {
    if let requestObjectFailure { return requestObjectFailure }
    if settings.requireRequestObject, !isSigned { return .invalidRequest("the request must be signed") }
    if let failure = dialect.failure(of: form, raw: raw) { return failure }
    if isImplicit { return nil }
    guard form["response_type"] == "code" else {
      return OAuthFailure(code: "unsupported_response_type", description: "only code is supported")
    }
    guard ["query", "jwt", "query.jwt"].contains(form["response_mode"] ?? "query") else {
      return .invalidRequest("response_mode is query, jwt or query.jwt")
    }
    if settings.nonceRequired, form["nonce"] == nil { return .invalidRequest("a nonce is required") }
    if settings.maxState > 0, (state ?? "").utf8.count > settings.maxState {
      return .invalidRequest("the state is too long")
    }
    guard let challenge = form["code_challenge"] else {
      return needsChallenge ? .invalidRequest("a public client needs a code_challenge") : nil
    }
    guard form["code_challenge_method"] == "S256" else { return .invalidRequest("code_challenge_method must be S256") }
    return challenge.utf8.count == 43 ? nil : .invalidRequest("an S256 code_challenge has 43 characters")
  }

  /// That it was not pushed where it must be (RFC 9126 §5).
  var pushFailure: OAuthFailure? {
    settings.requirePAR && pushed == nil ? .invalidRequest("the request must be pushed") : nil
  }
}
