import Foundation
import Grants
import OAuth
import Testing

@testable import GrantdConfiguration
@testable import Providers

/// The rows of Dropbox's table, by the shipped template.
@Suite("Dropbox, row by row")
struct DropboxRowTests {
  static let keys = """
    profile = "dropbox"
    client_id = "KEY"
    redirect_uri = "db-KEY://2/token"

    """
  static let implicit = """
    response_type = "token"
    allow_implicit = true
    authorization_parameters = { token_access_type = "" }

    """
  static let codeState = "oauth2code:\(SignInRig.challenge):S256:offline"

  func rig(_ more: String = "") throws -> SignInRig { try SignInRig(Self.keys + more) }

  @Test("fall-back chain: the applications in order, whichever of them the login wants, and the browser")
  func chain() throws {
    let rig = try rig()
    #expect(rig.provider.authorizationTraits.options.apps == ["dropbox", "dropbox-emm"])
    let place = try rig.place().place
    #expect(place.natives.map(\.app) == ["dropbox", "dropbox-emm"])
    #expect(place.natives.map { $0.url.scheme } == ["dbapi-2", "dbapi-8-emm"])
    #expect(try rig.place([]) { $0.apps = ["dropbox-emm"] }.place.natives.map(\.app) == ["dropbox-emm"])
    #expect(try rig.place([]) { $0.apps = [] }.place.natives.isEmpty)
  }

