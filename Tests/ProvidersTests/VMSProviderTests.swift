import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

@Suite("VMS, row by row: before and until the sign-in")
struct VMSProviderTests {
  static let basic = answer(
    #"{"is_captcha_available":false,"is_external_auth_enabled":true,"available_locales":["en"]}"#)
  static let page = answer(#"{"url":"https://vms.example.com/sign-in?ticket=1"}"#)
  static let user = #""user":{"id":7,"name":"Alice","login":"alice","email":"a@example.com","token":"user-token"}"#
  static let signedIn = answer("{\(user),\"access_token\":\"token-1\"}")

  private static func authorization(
    _ provider: VMSProvider, _ request: LoginRequest = loginRequest(), _ answers: HTTPResponse...
  ) -> (Result<AuthorizationPlace, ProviderFailure>, Conversation) {
    var talk = Conversation(answers.map { .success($0) })
    let result = talk.run(provider.authorization(request, metadata: noMetadata))
    return (result, talk)
  }

  private static func exchange(
    _ provider: VMSProvider = vms(), _ answers: HTTPResponse...
  ) -> (Result<LoginAnswer, ProviderFailure>, Conversation) {
    var talk = Conversation(answers.map { .success($0) })
    let result = talk.run(provider.exchange(code: Secret("code-1"), login: systemLogin(), metadata: noMetadata))
    return (result, talk)
  }

  @Test("is it available, external URL: asked for in that order, and what leads there is remembered")
  func place() throws {
    let (result, talk) = Self.authorization(vms(), loginRequest(), Self.basic, Self.page)
    let place = try result.get()
    #expect(place.url.absoluteString == "https://vms.example.com/sign-in?ticket=1")
    #expect(place.warnings.isEmpty)
    #expect(place.memory.mapValues(\.exposed) == ["device_uuid": deviceID])
    #expect(talk.lines == ["GET /api/v1/static/basic", "GET /api/v1/external/auth/url"])
  }

  @Test("is it available: after a no, no further request is sent, and the error reports it")
  func externalLoginIsOff() {
    let (result, talk) = Self.authorization(vms(), loginRequest(), answer(#"{"is_external_auth_enabled":false}"#))
    #expect(result.failure == .unsupported(message: "external login is disabled on this server"))
    #expect(talk.sent.count == 1)
  }

  @Test(
    "is it available: only true permits it",
    arguments: [
      "{}", #"{"is_external_auth_enabled":null}"#, #"{"is_external_auth_enabled":0}"#,
      #"{"is_external_auth_enabled":1}"#, #"{"is_external_auth_enabled":"true"}"#,
    ])
  func silent(body: String) throws {
    let (result, talk) = Self.authorization(vms(), loginRequest(), answer(body), Self.page)
    #expect(throws: ProviderFailure.unsupported(message: VMSProvider.disabled)) { try result.get() }
    #expect(talk.sent.count == 1)
  }

  @Test(
    "is it available: every other answer ends the login by name",
    arguments: [
      (answer("", status: 404), "misconfigured"), (answer("", status: 302), "misconfigured"),
      (answer(#"{"message":"old"}"#, status: 409), "misconfigured"), (answer("{}", status: 401), "denied"),
      (answer("{}", status: 403), "denied"), (answer("{}", status: 400), "misconfigured"),
      (answer("{}", status: 429), "rate limited"), (answer("{}", status: 503), "try later"),
      (answer("{}", status: 500), "unclear"), (answer("<html>", type: "text/html"), "unclear"),
    ])
  func unavailable(response: HTTPResponse, failure: String) {
    #expect(Self.authorization(vms(), loginRequest(), response).0.failure.map(name) == failure)
    // The same where the second question fails, but that there 403 and 404 mean that it is switched off.
    let expected = [403, 404].contains(response.status) ? "unsupported" : failure
    #expect(Self.authorization(vms(), loginRequest(), Self.basic, response).0.failure.map(name) == expected)
  }

  @Test(
    "external URL: an address that no browser should open is none",
    arguments: [
      "http://vms.example.com/", "javascript:alert(1)", "ftp://vms.example.com/", "/sign-in", "",
    ])
  func unsafe(url: String) {
    let (result, _) = Self.authorization(vms(), loginRequest(), Self.basic, answer("{\"url\":\"\(url)\"}"))
    #expect(result.failure.map(name) == "misconfigured")
  }

  @Test("external URL: parameters that the client lacks are omitted and listed")
  func warnings() throws {
    var request = loginRequest()
    request.scopes = ["mail"]
    request.prompt = "login"
    request.loginHint = "alice"
    let warnings = try Self.authorization(vms { $0.language = "fr" }, request, Self.basic, Self.page).0.get().warnings
    #expect(warnings.count == 2)
    #expect(warnings[0].contains("scopes, prompt, login_hint"))
    #expect(warnings[1] == "the server does not speak fr; it speaks en")
  }

  @Test("headers: all of them on each call, and the device's is the account's own for good")
  func headers() throws {
    let before = systemGrant(#"{"device_uuid":"device-of-before"}"#)
    let provider = vms { $0.headers = ["X-Client": "own", "X-More": "1"] }
    let (_, talk) = Self.authorization(provider, loginRequest(before: before), Self.basic, Self.page)
    for request in talk.sent {
      #expect(request.header("Accept") == "application/json")
      #expect(request.header("Content-Type") == "application/json")
      #expect(request.header("X-UUID") == "device-of-before")
      #expect(request.header("X-Version") == "2.0")
      #expect(request.header("hl") == "en")
      #expect(request.headers.filter { $0.name == "X-Client" }.map(\.value) == ["own"])
      #expect(request.header("X-More") == "1")
      #expect(request.header("Authorization") == nil)
    }
    let (_, login) = Self.exchange(vms(), Self.signedIn)
    #expect(login.sent[0].header("X-UUID") == deviceID)
    #expect(login.sent[0].header("X-Client") == "grantd")
  }

  @Test("headers: a device's name is a UUID for every source", arguments: ["AAECAwQFBgcICQoLDA0ODw", "x", ""])
  func device(random: String) {
    let device = VMSProvider.device(from: random)
    #expect(UUID(uuidString: device)?.uuidString.lowercased() == device)
  }

  // MARK: Callback

  static let addresses: [(address: String, claim: CallbackClaim)] = [
    ("cameras://sign-in?code=abc", .unnamed), ("CAMERAS://sign-in?code=abc&x=1", .unnamed),
    ("cameras://sign-in?code=abc&state=s", .foreign), ("cameras://sign-in#state=s", .foreign),
    ("cameras://sign-in/x?code=abc", .unnamed), ("cameras:/other?code=abc", .unnamed), ("cameras:?code=abc", .unnamed),
    ("other://sign-in?code=abc", .foreign), ("cameras://sign-in", .refused(.neitherCodeNorError)),
    ("cameras://sign-in?code=", .refused(.neitherCodeNorError)),
    ("cameras://sign-in?code=a&code=b", .refused(.duplicateParameter("code"))),
    (
      "cameras://sign-in?error=access_denied",
      .refused(.unusable("it says access_denied, which any site could have sent. Cancel the login if you declined it"))
    ),
  ]

  @Test("callback: it is the one pending login's where it comes with a code and the scheme", arguments: addresses)
  func claims(address: String, claim: CallbackClaim) {
    #expect(vms().claim(ReturnedAddress(address), login: systemLogin()) == claim)
    #expect(vms().authorizationTraits.correlation == .singleLogin)
  }

  @Test("callback: the code is sent to the exchange")
  func code() throws {
    var talk = Conversation()
    let step = vms().answer(
      to: ReturnedAddress("cameras://sign-in?code=abc"), login: systemLogin(), metadata: noMetadata)
    guard case .success(.success(.code(let code, let memory))) = talk.run(step) else {
      Issue.record("no code")
      return
    }
    #expect(code.exposed == "abc")
    #expect(memory["device_uuid"]?.exposed == deviceID)
    #expect(talk.sent.isEmpty)
  }

  // MARK: Login

  @Test("login: only the code is sent, and the account's credentials return, with the user as the identity")
  func login() throws {
    let (result, talk) = Self.exchange(vms(), Self.signedIn)
    #expect(talk.lines == [#"POST /api/v1/external/auth/callback {"code":"code-1"}"#])
    let issued = try #require(result.issued)
    #expect(issued.tokens.accessToken.exposed == "token-1")
    #expect(issued.tokens.tokenType == "Bearer")
    #expect(issued.tokens.expiresIn == nil)
    #expect(issued.tokens.refreshToken == nil)
    #expect(issued.tokens.scope == [])
    #expect(issued.identity == Identity(subject: "7", email: "a@example.com", name: "Alice", username: "alice"))
    let extra = String(decoding: issued.tokens.extra, as: UTF8.self)
    #expect(
      extra == #"{"device_uuid":"\#(deviceID)","user":{"email":"a@example.com","id":7,"login":"alice","name":"Alice"}}"#
    )
  }

  @Test(
    "login: absent keys are omitted, and the user's id is text for each form on the wire",
    arguments: [
      (#"{"user":{"id":"u-1"},"access_token":"t"}"#, "u-1"),
      (#"{"user":{"id":12345678901234567890,"token":"t"}}"#, "12345678901234567890"),
      (#"{"user":{"id":"7","name":null,"email":null},"access_token":"t"}"#, "7"),
      (#"{"user":{"id":"6","id":"7","x":"\ud800"},"access_token":"s","access_token":"t"}"#, "7"),
    ])
  func absentKeys(body: String, subject: String) throws {
    let issued = try #require(Self.exchange(vms(), answer(body)).0.issued)
    #expect(issued.identity == Identity(subject: subject))
    #expect(issued.tokens.accessToken.exposed == "t")
  }

  @Test(
    "login: an answer without a user or a token is not a login",
    arguments: [
      ("{\(user)}".replacing(#","token":"user-token""#, with: ""), "invalid"),
      (#"{"user":{},"access_token":"t"}"#, "invalid"), (#"{"access_token":"t"}"#, "invalid"), ("[]", "unclear"),
      ("<html>", "unclear"),
    ])
  func unusable(body: String, failure: String) {
    #expect(Self.exchange(vms(), answer(body)).0.failure.map(name) == failure)
  }

  static let refusals: [(response: HTTPResponse, failure: String, text: String)] = [
    (answer(#"{"message":"no"}"#, status: 401), "denied", "no (HTTP 401)"),
    (answer(#"{"message":"no"}"#, status: 403), "denied", "no (HTTP 403)"),
    (answer("", status: 404), "invalid", "HTTP 404"),
    (answer(#"{"message":"too old"}"#, status: 409), "misconfigured", "client_version"),
    (
      answer(#"{"message":"wait"}"#, status: 429, headers: [.init("Retry-After", "7")]), "rate limited",
      "wait (HTTP 429)"
    ),
    (answer("", status: 503), "try later", "HTTP 503"),
    (answer("<html>", status: 500, type: "text/html"), "unclear", "500"),
    (answer("", status: 502), "unclear", "502"), (answer("", status: 418), "invalid", "418"),
    (answer("", status: 302), "misconfigured", "base_url"),
  ]

  @Test("errors: each status has its meaning, and each call ends", arguments: refusals)
  func errors(response: HTTPResponse, failure: String, text: String) throws {
    let (result, talk) = Self.exchange(vms(), response)
    let found = try #require(result.failure)
    #expect(name(found) == failure)
    #expect(found.message.contains(text), "\(found.message)")
    #expect(talk.sent.count == 1)
    #expect(response.status != 429 || found.retryAfter == .seconds(7))
  }

  @Test(
    "errors: 400 and 422 pass the fields, which may be a text",
    arguments: [
      (
        422, #"{"message":"bad","errors":{"code":["is spent","is old"]}}"#, ["code": ["is spent", "is old"]],
        "bad (HTTP 422)"
      ),
      (400, #"{"message":"bad","errors":{"code":"is spent"}}"#, ["code": ["is spent"]], "bad (HTTP 400)"),
      (422, #"{"errors":"all is wrong"}"#, [:], "all is wrong (HTTP 422)"), (422, "", [:], "HTTP 422"),
    ])
  func fields(status: Int, body: String, fields: [String: [String]], message: String) {
    let code = status == 400 ? "bad_request" : "invalid_fields"
    #expect(
      Self.exchange(vms(), answer(body, status: status)).0.failure
        == .rejected(Rejection(code: code, message: message, fields: fields)))
  }

  @Test("neither key nor code: nothing is sent")
  func neither() {
    var talk = Conversation()
    let nothing = systemLogin([:])
    #expect(talk.run(vms().resume(nothing, with: .session("1"), metadata: noMetadata)).failure.map(name) == "invalid")
    #expect(
      talk.run(vms().exchange(code: Secret(""), login: nothing, metadata: noMetadata)).failure.map(name) == "invalid")
    #expect(
      talk.run(vms().resume(systemLogin(["key": "k"]), with: .attributes(Data("{}".utf8)), metadata: noMetadata))
        .failure.map(name) == "invalid")
    #expect(talk.sent.isEmpty)
  }

  @Test("refresh, expiry: there is none")
  func refresh() {
    var talk = Conversation()
    let step = vms().refresh(
      systemGrant("{}"), token: Secret("r"), key: SavedToken.Key(), metadata: noMetadata)
    #expect(talk.run(step).failure == .unsupported(message: "providers of kind vms have no refresh"))
    #expect(vms().verdict(on: answer("", status: 401)) == .tokenRefused(message: "HTTP 401", nil))
  }
}
