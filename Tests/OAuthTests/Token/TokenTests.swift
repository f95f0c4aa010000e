import Foundation
import Testing

@testable import OAuth

@Suite("Token endpoint")
struct TokenTests {
  static let endpoint = URL(string: "https://id.example/token")!
  static let refresh = TokenRequest.refresh(Secret("r&r"), scopes: ["a", "b"], resources: ["https://x.example"])

  func parse(
    _ members: String, _ quirks: TokenResponseQuirks = .init()
  ) throws(ResponseError) -> TokenResponse {
    try TokenResponse.parse(answer(#"{"access_token":"a","token_type":"bearer"\#(members)}"#), quirks: quirks)
  }

  @Test("28. a POST form with exactly one client authentication")
  func clientAuthentication() {
    let none = Self.refresh.httpRequest(to: Self.endpoint, clientID: "id", client: .none)
    #expect(none.method == "POST" && none.url == Self.endpoint && none.purpose == .token)
    #expect(none.header("Content-Type") == "application/x-www-form-urlencoded")
    #expect(none.header("Accept") == "application/json" && none.header("Authorization") == nil)
    let parameters = [
      "grant_type": "refresh_token", "refresh_token": "r&r", "scope": "a b", "resource": "https://x.example",
    ]
    #expect(none.form == parameters.merging(["client_id": "id"]) { old, _ in old })

    let post = Self.refresh.httpRequest(to: Self.endpoint, clientID: "id", client: .post(secret: Secret("s")))
    #expect(post.form == parameters.merging(["client_id": "id", "client_secret": "s"]) { old, _ in old })
    #expect(post.header("Authorization") == nil)

    let client = ClientAuthentication.basic(secret: Secret("s"), encoding: .form)
    let basic = Self.refresh.httpRequest(to: Self.endpoint, clientID: "id", client: client)
    #expect(basic.form == parameters)
    #expect(basic.header("Authorization") == "Basic aWQ6cw==")
  }

  @Test(
    "28. Basic form-urlencodes id and secret first, unless the provider never decodes",
    arguments: [
      (ClientAuthentication.BasicEncoding.form, "my+app%3A:p%25+%2B%C3%A9~".replacingOccurrences(of: "~", with: "%7E")),
      (.raw, "my app::p% +é~"),
    ])
  func basicEncoding(encoding: ClientAuthentication.BasicEncoding, pair: String) {
    let client = ClientAuthentication.basic(secret: Secret("p% +é~"), encoding: encoding)
    let request = Self.refresh.httpRequest(to: Self.endpoint, clientID: "my app:", client: client)
    #expect(request.header("Authorization") == "Basic " + Data(pair.utf8).base64EncodedString())
  }

  @Test("28. the code exchange carries code, redirect_uri and verifier; JSON bodies hold the same")
  func exchange() throws {
    let verifier = CodeVerifier(randomBytes: Array(repeating: 7, count: 32))
    var request = TokenRequest.code(
      Secret("c+d"), redirectURI: try RedirectURI("app:/cb"), verifier: verifier, resources: ["x:1", "x:2"])
    request.extraParameters = [
      Parameter("audience", "api"), Parameter("code", "other"), Parameter("client_secret", "x"),
    ]
    request.extraHeaders = [.init("X-Version", "1"), .init("content-type", "text/plain")]
    let form = request.httpRequest(to: Self.endpoint, clientID: "id", client: .none)
    #expect(
      form.form == [
        "grant_type": "authorization_code", "code": "c+d", "redirect_uri": "app:/cb", "audience": "api",
        "code_verifier": verifier.secret.exposed, "client_id": "id", "resource": "x:1 AND x:2",
      ])
    #expect(form.headers.map(\.name) == ["Accept", "Content-Type", "X-Version"])

    let json = request.httpRequest(to: Self.endpoint, clientID: "id", client: .none, format: .json)
    #expect(json.header("Content-Type") == "application/json")
    let members = try #require(JSON(message: json.body ?? Data())?.dictionary)
    #expect(members["code"] == .string("c+d") && members["client_id"] == .string("id"))
    #expect(members["resource"] == .array([.string("x:1"), .string("x:2")]))
  }

  @Test("28. a refresh without scopes sends none, and a provider's separator joins them")
  func refreshScopes() {
    let plain = TokenRequest.refresh(Secret("r")).httpRequest(to: Self.endpoint, clientID: "id", client: .none)
    #expect(plain.form["scope"] == nil)
    let comma = Self.refresh.httpRequest(to: Self.endpoint, clientID: "id", client: .none, scopeSeparator: ",")
    #expect(comma.form["scope"] == "a,b")
  }

  @Test("29. a request has one method of client authentication, and the same one each time")
  func noProbing() {
    for client in [ClientAuthentication.none, .post(secret: Secret("s")), .basic(secret: Secret("s"), encoding: .raw)] {
      let requests = (0..<2).map { _ in Self.refresh.httpRequest(to: Self.endpoint, clientID: "id", client: client) }
      #expect(requests[0] == requests[1])
      let methods = [requests[0].header("Authorization") != nil, requests[0].form["client_secret"] != nil]
      #expect(methods.filter(\.self).count == (client == .none ? 0 : 1))
    }
  }

  static let good = #"{"access_token":"a","token_type":"Bearer"}"#
  static let form = "application/x-www-form-urlencoded"

  @Test(
    "30. success is a 2xx with a JSON object; a form only if the provider sends one",
    arguments: [
      (200, "application/json", good, false, true), (200, "text/plain", good, false, true),
      (201, "application/json", good, false, true), (203, "", good, false, true), (204, "", "", false, false),
      (302, "application/json", good, false, false), (404, "application/json", good, false, false),
      (200, "text/html", "<html>", false, false),
      (200, "application/json", "[\(good)]", false, false),
      (200, form, "access_token=a&token_type=bearer", false, false),
      (200, form, "access_token=a&token_type=bearer", true, true), (200, form, "token_type=bearer", true, false),
      (200, form, "access_token=a&access_token=b&token_type=bearer", true, false),
      (500, "application/json", good, false, false),
    ])
  func success(status: Int, type: String, body: String, acceptsForm: Bool, accepted: Bool) {
    let response = answer(body, status: status, type: type)
    let parsed = try? TokenResponse.parse(response, quirks: .init(acceptsForm: acceptsForm))
    #expect((parsed != nil) == accepted)
    if let parsed { #expect(parsed.accessToken.exposed == "a" && parsed.tokenType == "Bearer") }
  }

  @Test(
    "31. access_token is a non-empty string; token_type is known, in any case, and Bearer where it is missing",
    arguments: [
      (#"{"access_token":"a","token_type":"BEARER"}"#, "Bearer"),
      (#"{"access_token":"a","token_type":"dpop"}"#, "DPoP"),
      (#"{"access_token":"","token_type":"bearer"}"#, nil), (#"{"access_token":"a","token_type":""}"#, "Bearer"),
      (#"{"access_token":"a"}"#, "Bearer"), (#"{"access_token":"a","token_type":null}"#, "Bearer"),
      (#"{"token_type":"bearer"}"#, nil), (#"{"access_token":"a","token_type":7}"#, nil),
      (#"{"access_token":"a","token_type":"mac"}"#, nil),
      (#"{"access_token":7,"token_type":"bearer"}"#, nil), (#"{"access_token":null,"token_type":"bearer"}"#, nil),
    ] as [(String, String?)])
  func tokenType(body: String, type: String?) {
    #expect((try? TokenResponse.parse(answer(body), quirks: .init()))?.tokenType == type)
  }

  static let decade = Duration.seconds(315_360_000)

  @Test(
    "32. expires_in is a number or numeric text; huge is clamped",
    arguments: [
      ("3600", .seconds(3600)), (#""3600""#, .seconds(3600)), (#""3600.0""#, .seconds(3600)),
      ("3599.5", .milliseconds(3_599_500)),
      ("0", .zero), ("1e3", .seconds(1000)), ("9223372036854775807", decade), ("1e999", decade),
      ("99999999999999999999999999", decade), (#""1e999""#, decade), ("1e-999", .zero),
    ] as [(String, Duration)])
  func lifetimes(text: String, lifetime: Duration) throws {
    #expect(try parse(#","expires_in":\#(text)"#).expiresIn == lifetime)
  }

  @Test(
    "32. an invalid lifetime is unknown, and reported",
    arguments: [
      "-1", #""-1""#, "-1e999", "true", "false", #""""#, #""soon""#, "[]", "{}", #""0x10""#, #""nan""#, #""true""#,
    ])
  func wrongLifetimes(text: String) throws {
    let tokens = try parse(#","expires_in":\#(text)"#)
    #expect(tokens.expiresIn == nil)
    #expect(tokens.oddities.count == 1 && tokens.oddities[0].hasPrefix("expires_in is not "))
    let fixed = try parse(#","expires_in":\#(text)"#, .init(fixedLifetime: .seconds(60)))
    #expect(fixed.expiresIn == nil && fixed.configuredLifetime == .seconds(60))
  }

  @Test("32. an absent expires_in is unknown, unless the provider has a fixed lifetime; units are the provider's")
  func absentLifetime() throws {
    #expect(try parse("").expiresIn == nil)
    #expect(try parse(#","expires_in":null"#).expiresIn == nil)
    let fixed = TokenResponseQuirks(fixedLifetime: .seconds(60))
    #expect(try parse("", fixed).configuredLifetime == .seconds(60))
    let told = try parse(#","expires_in":5"#, fixed)
    #expect(told.expiresIn == .seconds(5) && told.configuredLifetime == nil)
    #expect(try parse(#","expires_in":5000"#, .init(lifetimeUnit: .milliseconds)).expiresIn == .seconds(5))
    let known = try parse(#","refresh_in":10,"x_refresh_token_expires_in":20"#)
    #expect(known.refreshIn == .seconds(10) && known.refreshTokenExpiresIn == .seconds(20))
    #expect(try parse(#","refresh_token_expires_in":"30""#).refreshTokenExpiresIn == .seconds(30))
    #expect(try parse(#","refresh_token_expires_in":"never","refresh_in":-1"#).refreshTokenExpiresIn == nil)
  }

  @Test(
    "33. a refresh token that is absent, null or empty is none",
    arguments: [
      ("", nil), (#","refresh_token":null"#, nil), (#","refresh_token":"""#, nil), (#","refresh_token":"r""#, "r"),
    ]
      as [(String, String?)])
  func refreshToken(members: String, token: String?) throws {
    let tokens = try parse(members)
    #expect(tokens.refreshToken?.exposed == token && tokens.oddities.isEmpty)
    let odd = try parse(#","refresh_token":7"#)
    #expect(odd.refreshToken == nil && odd.oddities == ["refresh_token is not a string: the one before goes on"])
  }

  @Test(
    "33. a success refused for another reason has a refresh token at the configured path, or only one",
    arguments: [
      (200, #"{"refresh_token":"r","refresh_token_expires_in":60}"#, [], "r"),
      (201, #"{"refresh_token":"old","refresh_token":"r"}"#, [], "r"), (400, #"{"refresh_token":"r"}"#, [], nil),
      (200, #"{"refresh_token":7}"#, [], nil), (200, #"{"refresh_token":""}"#, [], nil), (200, "[]", [], nil),
      (200, #"{"data":[{"refresh_token":"r"}]}"#, [], "r"),
      (200, #"{"data":{"refresh_token":"r"},"more":{"refresh_token":"s"}}"#, [], nil),
      (200, #"{"access_token":"a","token_type":"mac","data":{"refresh_token":"r"}}"#, [], nil),
      (200, #"{"refresh_token":"s","user":{"refresh_token":"r"}}"#, ["user"], "r"),
      (200, #"{"refresh_token":"r","user":7}"#, ["user"], "r"),
    ] as [(Int, String, [String], String?)])
  func rotated(status: Int, body: String, path: [String], token: String?) {
    let found = RotatedToken(unusable: answer(body, status: status), quirks: .init(path: path))
    #expect(found?.token.exposed == token)
    if body.contains("expires_in") { #expect(found?.expiresIn == .seconds(60)) }
  }

  @Test(
    "35. of members with one name the last is used (RFC 8259 §4), and half a surrogate pair is accepted",
    arguments: [
      (#","expires_in":1,"expires_in":2"#, ["expires_in"]), (#","a":{"b":1,"b":2}"#, ["b"]),
      (#","a":1,"a":2,"a":3"#, ["a"]), (#","a":"\ud800""#, []), (#","a":"\ud800\ud800\udc00x""#, []),
    ])
  func repeated(members: String, names: [String]) throws {
    let tokens = try parse(members)
    #expect(tokens.oddities == names.map { "“\($0)” occurs twice: the last one is used" })
    if names == ["expires_in"] { #expect(tokens.expiresIn == .seconds(2)) }
    // Signed content with a repeated name is refused (RFC 7519 §4).
    #expect(JSON(message: #"{"x":1\#(members)}"#.utf8) == nil)
  }

  @Test(
    "34. scope is text or an array; absent is as asked",
    arguments: [
      ("", " ", nil), (#","scope":null"#, " ", nil), (#","scope":"a b""#, " ", ["a", "b"]), (#","scope":"""#, " ", []),
      (#","scope":["a","b c"]"#, " ", ["a", "b c"]), (#","scope":"a,b""#, " ", ["a,b"]),
      (#","scope":"a,b c""#, ",", ["a", "b", "c"]),
    ] as [(String, String, [String]?)])
  func scope(members: String, separator: String, scope: [String]?) throws {
    #expect(try parse(members, .init(scopeSeparator: separator)).scope == scope)
  }

  @Test("35. unknown members are skipped, and kept unchanged for providers that need them")
  func extra() throws {
    let members = #","instance_url":"https://x.example","realmId":9007199254740993,"n":{"a":[1.50,null,true]},"z":1"#
    #expect(try parse(members).extra == Data("{}".utf8))
    let kept = try parse(members, .init(keepMembers: ["realmId", "n", "absent"])).extra
    #expect(String(decoding: kept, as: UTF8.self) == #"{"n":{"a":[1.50,null,true]},"realmId":9007199254740993}"#)
  }

  @Test("35. a nested token is found by its path, and members next to it are kept too")
  func nested() throws {
    let body = #"{"ok":true,"team":"T1","authed_user":{"access_token":"u","token_type":"Bearer","scope":"a,b"}}"#
    let quirks = TokenResponseQuirks(scopeSeparator: ",", keepMembers: ["team"], path: ["authed_user"])
    let parsed = try TokenResponse.parse(answer(body), quirks: quirks)
    #expect(parsed.accessToken.exposed == "u" && parsed.scope == ["a", "b"])
    #expect(parsed.extra == Data(#"{"team":"T1"}"#.utf8))
    #expect(throws: ResponseError.self) { try TokenResponse.parse(answer(Self.good), quirks: quirks) }
  }

  @Test("36. a 4xx with error is an OAuth error, with its texts and the wait")
  func oauthError() {
    let body = #"{"error":"invalid_grant","error_description":"used\u0007 twice","error_uri":"https://e.example"}"#
    let response = answer(body, status: 400, headers: [.init("retry-after", "7")])
    let error = OAuthError(code: .invalidGrant, description: "used\u{7} twice", uri: "https://e.example")
    #expect(error.description == "used  twice")
    #expect(throws: ResponseError.oauth(error, status: 400, retryAfter: .seconds(7))) {
      try TokenResponse.parse(response, quirks: .init())
    }
  }

  @Test(
    "36. anything else is non-conforming; the error quotes status and type, never the body",
    arguments: [
      (400, "text/html", "<b>S3CRET</b>"), (401, "application/json", #"{"error":7,"S3CRET":"S3CRET"}"#),
      (400, "application/json", #"{"error":"","x":"S3CRET"}"#), (503, "application/json", #"{"error":"S3CRET"}"#),
      (500, "application/json", #"{"error":"invalid_grant","x":"S3CRET"}"#), (200, "text/html", "S3CRET"),
      (200, "application/json", #"{"access_token":"S3CRET","token_type":"S3CRET"}"#),
    ])
  func nonConforming(status: Int, type: String, body: String) throws {
    let response = answer(body, status: status, type: type, headers: [.init("Retry-After", "120")])
    let error = thrown { () throws(ResponseError) in _ = try TokenResponse.parse(response, quirks: .init()) }
    guard case .nonConforming(status, type, _, .seconds(120))? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    let text = try #require(error).description
    // Of a server that is out of order, its content type says nothing.
    #expect(text.contains("HTTP \(status)") && (status >= 500 || text.contains(type)) && !text.contains("S3CRET"))
    #expect(!"\(try #require(error))".contains("S3CRET"))
  }

  @Test(
    "37. a 200 with error is a failure",
    arguments: [#"{"error":"bad_refresh_token","scope":""}"#, #"{"ok":false,"error":"bad_refresh_token"}"#])
  func errorAtSuccess(body: String) {
    let error = OAuthError(code: .init(rawValue: "bad_refresh_token"))
    #expect(throws: ResponseError.oauth(error, status: 200, retryAfter: nil)) {
      try TokenResponse.parse(answer(body), quirks: .init())
    }
    #expect(throws: ResponseError.self) { try parse(#","error":{"code":1}"#) }
    #expect(throws: Never.self) { try parse(#","error":null"#) }
    // The grant has just been given a token: it has not ended.
    let contradiction = #expect(throws: ResponseError.self) {
      try parse(#","error":"invalid_grant""#)
    }
    guard case .nonConforming(200, _, let reason, _) = contradiction else {
      Issue.record("\(String(describing: contradiction))")
      return
    }
    #expect(reason.contains("a token and the error invalid_grant"))
  }

  @Test(
    "Retry-After is seconds or a date, at most a day",
    arguments: [
      ("7", nil, .seconds(7)), ("0", nil, .zero), ("99999999", nil, .seconds(86_400)),
      ("99999999999999999999999", nil, .seconds(86_400)), ("-1", nil, nil), ("soon", nil, nil), ("", nil, nil),
      ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:07 GMT", .seconds(30)),
      ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT", .zero),
      ("Sun, 06 Nov 1994 08:49:37 GMT", nil, nil),
      ("Sun, 06 Nov 2094 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT", .seconds(86_400)),
    ] as [(String, String?, Duration?)])
  func retryAfter(value: String, date: String?, wait: Duration?) {
    let headers = [HTTPRequest.Header("Retry-After", value)] + (date.map { [.init("Date", $0)] } ?? [])
    #expect(HTTPResponse(status: 503, headers: headers).retryAfter == wait)
  }

  @Test(
    "dates of HTTP in their three forms",
    arguments: [
      ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
      ("Sun Nov  6 08:49:37 1994", 784_111_777), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
      ("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000), ("Wed, 32 Jan 2024 12:00:00 GMT", nil),
      ("Sun, 06 Nov 1994 08:49:37 PST", nil), ("Sun, 06 Nov 1994 8:4 GMT", nil), ("", nil),
    ] as [(String, Int64?)])
  func dates(text: String, seconds: Int64?) {
    #expect(Timestamp(httpDate: text)?.seconds == seconds)
  }

  @Test(
    "an answer from a cache was made as long ago as it says",
    arguments: [
      (nil, 784_111_777), ("0", 784_111_777), (" 100 ", 784_111_877), ("-1", nil), ("", nil), ("soon", nil),
      ("99999999999", nil), ("99999999999999999999", nil),
    ] as [(String?, Int64?)])
  func age(text: String?, seconds: Int64?) {
    let headers =
      [HTTPRequest.Header("Date", "Sun, 06 Nov 1994 08:49:37 GMT")] + (text.map { [.init("Age", $0)] } ?? [])
    #expect(HTTPResponse(status: 200, headers: headers).date?.seconds == seconds)
  }
}