  @Test("web URL: no new accounts on the way, a challenge and offline access for a code, and always a state")
  func webURL() throws {
    let common = [
      "client_id": "KEY", "redirect_uri": "db-KEY://2/token", "disable_signup": "true", "state": "the-state",
    ]
    let code = try rig().place().place.url
    #expect(code.absoluteString.hasPrefix("https://www.dropbox.com/oauth2/authorize?"))
    #expect(
      code.parameters
        == common.merging([
          "response_type": "code", "code_challenge": SignInRig.challenge, "code_challenge_method": "S256",
          "token_access_type": "offline",
        ]) { $1 })
    #expect(
      try rig(Self.implicit).place().place.url.parameters == common.merging(["response_type": "token"]) { $1 })
  }

  static let tokenAnswers: [(String, String)] = [
    ("db-KEY://2/token#access_token=t&token_type=bearer&uid=7&account_id=dbid:1&state=the-state", "token t"),
    ("db-KEY://2/token#access_token=t&token_type=bearer&uid=7&account_id=dbid:1&state=other", "wrongState"),
    (
      "db-KEY://2/token#error_description=The+user+chose&error=access_denied&state=the-state", "denied access_denied"
    ),
    ("db-KEY://2/token?error_description=The+user+chose&error=access_denied&state=the-state", "denied access_denied"),
    ("db-KEY://2/token#error=access_denied", "missingState"),
  ]

  @Test(
    "web token callback and denied: in the fragment, by the state, and only where it is allowed",
    arguments: tokenAnswers)
  func webToken(address: String, expected: String) throws {
    let rig = try rig(Self.implicit)
    #expect(word(try rig.answer(address, try rig.login())) == expected)
    let codes = try self.rig()
    #expect(!word(try codes.answer(address, try codes.login())).hasPrefix("token"))
  }

  @Test("web token callback: allow_implicit decides, and the account is in the answer")
  func allowed() throws {
    let refused = try Fixture().complaint("[provider.x]\n\(Self.keys)response_type = \"token\"")
    #expect(refused.hasPrefix("grantd.toml:5: \"response_type\" in [provider.x] is \"token\": "))
    let rig = try rig(Self.implicit)
    guard case .issued(let issued) = try rig.answer(Self.tokenAnswers[0].0, try rig.login()).get() else {
      Issue.record("no token")
      return
    }
    #expect(issued.identity?.subject == "dbid:1")
    #expect(String(decoding: issued.tokens.extra, as: UTF8.self) == #"{"account_id":"dbid:1","uid":"7"}"#)
  }

  @Test(
    "web code callback and denied: in the query, by the state",
    arguments: [
      ("db-KEY://2/token?code=c&state=the-state", "code c"), ("db-KEY://2/token?code=c&state=other", "wrongState"),
      ("db-KEY://2/token?code=c", "missingState"),
      ("db-KEY://2/token?error_description=The+user+chose&error=access_denied&state=the-state", "denied access_denied"),
      ("db-KEY://2/token?error=access_denied", "missingState"),
    ])
  func webCode(address: String, expected: String) throws {
    let rig = try rig()
    #expect(word(try rig.answer(address, try rig.login())) == expected)
  }

  @Test("denied: + is a space in what people read")
  func words() throws {
    let rig = try rig(Self.implicit)
    let answer = try rig.answer(Self.tokenAnswers[2].0, try rig.login())
    guard case .failure(.denied(let error)) = answer else {
      Issue.record("\(word(answer))")
      return
    }
    #expect(error.description == "The user chose")
  }

  static let places: [(String, CallbackClaim)] = [
    ("db-KEY://2/token?code=c&state=the-state", .named), ("DB-key://2/token?code=c&state=the-state", .named),
    ("db-KEY://2/tokenX?code=c&state=the-state", .refused(.wrongAddress)),
    ("db-KEY://2/token/?code=c&state=the-state", .refused(.wrongAddress)),
    ("db-KEY://2/TOKEN?code=c&state=the-state", .refused(.wrongAddress)),
    ("db-KEY://22/token?code=c&state=the-state", .refused(.wrongAddress)),
    ("db-KEY://2:1/token?code=c&state=the-state", .refused(.wrongAddress)),
    ("db-KEYX://2/token?code=c&state=the-state", .refused(.wrongAddress)),
    ("db-KEY://2/token", .refused(.missingState)), ("db-KEY://2/tokenX", .foreign),
    ("db-OTHER://1/connect?oauth_code=c&state=\(codeState)", .foreign),
  ]

  @Test("matching: exact scheme, host and path", arguments: places)
  func matching(address: String, claim: CallbackClaim) throws {
    let rig = try rig()
    #expect(rig.claim(address, try rig.login()) == claim)
  }

  @Test("app code exchange: by the application's own redirect URI, whatever the web login's is")
  func appCode() throws {
    let keys = Self.keys.replacing("db-KEY://2/token", with: "http://127.0.0.1:8400/callback")
    let rig = try SignInRig(keys)
    let login = try rig.login()
    let body = #"{"access_token":"sl.a","token_type":"bearer","expires_in":14400,"account_id":"dbid:1"}"#
    for (address, uri) in [
      ("db-KEY://1/connect?oauth_code=c&state=\(Self.codeState)", "db-KEY://2/token"),
      ("http://127.0.0.1:8400/callback?code=c&state=the-state", "http://127.0.0.1:8400/callback"),
    ] {
      #expect(try rig.exchange(address, login, body).sent.first?.form["redirect_uri"] == uri)
    }
  }

  @Test("exchange, refresh: the account is account_id, and a refresh keeps the old refresh token")
  func exchange() throws {
    let rig = try rig()
    let login = try rig.login()
    let body =
      #"{"access_token":"sl.a","token_type":"bearer","expires_in":14400,"refresh_token":"r","uid":"7","#
      + #""account_id":"dbid:1","scope":"account_info.read files.metadata.read"}"#
    let (end, sent) = try rig.exchange("db-KEY://2/token?code=c&state=the-state", login, body)
    let issued = try end.get()
    #expect(sent[0].url.absoluteString == "https://api.dropboxapi.com/oauth2/token")
    #expect(
      sent[0].form == [
        "grant_type": "authorization_code", "code": "c", "redirect_uri": "db-KEY://2/token", "client_id": "KEY",
        "code_verifier": SignInRig.verifier,
      ])
    #expect(issued.identity == Identity(subject: "dbid:1"))
    #expect(issued.tokens.expiresIn == .seconds(14_400))

    var grant = Grant(saved: rig.grant(issued, login), token: nil, jitter: 0)
    guard case .begun(let attempt, _) = grant.beginRefresh(at: SignInRig.start) else {
      Issue.record("no refresh")
      return
    }
    let answer = try rig.refresh(
      grant.saved, #"{"access_token":"sl.b","token_type":"bearer","expires_in":14400,"uid":"7","account_id":"dbid:1"}"#)
    _ = grant.answered(attempt, answer, rotation: .none, refreshTokenLifetime: nil)
    _ = grant.committed(attempt, jitter: 0)
    #expect(grant.saved.refreshToken == Secret("r"))
    #expect(grant.token?.accessToken == Secret("sl.b"))
  }

  @Test("exchange, refresh: a refresh that names another account ends the grant")
  func another() throws {
    let rig = try rig()
    let login = try rig.login()
    let tokens = #"{"access_token":"sl.a","token_type":"bearer","refresh_token":"r","account_id":"dbid:1"}"#
    let issued = try rig.exchange("db-KEY://2/token?code=c&state=the-state", login, tokens).end.get()
    let (end, _) = talk(
      rig.provider.refresh(
        rig.grant(issued, login), token: Secret("r"), key: SavedToken.Key(), metadata: rig.metadata),
      [.success(json(tokens.replacing("dbid:1", with: "dbid:2")))])
    guard case .failure(.ended(.identityChanged, _, _)) = end.flatMap(\.issued) else {
      Issue.record("\(end)")
      return
    }
  }

  @Test("revoke: the access token in the header, and an empty body")
  func revoke() throws {
    let rig = try rig()
    let request = try #require(
      rig.provider.revocation(of: Secret("sl.a"), hint: "access_token", context: [:], metadata: rig.metadata))
    #expect(request.method == "POST" && request.body == nil)
    #expect(request.url.absoluteString == "https://api.dropboxapi.com/2/auth/token/revoke")
    #expect(request.headers.contains(.init("Authorization", "Bearer sl.a")))
    #expect(
      rig.provider.revocation(of: Secret("r"), hint: "refresh_token", context: [:], metadata: rig.metadata) == nil)
  }

  static let verdicts: [(String, Int, ResourceVerdict)] = [
    ("expired_access_token", 401, .tokenRefused(message: "HTTP 401: expired_access_token", nil)),
    ("invalid_access_token", 401, .tokenRefused(message: "HTTP 401: invalid_access_token", nil)),
    ("something_new", 401, .tokenRefused(message: "HTTP 401: something_new", nil)),
    ("missing_scope", 401, .loginRequired(message: "HTTP 401: missing_scope")),
    ("user_suspended", 401, .blocked(message: "HTTP 401: user_suspended")),
    ("user_suspended", 409, .passed), ("too_many_requests", 429, .passed),
  ]

  @Test(
    "API errors: an ended token, a missing scope and a suspended person are told apart; the rest passes",
    arguments: verdicts)
  func calls(tag: String, status: Int, verdict: ResourceVerdict) throws {
    let rig = try rig()
    let body = #"{"error_summary":"\#(tag)/..","error":{".tag":"\#(tag)","retry_after":1}}"#
    #expect(rig.provider.verdict(on: json(body, status: status)) == verdict)
    for odd in ["", "[]", #"{"error":"x"}"#, #"{"error":{".tag":7}}"#] {
      #expect(rig.provider.verdict(on: json(odd, status: 401)) == .tokenRefused(message: "HTTP 401", nil))
    }
  }

  @Test("API errors: calls go to Dropbox's own addresses alone")
  func origins() throws {
    let api = try rig().provider.apiTraits
    #expect(api.base?.absoluteString == "https://api.dropboxapi.com/2")
    #expect(api.origins == ["https://api.dropboxapi.com:443", "https://content.dropboxapi.com:443"])
  }
}
