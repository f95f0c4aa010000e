import Foundation
import Grants
import OAuth
import Testing

@testable import GrantdConfiguration
@testable import Providers

/// The rows of Uber's tables, by the shipped template.
@Suite("Uber, row by row")
struct UberRowTests {
  static let keys = """
    profile = "uber"
    client_id = "ID"
    redirect_uri = "myapp://oauth/consumer"

    """
  static let pushed = Result<HTTPResponse, ProviderFailure>.success(
    json(#"{"request_uri":"urn:ietf:params:oauth:request_uri:1","expires_in":60}"#, status: 201))

  func rig(_ more: String = "") throws -> SignInRig { try SignInRig(Self.keys + more) }

  @Test("authorize: a page for each destination, a state, PKCE, and the default scope")
  func authorize() throws {
    let place = try rig().place().place
    #expect(place.url.absoluteString.hasPrefix("https://auth.uber.com/oauth/v2/universal/authorize?"))
    let asked = [
      "response_type": "code", "client_id": "ID", "redirect_uri": "myapp://oauth/consumer", "scope": "profile",
      "state": "the-state", "code_challenge": SignInRig.challenge, "code_challenge_method": "S256",
    ]
    #expect(place.url.parameters == asked)
    #expect(place.natives.allSatisfy { $0.url.parameters == asked })
    let eats = try rig("product = \"eats\"").place().place
    #expect(eats.url.path == "/oauth/v2/eats/authorize")
  }

  @Test("native order: rides, eats, driver, or any of them in any order, with the same request_uri as the browser")
  func order() throws {
    let rig = try rig()
    let all = try rig.place([Self.pushed]) { $0.prefill = ["email": "a@example.com"] }.place
    #expect(all.natives.map(\.app) == ["rides", "eats", "driver"])
    #expect(
      all.natives.map(\.url.path) == [
        "/oauth/v2/riders/authorize", "/oauth/v2/eats/authorize", "/oauth/v2/drivers/authorize",
      ])
    #expect(
      ([all.url] + all.natives.map(\.url)).allSatisfy {
        $0.parameters["request_uri"] == "urn:ietf:params:oauth:request_uri:1"
      })
    #expect(try rig.place([]) { $0.apps = ["driver", "rides"] }.place.natives.map(\.app) == ["driver", "rides"])
    #expect(try rig.place([]) { $0.apps = [] }.place.natives.isEmpty)
  }

  static let prompts: [(String?, browser: String?, native: String?, warned: Bool)] = [
    (nil, nil, nil, false), ("", nil, nil, false), ("  ", nil, nil, false), ("consent", "consent", "consent", false),
    ("login", "login", nil, true), ("login consent", "login consent", "consent", true),
    ("consent consent", "consent", "consent", false),
  ]

  @Test(
    "prompt: login, consent or both; empty is left out; the applications are not asked for login", arguments: prompts)
  func prompt(prompt: String?, browser: String?, native: String?, isWarned: Bool) throws {
    let place = try rig().place([]) { $0.prompt = prompt }.place
    #expect(place.url.parameters["prompt"] == browser)
    #expect(place.natives.allSatisfy { $0.url.parameters["prompt"] == native })
    #expect(place.warnings.map { $0.hasPrefix("prompt_stripped") } == (isWarned ? [true] : []))
    let alone = try rig().place([]) {
      $0.prompt = prompt
      $0.apps = []
    }.place
    #expect(alone.warnings.isEmpty)
  }

