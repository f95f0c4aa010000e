import Foundation
import NIOHTTP1
import Synchronization

extension Provider {
  /// The authorization endpoint: the consent page, or at once the redirect to the client.
  func authorize(_ turn: Turn) -> Response {
    let asked: AuthorizationRequest
    do throws(AuthorizationRequest.Unanswerable) {
      asked = try AuthorizationRequest(turn, self)
    } catch {
      return .page(.problem(error.description), status: 400)
    }
    if let fault = turn.fault(.oauthError) { return deny(asked, fault.failure, turn) }
    if let failure = asked.pushFailure ?? asked.failure { return deny(asked, failure, turn) }
    if turn.request.method == .POST { return decide(asked, turn) }
    if let bridged = bridge(asked) { return bridged }
    let (approve, user) = ledger.withLock { ($0.settings.approve, $0.settings.defaultUser) }
    let hint = asked.form["login_hint"]
    let wantsPage = !asked.prompts.isDisjoint(with: ["login", "consent", "select_account"])
    if approve == .auto || (hint != nil && !wantsPage) { return allow(asked, hint ?? asked.prefill ?? user, turn) }
    if asked.prompts.contains("none") {
      return deny(
        asked, OAuthFailure(code: "login_required", description: "prompt=none, and nobody is signed in"), turn)
    }
    return .page(.consent(asked, userName: hint ?? asked.prefill ?? user, problem: nil))
  }

  /// What the person on the page chose.
  private func decide(_ asked: AuthorizationRequest, _ turn: Turn) -> Response {
    guard asked.raw["decision"] == "allow" else { return allow(asked, "deny", turn) }
    let name = asked.raw["username"] ?? ""
    guard User(hint: name) != nil else {
      let problem = "There is no user “\(name.prefix(64))”. Try alice, bob or user-1."
      return .page(.consent(asked, userName: name, problem: problem), status: 422)
    }
    return allow(asked, name, turn)
  }

  func allow(_ asked: AuthorizationRequest, _ hint: String, _ turn: Turn) -> Response {
    guard let user = User(hint: hint) else {
      let refusal = ledger.withLock { $0.settings.authorization.refusal }
      guard refusal != .page else { return .page(.problem("You have refused.")) }
      let reason = hint == "deny" ? asked.dialect.refusal : "no such user"
      return deny(asked, OAuthFailure(code: refusal.rawValue, description: reason), turn)
    }
    var approved = Ledger.Approved(clientID: asked.client.id, user: user)
    approved.redirectURI = asked.redirectURI
    approved.scopes = asked.scopes
    approved.resources = asked.form.all("resource")
    approved.nonce = asked.form["nonce"]
    approved.challenge = asked.form["code_challenge"]
    // A server that does not know DPoP passes over the parameter.
    approved.jkt = ledger.withLock { $0.settings.dpop.mode } == .ignored ? nil : asked.form["dpop_jkt"]
    refuseRefreshing(&approved, asked)
    if asked.isImplicit { return implicit(asked, approved, turn) }
    let code = ledger.withLock { [approved] in $0.issueCode(for: approved, at: turn.now) }
    var pairs = [("code", code)]
    if turn.fault(.tokenInCallback) != nil { pairs.append(("access_token", "at-\(Base64URL.random())")) }
    return callback(asked, pairs, turn)
  }

  /// RFC 6749 §4.2.2: the token in the fragment, and no refresh token.
  private func implicit(_ asked: AuthorizationRequest, _ approved: Ledger.Approved, _ turn: Turn) -> Response {
    let asking = Ledger.Asking(
      client: asked.client, origin: .authorize, scopes: nil, now: turn.now, dialect: asked.dialect)
    let issued = try? ledger.withLock { ledger throws(OAuthFailure) in
      try ledger.open(approved, for: asking, isRefreshable: false, authenticated: turn.now)
    }
    guard let issued else { return deny(asked, .invalidRequest("the resource is not one"), turn) }
    if asked.dialect == .dropbox, let user = approved.user {
      return callback(asked, Dropbox.fragment(issued, user), turn)
    }
    let pairs = [
      ("access_token", issued.accessToken), ("token_type", "Bearer"),
      ("expires_in", String(Int(issued.settings.accessTTL.asSeconds))), ("scope", issued.scopes.joined(separator: " ")),
    ]
    return callback(asked, pairs, turn)
  }

