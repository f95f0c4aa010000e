import Foundation
import Grants
import OAuth
import Testing

@testable import Providers

private let outage = ProviderFailure.unclear(message: "an outage", retryAfter: nil)

@Suite struct ExchangeTests {
  private func exchange(_ script: inout Script, login: SavedLogin = login()) -> Result<Issued, ProviderFailure> {
    script.tokens(provider().exchange(code: Secret("the code"), login: login, metadata: metadata))
  }

  @Test(
    "A code is exchanged with its verifier and its redirect URI, and a valid ID token names the user")
  func right() throws {
    let compact = key.idToken(["email": #""alice@example.com""#, "preferred_username": #""al""#])
    var script = Script(answer(tokenBody(idToken: compact)))
    let issued = try exchange(&script).get()
    #expect(
      issued.identity
        == Identity(subject: "alice", issuer: issuerText, email: "alice@example.com", name: nil, username: "al"))
    #expect(issued.idToken == Secret(compact))
    #expect(issued.warning == nil)
    #expect(script.asked == [nil])
    let body = String(decoding: script.sent[0].body ?? Data(), as: UTF8.self)
    #expect(body.contains("grant_type=authorization_code"))
    #expect(body.contains("code=the+code") || body.contains("code=the%20code"))
    #expect(body.contains("redirect_uri=http%3A%2F%2F127.0.0.1%3A4711%2Fcallback"))
    #expect(body.contains("code_verifier=" + String(repeating: "v", count: 43)))
    #expect(body.contains("client_id=client"))
  }

  @Test(
    "A login without a valid ID token fails",
    arguments: [
      ["nonce": "\"another\""], ["nonce": nil], ["aud": "\"another\""], ["iss": "\"https://evil.example\""],
      ["exp": "\(start.seconds - 60)"], ["iat": "\(start.seconds + 3600)"], ["sub": nil], ["exp": nil],
      ["azp": "\"another\""], ["at_hash": "\"AAAAAAAAAAAAAAAAAAAAAA\""], ["c_hash": "\"AAAAAAAAAAAAAAAAAAAAAA\""],
    ] as [[String: String?]])
  func wrongClaims(claims: [String: String?]) {
    var script = Script(answer(tokenBody(idToken: key.idToken(claims))))
    #expect(name(exchange(&script)) == "invalid")
  }

  @Test("An ID token that is absent, malformed or altered fails the login")
  func unsound() {
    let compact = key.idToken()
    let other = key.idToken(["sub": "\"mallory\""])
    let mixed =
      compact.split(separator: ".")[0] + "." + other.split(separator: ".")[1] + "." + compact.split(separator: ".")[2]
    for idToken in [nil, "no.token", "a.b.c", String(mixed), String(compact.dropLast(4))] {
      var script = Script(answer(tokenBody(idToken: idToken)))
      #expect(name(exchange(&script)) == "invalid", "\(idToken ?? "none")")
    }
  }

  @Test("With max_age the ID token must have the time of the sign-in")
  func maxAge() {
    let cases: [([String: String?], String)] = [
      ([:], "invalid"), (["auth_time": "\(start.seconds - 30)"], "taken"),
      (["auth_time": "\(start.seconds - 9999)"], "invalid"),
    ]
    for (claims, meaning) in cases {
      var script = Script(answer(tokenBody(idToken: key.idToken(claims))))
      #expect(name(exchange(&script, login: login(maxAge: 60))) == meaning)
    }
  }

  @Test("An unknown key is fetched exactly once more, and the login fails if it stays unknown")
  func unknownKey() {
    let body = tokenBody(idToken: newKey.idToken())
    var rotated = Script(answer(body), keys: [.success(keySet(key)), .success(keySet(key, newKey))])
    #expect(name(exchange(&rotated)) == "taken")
    #expect(rotated.asked == [nil, "k2"])
    var unknown = Script(answer(body))
    #expect(name(exchange(&unknown)) == "invalid")
    #expect(unknown.asked == [nil, "k2"])
    var known = Script(answer(tokenBody(idToken: key.idToken(["nonce": "\"another\""]))))
    #expect(name(exchange(&known)) == "invalid")
    #expect(known.asked == [nil])
  }

  @Test("Keys that cannot be had fail the login for their own reason")
  func noKeys() {
    var script = Script(answer(tokenBody(idToken: key.idToken())), keys: [.failure(outage)])
    #expect(name(exchange(&script)) == "unclear")
    #expect(script.asked == [nil])
  }

  @Test("Times are judged by the moment that the answer came, not by when the code was sent")
  func lateAnswer() {
    var script = Script(answer(tokenBody(idToken: key.idToken())), now: at(400))
    #expect(name(exchange(&script)) == "invalid")
  }

  @Test("Without openid no ID token is wanted and no key is fetched")
  func plain() throws {
    var script = Script(answer(tokenBody()))
    let issued = try exchange(&script, login: login(nonce: nil, scopes: ["mail"])).get()
    #expect(issued.identity == nil)
    var oauth = Script(answer(tokenBody(idToken: "not.looked.at")))
    let result = oauth.tokens(provider(.oauth2).exchange(code: Secret("c"), login: login(), metadata: metadata))
    #expect(name(result) == "taken")
    #expect(script.asked.isEmpty && oauth.asked.isEmpty)
  }

  @Test("A refused code ends this login, and a server without a token endpoint is misconfigured")
  func refused() {
    var script = Script(answer(#"{"error":"invalid_grant"}"#, status: 400))
    #expect(name(exchange(&script)) == "ended refused")
    let bare = ServerMetadata(issuer: issuerText)
    #expect(
      name(script.tokens(provider().exchange(code: Secret("c"), login: login(), metadata: bare))) == "misconfigured")
    #expect(script.sent.count == 1)
  }
}

@Suite struct RefreshAnswerTests {
  private let alice = Identity(subject: "alice", issuer: issuerText)

  private func refresh(_ script: inout Script, idToken: String? = key.idToken()) -> Result<Issued, ProviderFailure> {
    let grant = savedGrant(idToken: idToken.map(Secret.init), identity: alice)
    return script.run(provider().refresh(grant, token: Secret("refresh-1"), key: SavedToken.Key(), metadata: metadata))
      .flatMap(\.issued)
  }

  @Test("A refreshed ID token may be absent, may lack the nonce, and is accepted for the same user")
  func fine() throws {
    var absent = Script(answer(tokenBody()))
    let bare = try refresh(&absent).get()
    #expect(bare.idToken == nil && bare.identity == nil && bare.warning == nil)
    #expect(absent.asked.isEmpty)
    for claims in [[:], ["nonce": nil], ["email": "\"new@example.com\""]] as [[String: String?]] {
      let compact = key.idToken(claims, issued: start.seconds + 1)
      var script = Script(answer(tokenBody(idToken: compact)))
      let issued = try refresh(&script).get()
      #expect(issued.idToken == Secret(compact))
      #expect(issued.identity?.subject == "alice")
      #expect(issued.warning == nil)
    }
  }

  @Test("An ID token of another user ends the grant, before any key is fetched")
  func otherPerson() {
    var script = Script(answer(tokenBody(idToken: key.idToken(["sub": "\"bob\""]))))
    #expect(name(refresh(&script)) == "ended identity_changed")
    #expect(script.asked.isEmpty)
  }

  @Test("A refreshed ID token that cannot be verified is passed over with a warning, and the rotated token is kept")
  func unverifiable() throws {
    let bodies: [(String, [Result<JWKSet, ProviderFailure>], [String?])] = [
      ("no.token", [.success(keySet(key))], []),
      (newKey.idToken(), [.success(keySet(key))], [nil, "k2"]),
      (key.idToken(), [.failure(outage)], [nil]),
      (newKey.idToken(), [.success(keySet(key)), .failure(outage)], [nil, "k2"]),
      (key.idToken(["exp": "\(start.seconds - 999)"]), [.success(keySet(key))], [nil]),
      (key.idToken(["aud": "\"another\""]), [.success(keySet(key))], [nil]),
      (String(key.idToken().dropLast(2)), [.success(keySet(key))], [nil, ""]),
    ]
    for (idToken, keys, asked) in bodies {
      var script = Script(answer(tokenBody(idToken: idToken)), keys: keys)
      let issued = try refresh(&script).get()
      #expect(issued.warning != nil)
      #expect(issued.idToken == nil && issued.identity == nil)
      #expect(issued.tokens.refreshToken == Secret("refresh-2"))
      #expect(script.asked == asked)
    }
  }

  @Test("An unknown key is asked for once more, and the token taken with it")
  func rotatedKey() {
    var script = Script(
      answer(tokenBody(idToken: newKey.idToken())), keys: [.success(keySet(key)), .success(keySet(key, newKey))])
    #expect(name(refresh(&script)) == "taken")
    #expect(script.asked == [nil, "k2"])
  }

  @Test("a key that was replaced under the same name is fetched again once")
  func replacedKey() throws {
    let replacement = SigningKey(key.kid)
    var script = Script(
      answer(tokenBody(idToken: replacement.idToken())), keys: [.success(keySet(key)), .success(keySet(replacement))])
    let issued = try refresh(&script).get()
    #expect(issued.warning == nil && issued.idToken != nil)
    #expect(script.asked == [nil, ""])
  }

  @Test("A refresh sends the configured parameters at their place, with the client's one authentication")
  func request() {
    let provider = provider {
      $0.client.credential = .basic(secret: Secret("pass word"), encoding: .form)
      $0.server.refreshEndpoint = issuerText + "/refresh"
      $0.token.parameters = ["audience": "api", "both": "token", "grant_type": "evil"]
      $0.refresh.parameters = ["both": "refresh"]
      $0.token.headers = ["X-Wanted": "yes", "authorization": "evil"]
    }
    var grant = savedGrant()
    grant.resource = "https://api.example.com"
    var script = Script(answer(tokenBody()))
    _ = script.run(provider.refresh(grant, token: Secret("refresh-1"), key: SavedToken.Key(), metadata: metadata))
    let request = script.sent[0]
    #expect(request.url.absoluteString == issuerText + "/refresh")
    let pairs = String(decoding: request.body ?? Data(), as: UTF8.self).split(separator: "&").map(String.init)
    #expect(
      pairs.sorted() == [
        "audience=api", "both=refresh", "grant_type=refresh_token", "refresh_token=refresh-1",
        "resource=https%3A%2F%2Fapi.example.com",
      ])
    #expect(request.headers.filter { $0.name.lowercased() == "authorization" }.count == 1)
    #expect(request.headers.contains(.init("X-Wanted", "yes")))
  }
}