  @Test("prompt: another word is refused before anything is sent, in a login and in the configuration")
  func unknownPrompt() throws {
    let rig = try rig()
    let (end, sent) = talk(
      rig.provider.authorization(try rig.request { $0.prompt = "login select_account" }, metadata: rig.metadata))
    #expect(sent.isEmpty)
    guard case .failure(.invalid(let message, nil)) = end else {
      Issue.record("\(end)")
      return
    }
    #expect(message.contains("select_account") && message.contains("login, consent"))
    #expect(
      try Fixture().complaint("[provider.x]\n\(Self.keys)prompt = \"logon\"")
        == "grantd.toml:5: \"prompt\" in [provider.x] has \"logon\", which \"allowed_prompts\" does not: did you mean "
        + "\"login\"?")
  }

  @Test("exchange or not: with exchange_code = false nothing of PKCE is asked, and the bare code is the result")
  func exchangeOrNot() throws {
    #expect(try rig().provider.authorizationTraits.exchangesCodes)
    let bare = try rig("exchange_code = false")
    #expect(!bare.provider.authorizationTraits.exchangesCodes)
    let place = try bare.place([]) { $0.verifier = nil }.place
    #expect(place.url.parameters["code_challenge"] == nil)
    #expect(word(try bare.answer("myapp://oauth/consumer?code=c&state=the-state", try bare.login())) == "code c")
  }

  @Test("prefill: pushed with a hint of what is known, and all else stays beside request_uri")
  func prefill() throws {
    let known = ["email": "a@example.com", "first_name": "Ä", "last_name": "", "phone": "+49 1"]
    let (place, sent) = try rig().place([Self.pushed]) { $0.prefill = known }
    #expect(sent.count == 1)
    #expect(sent[0].url.absoluteString == "https://auth.uber.com/oauth/v2/par")
    let hint = Data(#"{"email":"a@example.com","first_name":"Ä","phone":"+49 1"}"#.utf8).base64EncodedString()
    #expect(sent[0].form == ["client_id": "ID", "response_type": "code", "login_hint": hint])
    let parameters = place.url.parameters
    #expect(parameters["request_uri"] == "urn:ietf:params:oauth:request_uri:1")
    #expect(parameters["redirect_uri"] == "myapp://oauth/consumer" && parameters["scope"] == "profile")
    #expect(parameters["code_challenge"] == SignInRig.challenge && parameters["state"] == "the-state")
    #expect(parameters["login_hint"] == nil)
    #expect(place.warnings.isEmpty)
    let (_, none) = try rig().place([]) { $0.prefill = ["email": ""] }
    #expect(none.isEmpty)
  }

  static let failures: [Result<HTTPResponse, ProviderFailure>] = [
    .success(json(#"{"error":"invalid_request"}"#, status: 400)), .success(json("{}", status: 201)),
    .success(json("", status: 500)), .failure(.lost(message: "the network")),
    .failure(.notSent(message: "no address")),
  ]

  @Test(
    "prefill: one that fails is passed over with a warning, and is an error where the settings say strict",
    arguments: failures)
  func dropped(answer: Result<HTTPResponse, ProviderFailure>) throws {
    let (place, _) = try rig().place([answer]) { $0.prefill = ["email": "a@example.com"] }
    #expect(place.url.parameters["request_uri"] == nil && place.url.parameters["state"] == "the-state")
    #expect(place.warnings.count == 1 && place.warnings[0].hasPrefix("prefill_dropped: "))
    #expect(place.natives.count == 3)
    #expect(throws: ProviderFailure.self) {
      try rig("prefill = \"strict\"").place([answer]) { $0.prefill = ["email": "a@example.com"] }
    }
  }

  @Test("prefill: what nobody knows of is refused, and without the setting nothing is taken ahead")
  func unknownPrefill() throws {
    #expect(throws: ProviderFailure.self) { try rig().place([Self.pushed]) { $0.prefill = ["mail": "a"] } }
    #expect(try rig().provider.authorizationTraits.options.takesPrefill)
    #expect(!(try SignInRig(ImplicitTests.museum).provider.authorizationTraits.options.takesPrefill))
  }

  @Test("prefill: without the setting for it the whole request is pushed (RFC 9126)")
  func whole() throws {
    let (place, sent) = try rig("par_beside_parameters = false").place([Self.pushed]) {
      $0.prefill = ["email": "a"]
    }
    #expect(sent[0].form["redirect_uri"] == "myapp://oauth/consumer" && sent[0].form["login_hint"] != nil)
    #expect(place.url.parameters == ["client_id": "ID", "request_uri": "urn:ietf:params:oauth:request_uri:1"])
  }

  static let addresses: [(String, CallbackClaim)] = [
    ("myapp://oauth/consumer?code=c&state=the-state", .named),
    ("MyApp://OAuth/consumer?code=c&state=the-state", .named),
    ("myapp://oauth/other?code=c&state=the-state", .refused(.wrongAddress)),
    ("myapp://oauth/consumerX?code=c&state=other", .foreign), ("myapp://other/consumer?code=c", .foreign),
    ("other://oauth/consumer?code=c", .foreign),
  ]

  @Test("handle(url): scheme, host and path are compared, and what does not match is not handled", arguments: addresses)
  func handle(address: String, claim: CallbackClaim) throws {
    let rig = try rig()
    #expect(rig.claim(address, try rig.login()) == claim)
  }

  @Test("handle(url): a code wins over an error beside it, and an error alone denies")
  func codeFirst() throws {
    let rig = try rig()
    let both = "myapp://oauth/consumer?error=server_error&code=c&state=the-state"
    #expect(word(try rig.answer(both, try rig.login())) == "code c")
    #expect(word(try rig.answer(both.replacing("the-state", with: "other"), try rig.login())) == "wrongState")
    #expect(
      word(try rig.answer("myapp://oauth/consumer?error=server_error&state=the-state", try rig.login()))
        == "denied server_error")
    let strict = try self.rig("code_over_error = false")
    #expect(word(try strict.answer(both, try strict.login())) == "denied server_error")
  }

  static let address = "myapp://oauth/consumer?code=c&state=the-state"

  @Test("token: a form without a secret")
  func token() throws {
    let rig = try rig()
    let sent = try rig.exchange(Self.address, try rig.login(), "{}").sent
    #expect(sent[0].url.absoluteString == "https://auth.uber.com/oauth/v2/token")
    #expect(
      sent[0].form == [
        "grant_type": "authorization_code", "code": "c", "redirect_uri": "myapp://oauth/consumer", "client_id": "ID",
        "code_verifier": SignInRig.verifier,
      ])
    #expect(!sent[0].headers.contains { $0.name == "Authorization" })
  }

  static let bodies = [
    (#""scope":"profile history","expires_in":2592000"#), (#""scope":["profile","history"],"expires_in":"2592000""#),
  ]

  @Test("result: scope as a string or an array, expires_in as a number or a string", arguments: bodies)
  func result(members: String) throws {
    let rig = try rig()
    let body = #"{"access_token":"a","refresh_token":"r","token_type":"Bearer",\#(members)}"#
    let tokens = try rig.exchange(Self.address, try rig.login(), body).end.get().tokens
    #expect(tokens.scope == ["profile", "history"] && tokens.expiresIn == .seconds(2_592_000))
    #expect(tokens.refreshToken == Secret("r"))
  }

  @Test("token: without a token_type it is a bearer token")
  func untyped() throws {
    let rig = try rig()
    let tokens = try rig.exchange(Self.address, try rig.login(), #"{"access_token":"a"}"#).end.get().tokens
    #expect(tokens.tokenType.lowercased() == "bearer")
  }

  @Test("token errors: the error is read from the body")
  func tokenErrors() throws {
    let rig = try rig()
    let body = #"{"error":"invalid_scope","error_description":"no such scope","error_uri":"https://u.example/e"}"#
    let end = try rig.exchange(Self.address, try rig.login(), body, status: 400).end
    guard case .failure(let failure) = end else {
      Issue.record("it was taken for tokens")
      return
    }
    #expect(
      failure.oauth
        == OAuthError(code: .invalidScope, description: "no such scope", uri: "https://u.example/e"))
  }
}