  /// Takes the refresh token out of what is granted where the request asked for none.
  private func refuseRefreshing(_ approved: inout Ledger.Approved, _ asked: AuthorizationRequest) {
    let settings = ledger.withLock { $0.settings }
    switch asked.dialect {
    case .dropbox:
      let kind = asked.form["token_access_type"]
      approved.isOffline = kind == "offline" || (kind == nil && settings.dropbox.offlineByDefault)
    case .uber: return
    case .standard:
      guard settings.sevenPass.offlineNeedsConsent else { return }
      approved.isOffline = asked.prompts.contains("consent") && approved.scopes.contains("offline_access")
      if !approved.isOffline { approved.scopes.removeAll { $0 == "offline_access" } }
    }
  }

  private func deny(_ asked: AuthorizationRequest, _ failure: OAuthFailure, _ turn: Turn) -> Response {
    if ledger.withLock({ $0.settings.authorization.errorPage }) { return .page(.problem(failure.description)) }
    return callback(asked, [("error", failure.code), ("error_description", failure.description)], turn)
  }

  /// The authorization response, errors too, with `iss` (RFC 6749 §4.1.2, RFC 9207 §2), signed where that was asked.
  private func callback(
    _ asked: AuthorizationRequest, _ parameters: [(name: String, value: String)], _ turn: Turn
  ) -> Response {
    var pairs = parameters
    let isError = pairs.contains { $0.name == "error" }
    let isDropbox = asked.dialect == .dropbox
    if isDropbox, isError { pairs.reverse() }
    let bearsState = !isDropbox || !isError || ledger.withLock { $0.settings.dropbox.stateOnRefusal }
    if bearsState, let state = turn.state(asked.state) { pairs.append(("state", state)) }
    let settings = ledger.withLock { ledger in
      if let uri = asked.pushed { ledger.usePushed(uri) }
      return ledger.settings.authorization
    }
    if asked.dialect != .standard {
      // Neither knows RFC 9207.
    } else if let wrong = turn.fault(.wrongIss) {
      pairs.append(("iss", wrong.parameters.value ?? Self.wrongIssuer))
    } else if turn.fault(.missingIss) == nil, settings.issOnErrors || !isError || asked.wantsSignedResponse {
      pairs.append(("iss", issuer))
    }
    if asked.wantsSignedResponse, turn.fault(.plainResponse) == nil {
      guard let signed = try? signedResponse(pairs, to: asked.client, turn) else { return Response(status: 500) }
      pairs = [("response", signed)]
    }
    let joint = asked.isImplicit ? "#" : asked.redirectURI.contains("?") ? "&" : "?"
    let answer = isDropbox ? Form(pairs).plusEncoded : Form(pairs).encoded
    // 303, so that a form post is followed by a GET (RFC 9700 §4.12).
    return .redirect(to: asked.redirectURI + joint + answer, status: 303)
  }

  /// JARM §2.1.
  private func signedResponse(
    _ pairs: [(name: String, value: String)], to client: DemoServer.Client, _ turn: Turn
  ) throws(OAuthFailure) -> String {
    let now = Int(turn.claimedNow.timeIntervalSince1970)
    let members = pairs.map { ($0.name, DemoServer.JSON.string($0.value)) }
    let claims = DemoServer.JSON.object(Dictionary(members) { $1 }).overlaid(with: [
      "aud": .string(turn.fault(.wrongAudience).map { $0.parameters.value ?? "another-client" } ?? client.id),
      "exp": .int(turn.fault(.expired) == nil ? now + 600 : now - 3600),
    ])
    ledger.withLock { $0.count(.signedResponse) }
    return try sign(claims, turn)
  }

  static let wrongIssuer = "http://wrong-issuer.example"
}
