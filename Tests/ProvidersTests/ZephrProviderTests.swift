import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

@Suite("Zephr, row by row: until the sign-in")
struct ZephrProviderTests {
  static let redirect = "news://auth"

  static func started(_ location: String? = "https://idp.example/sign-in", status: Int = 302) -> HTTPResponse {
    HTTPResponse(
      status: status,
      headers: (location.map { [.init("Location", $0)] } ?? []) + [
        .init("Set-Cookie", "tracking=t-1; Path=/; HttpOnly"), .init("set-cookie", "blaize_session=nobody; Path=/"),
      ])
  }

  private static func start(
    _ provider: ZephrProvider = zephr(), _ request: LoginRequest = loginRequest(redirect, idp: "google"),
    _ response: HTTPResponse = started()
  ) -> (Result<AuthorizationPlace, ProviderFailure>, Conversation) {
    var talk = Conversation(response)
    let result = talk.run(provider.authorization(request, metadata: noMetadata))
    return (result, talk)
  }

  @Test("start(provider): the redirect is not followed, its Location is the URL to open, and cookies are kept")
  func start() throws {
    let (result, talk) = Self.start()
    let place = try result.get()
    #expect(place.url.absoluteString == "https://idp.example/sign-in")
    #expect(place.memory.mapValues(\.exposed) == ["cookies": "blaize_session=nobody; tracking=t-1"])
    #expect(talk.lines == ["GET /blaize/oauth/google?client_type=ios"])
    #expect(talk.sent[0].header("Cookie") == nil)
  }

  @Test("start(provider): the paths' prefix and the client's type are settings, and a Location may be relative")
  func settings() throws {
    let provider = zephr {
      $0.pathPrefix = "/zephr"
      $0.clientType = nil
      $0.redirectParameter = "return to"
    }
    let (result, talk) = Self.start(provider, loginRequest(Self.redirect, idp: "google"), Self.started("/idp?x=1"))
    #expect(try result.get().url.absoluteString == "https://news.example.com/idp?x=1")
    #expect(talk.lines == ["GET /zephr/oauth/google?return%20to=news%3A%2F%2Fauth"])
  }

  @Test(
    "start(provider): 200 or no Location is a failure, as every other answer is",
    arguments: [
      (started(status: 200), "misconfigured"), (started(nil), "misconfigured"),
      (started("javascript:alert(1)"), "misconfigured"), (started("http://idp.example/"), "misconfigured"),
      (answer("", status: 404), "misconfigured"), (answer("", status: 400), "misconfigured"),
      (answer("", status: 403), "denied"), (answer("", status: 429), "rate limited"),
      (answer("", status: 500), "unclear"),
    ])
  func notStarted(response: HTTPResponse, failure: String) {
    #expect(Self.start(zephr(), loginRequest(Self.redirect, idp: "google"), response).0.failure.map(name) == failure)
  }

  @Test(
    "start(provider): the identity provider is the login's, else the default, else the only one; no further request",
    arguments: [
      ("apple", nil, [], "apple"), (nil, "google", [], "google"), (nil, nil, ["facebook"], "facebook"),
      ("apple", "google", ["google", "apple"], "apple"), (nil, nil, [], nil), (nil, nil, ["a", "b"], nil),
      ("x", nil, ["google"], nil), ("../profile", nil, [], nil), ("", nil, [], nil), ("a/b", nil, [], nil),
    ] as [(String?, String?, [String], String?)])
  func identityProvider(asked: String?, standard: String?, known: [String], expected: String?) {
    let provider = zephr {
      $0.standardIdentityProvider = standard
      $0.identityProviders = known
    }
    var talk = Conversation(expected == nil ? [] : [.success(Self.started())])
    let result = talk.run(provider.authorization(loginRequest(Self.redirect, idp: asked), metadata: noMetadata))
    #expect(talk.lines == (expected.map { ["GET /blaize/oauth/\($0)?client_type=ios"] } ?? []))
    #expect(expected != nil || result.failure?.message.hasPrefix("params.idp: ") == true)
  }

  // MARK: The callback

  private static func callBack(
    _ query: String, _ memory: [String: String] = ["cookies": "tracking=t-1"], _ answers: HTTPResponse...
  ) -> (Result<Result<LoginAnswer, CallbackError>, ProviderFailure>, Conversation) {
    var talk = Conversation(answers.map { .success($0) })
    let step = zephr().answer(
      to: ReturnedAddress("news://auth?\(query)"), login: systemLogin(memory, redirect: redirect), metadata: noMetadata)
    let result = talk.run(step)
    return (result, talk)
  }

