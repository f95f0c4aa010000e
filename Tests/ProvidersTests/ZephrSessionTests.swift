import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

@Suite("Zephr, row by row: registration, sessions and the end")
struct ZephrSessionTests {
  static let memory = ["cookies": "tracking=t-1", "state_key": "key+1=", "identifier": "new@example.com"]
  static let attributes = LoginInput.attributes(Data(#"{"first-name":"Ann","age":30,"list":[true]}"#.utf8))
  static let profile = answer(#"{"user_id":"u-9"}"#)

  static func registered(_ headers: [String], _ body: String = #"{"message":"ok","tracking_id":"t-3"}"#) -> HTTPResponse
  {
    answer(body, headers: headers.map { .init("Set-Cookie", $0) })
  }

  private static func register(
    _ answers: [Result<HTTPResponse, ProviderFailure>], _ provider: ZephrProvider = zephr(),
    _ memory: [String: String] = memory
  ) -> (Result<LoginAnswer, ProviderFailure>, Conversation) {
    var talk = Conversation(answers)
    let login = systemLogin(memory, redirect: "news://auth")
    let result = talk.run(provider.resume(login, with: attributes, metadata: noMetadata))
    return (result, talk)
  }

  @Test("register: attributes and state_key for a session, which the profile then verifies")
  func register() throws {
    let answers = [Self.registered(["blaize_session=s-1; Path=/", "more=m"]), Self.profile]
    let (result, talk) = Self.register(answers.map { .success($0) })
    let issued = try #require(result.issued)
    #expect(issued.tokens.accessToken.exposed == "s-1")
    #expect(issued.identity == Identity(subject: "u-9", email: "new@example.com"))
    #expect(
      String(decoding: issued.tokens.extra, as: UTF8.self) == #"{"cookies":"more=m; tracking=t-1","tracking_id":"t-3"}"#
    )
    #expect(
      talk.lines == [
        #"POST /blaize/register {"attributes":{"age":30,"first-name":"Ann","list":[true]},"identifiers":{},"#
          + #""validators":{"token_exchange":"key+1="}}"#, "GET /blaize/profile",
      ])
    #expect(talk.sent[0].header("Cookie") == "tracking=t-1")
    #expect(talk.sent[0].header("Content-Type") == "application/json")
    #expect(talk.sent[1].header("Cookie") == "blaize_session=s-1; more=m; tracking=t-1")
  }

  static let lives: [(headers: [String], body: String, id: String, life: Duration?)] = [
    (["blaize_session=s-1; Max-Age=60"], "{}", "s-1", .seconds(60)),
    (["blaize_session=s-1; Expires=Fri, 15 Jan 2027 08:01:00 GMT; Path=/;"], "{}", "s-1", .seconds(59)),
    (["blaize_session=s-1; Expires=Fri, 15-Jan-2027 08:01:00 UTC"], "{}", "s-1", .seconds(59)),
    (["blaize_session=s-1; Expires=never"], "{}", "s-1", nil),
    (["BLAIZE_SESSION=x", "blaize_session=s-1"], "{}", "s-1", nil),
    ([], #"{"cookie":"blaize_session=s-2; Expires=Fri, 15 Jan 2027 08:01:00 GMT; Path=/;"}"#, "s-2", .seconds(59)),
    (["blaize_session=s-1"], #"{"cookie":"blaize_session=s-1; Max-Age=5;"}"#, "s-1", .seconds(5)),
    (["blaize_session=gone; Max-Age=0"], #"{"cookie":"blaize_session=s-2"}"#, "s-2", nil),
  ]

  @Test("session life: from Set-Cookie or from the body's cookie, and Expires is how long it lives", arguments: lives)
  func life(headers: [String], body: String, id: String, life: Duration?) throws {
    let (result, _) = Self.register([.success(Self.registered(headers, body)), .success(Self.profile)])
    let issued = try #require(result.issued)
    #expect(issued.tokens.accessToken.exposed == id)
    #expect(issued.tokens.expiresIn == life)
    #expect(issued.tokens.refreshToken == nil)
  }

  @Test("session life: counted by the server's own clock")
  func skew() throws {
    var response = Self.registered(["blaize_session=s-1; Expires=Fri, 15 Jan 2027 09:01:00 GMT"], "{}")
    response.headers.append(.init("Date", "Fri, 15 Jan 2027 09:00:00 GMT"))
    let (result, _) = Self.register([.success(response), .success(Self.profile)])
    #expect(try #require(result.issued).tokens.expiresIn == .seconds(60))
  }

  @Test(
    "register: no session is not a login; one that the server then refuses neither; an outage in between is skipped")
  func afterwards() {
    for headers in [[], ["other=1"], ["blaize_session="], ["blaize_session=a b"]] {
      #expect(Self.register([.success(Self.registered(headers))]).0.failure.map(name) == "invalid")
    }
    let session = HTTPResponse(status: 200, headers: [.init("Set-Cookie", "blaize_session=s-1")], body: Data("{}".utf8))
    #expect(Self.register([.success(session), .success(answer("", status: 401))]).0.failure.map(name) == "denied")
    for later in [.failure(.lost(message: "")), .success(answer("", status: 503))]
      as [Result<HTTPResponse, ProviderFailure>]
    {
      let issued = Self.register([.success(session), later]).0.issued
      #expect(issued?.identity == Identity(subject: "new@example.com", email: "new@example.com"))
    }
  }

  @Test(
    "register errors: the user can correct them, by the configured statuses",
    arguments: [
      (409, "user_exists"), (403, "email_domain_blocked"), (400, "bad_request"), (422, "bad_request"),
    ])
  func errors(status: Int, code: String) {
    let (result, talk) = Self.register([
      .success(answer(#"{"message":"no","errors":{"age":["too old"]}}"#, status: status))
    ])
    guard case .rejected(var rejection)? = result.failure else { return _ = Issue.record("\(result)") }
    // Other attributes would not help there.
    #expect((rejection.hint != nil) == (code != "bad_request"))
    rejection.hint = nil
    #expect(rejection == Rejection(code: code, message: "no (HTTP \(status))", fields: ["age": ["too old"]]))
    #expect(talk.sent.count == 1)
  }

  @Test("register errors: other statuses, if configured, and every other answer end it")
  func otherErrors() {
    let provider = zephr {
      $0.userExistsStatus = 412
      $0.emailDomainStatus = 451
    }
    for (status, expected) in [(412, "user_exists"), (451, "email_domain_blocked")] {
      guard case .rejected(let rejection)? = Self.register([.success(answer("", status: status))], provider).0.failure
      else {
        Issue.record("\(status) is no rejection")
        continue
      }
      #expect(rejection.code == expected)
      #expect(!rejection.message.isEmpty)
    }
    for (status, failure) in [
      (401, "denied"), (403, "invalid"), (409, "invalid"), (404, "invalid"), (429, "rate limited"), (500, "unclear"),
      (302, "misconfigured"),
    ] {
      #expect(
        Self.register([.success(answer("", status: status))], provider).0.failure.map(name) == failure, "\(status)")
    }
  }

  @Test("register: without a state_key, or with something else than attributes, nothing is sent")
  func nothing() {
    #expect(Self.register([], zephr(), [:]).0.failure.map(name) == "invalid")
    var talk = Conversation()
    let login = systemLogin(Self.memory, redirect: "news://auth")
    for input in [LoginInput.session("1"), .attributes(Data("[]".utf8)), .attributes(Data("x".utf8))] {
      #expect(talk.run(zephr().resume(login, with: input, metadata: noMetadata)).failure.map(name) == "invalid")
    }
  }

  // MARK: Signed in

  static let grant = systemGrant(#"{"cookies":"tracking=t-1","tracking_id":"t"}"#, subject: "u-9")
  static let token = SavedToken(
    account: account, accessToken: Secret("s-1"), type: SavedToken.session, scopes: [], generation: 1, issuedAt: start,
    expiresAt: nil)

  @Test("profile: the health probe, by the session's cookie; 401 where it is dead")
  func profile() throws {
    var talk = Conversation(answer(#"{"user_id":"u-9","email_address":"a@example.com","plan":"gold"}"#))
    let info = try talk.run(zephr().userInfo(of: Self.grant, token: Self.token, metadata: noMetadata)).get()
    #expect(info.subject == "u-9" && info.email == "a@example.com")
    #expect(String(decoding: info.claims, as: UTF8.self).contains("gold"))
    #expect(talk.lines == ["GET /blaize/profile"])
    #expect(talk.sent[0].header("Cookie") == "blaize_session=s-1; tracking=t-1")
    for (status, failure) in [(401, "token refused"), (403, "invalid"), (503, "try later"), (200, "unclear")] {
      var talk = Conversation(answer("[]", status: status))
      let step = zephr().userInfo(of: Self.grant, token: Self.token, metadata: noMetadata)
      #expect(talk.run(step).failure.map(name) == failure)
    }
  }

  @Test("profile: an authorised call has the session as its cookie, and no Authorization")
  func authorised() {
    let request = HTTPRequest(
      purpose: .resource, method: "GET", url: URL(string: "https://news.example.com/article")!)
    let sent = zephr { $0.cookieName = "own" }.authorized(request, by: Self.token, of: Self.grant)
    #expect(sent.headers == [.init("Cookie", "own=s-1; tracking=t-1")])
    #expect(zephr().apiTraits.base?.absoluteString == "https://news.example.com")
  }

  @Test(
    "logout: with where, the standard being a setting",
    arguments: [
      (nil, ZephrSettings.Reach.justHere, "JUST_HERE"), ("EVERYWHERE", .justHere, "EVERYWHERE"),
      (nil, .thisDevice, "THIS_DEVICE"),
    ] as [(String?, ZephrSettings.Reach, String)])
  func logout(reach: String?, standard: ZephrSettings.Reach, sent: String) throws {
    let provider = zephr { $0.logoutReach = standard }
    let context = provider.revocationContext(of: Self.grant, reach: reach)
    let request = try #require(
      provider.revocation(of: Secret("s-1"), hint: "session", context: context, metadata: noMetadata))
    #expect(request.url.absoluteString == "https://news.example.com/blaize/logout")
    #expect(request.body.map { String(decoding: $0, as: UTF8.self) } == "{\"where\":\"\(sent)\"}")
    #expect(request.header("Cookie") == "blaize_session=s-1; tracking=t-1")
    #expect(provider.logoutTraits.reaches.first == standard.rawValue)
    #expect(Set(provider.logoutTraits.reaches) == ["JUST_HERE", "THIS_DEVICE", "OTHER_DEVICES", "EVERYWHERE"])
    #expect(provider.revocationOutcome(answer("", status: 401)) == .revoked)
    #expect(provider.revocationOutcome(answer("", status: 500)) == .retryLater(after: nil))
  }

  @Test(
    "each statement of a check is true",
    arguments: [
      (401, "ok"), (200, "ok"), (404, "failed"), (302, "failed"), (503, "failed"),
    ])
  func examination(status: Int, result: String) throws {
    let provider = zephr { $0.pathPrefix = "/zephr" }
    #expect(provider.probe()?.url.absoluteString == "https://news.example.com/zephr/profile")
    let examination = provider.examine(answer("{}", status: status))
    let finding = try #require(examination.findings.first { $0.name == .endpoints })
    #expect((finding.result == .ok) == (result == "ok"))
    #expect(examination.metadata?.endpoints[.userinfo] != nil && examination.metadata?.endpoints[.token] == nil)
    #expect(provider.examineSettings().message.contains("https://news.example.com/zephr"))
  }

  // MARK: Cookies

  @Test("keep Set-Cookie: a later one replaces or forgets an earlier one, and there is an end to them")
  func cookies() {
    var cookies = Cookies()
    func set(_ text: String...) {
      cookies.store(HTTPResponse(status: 200, headers: text.map { .init("Set-Cookie", $0) }), at: start)
    }
    set("a=1; Path=/", "b=\"2\"; HttpOnly", "no name", "=x", "c=a b", "d=x\u{7f}")
    #expect(cookies.header == "a=1; b=2")
    set("a=3", "b=; Max-Age=0")
    #expect(cookies.header == "a=3")
    #expect(Cookies(header: cookies.header ?? "") == cookies)
    for number in 0..<100 { set("n\(number)=1") }
    #expect(cookies.values.count == Cookies.most)
    set("a=\(String(repeating: "x", count: 5000))")
    #expect(cookies.values["a"] == "3")
  }
}