  static let success = "action=login&status=success&tracking_id=t-2&session_id=session-1"
  static let profile = answer(#"{"user_id":"u-1","email_address":"a@example.com","name":"Alice"}"#)

  @Test("success: the session after the profile confirmed it, and its user")
  func success() throws {
    let (result, talk) = Self.callBack(Self.success, ["cookies": "blaize_session=nobody; tracking=t-1"], Self.profile)
    let issued = try #require(result.answer?.issued)
    #expect(issued.tokens.accessToken.exposed == "session-1")
    #expect(issued.tokens.tokenType == SavedToken.session)
    #expect(issued.tokens.expiresIn == nil)
    #expect(issued.identity == Identity(subject: "u-1", email: "a@example.com", name: "Alice"))
    #expect(
      String(decoding: issued.tokens.extra, as: UTF8.self) == #"{"cookies":"tracking=t-1","tracking_id":"t-2"}"#)
    #expect(talk.lines == ["GET /blaize/profile"])
    #expect(talk.sent[0].header("Cookie") == "blaize_session=session-1; tracking=t-1")
    #expect(zephr().tokenTraits.credential == .session(cookie: "blaize_session"))
  }

  @Test("success: a profile with a member twice says whose session it is, by the last one")
  func repeated() {
    let profile = answer(#"{"user_id":"u-0","user_id":"u-1","name":"Alice","x":"\ud800"}"#)
    let issued = Self.callBack(Self.success, [:], profile).0.answer?.issued
    #expect(issued?.identity == Identity(subject: "u-1", name: "Alice"))
  }

  @Test("CSRF: a session that the server does not know is refused, and the login waits")
  func forged() {
    for status in [401, 403] {
      let error = Self.callBack(Self.success, [:], answer("{}", status: status)).0.error
      #expect(error == .unusable("the server does not know its session (HTTP \(status))"))
      #expect(error?.leavesLoginPending == true)
    }
    #expect(Self.callBack(Self.success, [:], answer("", status: 503)).0.failure.map(name) == "try later")
    #expect(Self.callBack(Self.success, [:], answer("<html>")).0.failure.map(name) == "unclear")
  }

  @Test("CSRF: a profile without a user does not take over an account of a user")
  func nobody() {
    let known = ["subject": "u-1"]
    #expect(Self.callBack(Self.success, known, answer("{}")).0.error?.leavesLoginPending == true)
    #expect(Self.callBack(Self.success, [:], answer("{}")).0.answer?.issued?.identity == nil)
  }

  @Test(
    "success: a session that nothing can be asked with is none",
    arguments: [
      "status=success", "status=success&session_id=", "status=success&session_id=a%0D%0AX:1",
      "status=success&session_id=a;b", "status=success&session_id=a&session_id=b",
    ])
  func noSession(query: String) {
    let (result, talk) = Self.callBack(query)
    #expect(result.error == .unusable("it says success, and has no session_id that can be used"))
    #expect(talk.sent.isEmpty)
  }

  @Test("partial: a registration is wanted, with the identifier; the state_key stays inside")
  func partial() throws {
    let (result, _) = Self.callBack("action=register&status=partial&state_key=k%2B1%3D&identifier=a%40example.com")
    let (action, memory) = try #require(result.answer?.action)
    #expect(action == .registration(identifier: "a@example.com"))
    #expect(memory == ["cookies": "tracking=t-1", "state_key": "k+1=", "identifier": "a@example.com"])
    #expect(Self.callBack("action=register&status=partial").0.error != nil)
    #expect(
      try #require(Self.callBack("status=partial&state_key=k").0.answer?.action).action
        == .registration(identifier: nil))
  }

  @Test("failure: the login ends, with the message")
  func failure() {
    let error = Self.callBack("action=login&status=failure&message=Not+you%1b").0.error
    #expect(error == .denied(OAuthError(code: OAuthErrorCode(rawValue: "failure"), description: "Not you\u{1b}")))
    #expect(error?.leavesLoginPending == false)
    #expect(error?.description.contains("Not you ") == true)
  }

  @Test("any other status: unknown, and the login waits", arguments: ["other", "SUCCESS", ""])
  func unknown(status: String) {
    let error = Self.callBack("action=login&status=\(status)&session_id=s").0.error
    #expect(error == .unusable("unknown auth response status “\(status)”"))
  }

  @Test("CSRF: the callback names no login, unless each has its own redirect URI")
  func claims() {
    func claim(_ address: String, _ redirect: String = Self.redirect, nonce: Bool = false) -> CallbackClaim {
      zephr { $0.redirectsWithNonce = nonce }
        .claim(ReturnedAddress(address), login: systemLogin([:], redirect: redirect))
    }
    #expect(claim("news://auth?status=success") == .unnamed)
    #expect(claim("news://auth/x?status=success") == .foreign)
    #expect(claim("news://auth?status=success&state=of-another") == .foreign)
    #expect(claim("news://auth?code=1") == .refused(.unusable("it has no status")))
    #expect(claim("news://auth?status=a&status=b") == .refused(.unusable("it has no status")))
    #expect(claim("news://auth/nonce?status=success", "news://auth/nonce", nonce: true) == .named)
    #expect(claim("news://auth/other?status=success", "news://auth/nonce", nonce: true) == .foreign)
    #expect(zephr().authorizationTraits.correlation == .singleLogin)
    let traits = zephr { $0.redirectsWithNonce = true }.authorizationTraits
    #expect(traits.correlation == .redirectURI)
  }
}
