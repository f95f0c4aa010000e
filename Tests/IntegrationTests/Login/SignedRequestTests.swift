import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("Signed authorization requests (RFC 9101)")
struct SignedRequestTests {
  /// A public client that signs its requests.
  private static func wish(_ key: ClientKeyPair, knows other: ClientKeyPair? = nil, _ more: String = "") -> Wish {
    Wish {
      $0.client = DemoServer.Client(id: "demo", keys: [(other ?? key).publicJWK], authenticationMethod: "none")
      $0.provider = "request_object = true\nrequest_object_key_file = \"\(key.path)\"\n\(more)"
    }
  }

  private func checkObject(_ object: String, of rig: Rig) throws {
    let header = try #require(jwtPart(0, of: object))
    #expect(header["typ"] == "oauth-authz-req+jwt" && header["alg"] == "ES256" && header["kid"] == "client-key")
    let claims = try #require(jwtPart(1, of: object))
    #expect(claims["iss"] == "demo" && claims["client_id"] == "demo" && claims["aud"] == .string(rig.demo.issuer))
    #expect(claims["response_type"] == "code" && claims["state"] != nil && claims["nonce"] != nil)
    #expect(claims["jti"] != nil && claims["request"] == nil && claims["request_uri"] == nil)
    let end = try #require(claims["exp"]?.number)
    #expect(end > Date().timeIntervalSince1970 && end < Date().timeIntervalSince1970 + 3600)
  }

  @Test("a request is signed, and its other parameters reveal no more than necessary")
  func signed() async throws {
    let key = try ClientKeyPair()
    try await Rig.with(Self.wish(key), starting: false) { rig in
      rig.demo.changeSettings { $0.authorization.requireRequestObject = true }
      try await rig.start()
      let login = try await rig.startLogin()
      let front = Callback(url: login.url)
      // OpenID Connect Core §6.1 requires response_type and scope in addition; they are equal.
      #expect(Set(front.parameters.map(\.name)).isSubset(of: ["client_id", "request", "response_type", "scope"]))
      try checkObject(try #require(front.value("request")), of: rig)
      #expect(try await Browser.open(try await rig.callback(of: login).url).status == 200)
      #expect(try await rig.outcome(of: login).state == .completed)
      #expect(rig.demo.stats().count(.requestObject) == 1)
      #expect(rig.demo.stats().count(.requestObjectRefused) == 0)
    }
  }

  @Test("a signed request is pushed with only the client's identity next to it")
  func pushed() async throws {
    let key = try ClientKeyPair()
    try await Rig.with(Self.wish(key, "par = \"always\"")) { rig in
      try await rig.login()
      let pushed = try #require(rig.requests(.par).first)
      #expect(Set(pushed.names) == ["client_id", "request"])
      try checkObject(try #require(pushed.parameters["request"]), of: rig)
      #expect(rig.requests(.authorize).map { Set($0.names) } == [["client_id", "request_uri"]])
      #expect(rig.demo.stats().count(.requestObject) == 1)
    }
  }

  @Test("the client's own key signs the request where no other is named")
  func clientKey() async throws {
    let key = try ClientKeyPair()
    let wish = Wish {
      $0.client = DemoServer.Client(id: "demo", keys: [key.publicJWK], authenticationMethod: "private_key_jwt")
      $0.provider = "request_object = true\nclient_key_file = \"\(key.path)\""
    }
    try await Rig.with(wish) { rig in
      try await rig.login()
      #expect(rig.demo.stats().count(.requestObject) == 1 && rig.demo.stats().count(.assertion) == 1)
    }
  }

  @Test("a provider that does not know the key gets no login through, and says why", arguments: [false, true])
  func unknownKey(isPushed: Bool) async throws {
    let key = try ClientKeyPair()
    let other = try ClientKeyPair()
    try await Rig.with(Self.wish(key, knows: other, isPushed ? "par = \"always\"" : "")) { rig in
      if isPushed {
        let error = try await rig.failure("login.start", ["provider": "demo", "account": "alice"])
        #expect(error.reason == .providerError && error.oauth?.error == "invalid_request")
      } else {
        let login = try await rig.startLogin()
        // The provider has nowhere safe to send the browser to.
        let page = try await Browser.open(login.url)
        #expect(page.status == 400 && page.location == nil)
      }
      #expect(rig.demo.stats().count(.requestObjectRefused) == 1)
      #expect(rig.count(.tokenCode) == 0)
    }
  }
}

@Suite("Signed authorization responses (JARM)")
struct SignedResponseTests {
  private static func wish(_ mode: String = "jwt", _ more: String = "") -> Wish {
    Wish { $0.provider = "response_mode = \"\(mode)\"\n\(more)" }
  }

  @Test("a signed answer without other parameters completes a login", arguments: ["jwt", "query.jwt"])
  func signed(mode: String) async throws {
    try await Rig.with(Self.wish(mode)) { rig in
      let login = try await rig.startLogin()
      #expect(Callback(url: login.url).value("response_mode") == mode)
      let callback = try await rig.callback(of: login)
      #expect(callback.parameters.map(\.name) == ["response"])
      #expect(try await Browser.open(callback.url).status == 200)
      #expect(try await rig.outcome(of: login).state == .completed)
      #expect(rig.demo.stats().count(.signedResponse) == 1)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      // A second use exchanges nothing.
      #expect(try await Browser.open(callback.url).body.contains("Already completed"))
      #expect(rig.count(.tokenCode) == 1)
    }
  }

  @Test("a provider without OpenID Connect signs its answers too")
  func withoutIDTokens() async throws {
    try await Rig.with(Self.wish(), starting: false) { rig in
      let text = try String(contentsOfFile: rig.configurationFile, encoding: .utf8)
      let plain = text.replacing("kind = \"oidc\"", with: "kind = \"oauth2\"").replacing("\"openid\", ", with: "")
      try rig.folder.write(plain, to: "grantd.toml")
      try await rig.start()
      let login = try await rig.startLogin()
      #expect(try await Browser.open(try await rig.callback(of: login).url).status == 200)
      #expect(try await rig.outcome(of: login).state == .completed)
    }
  }

  @Test("a signed refusal ends the login")
  func denied() async throws {
    try await Rig.with(Self.wish()) { rig in
      let login = try await rig.startLogin(as: "deny")
      let callback = try await rig.callback(of: login)
      #expect(callback.parameters.map(\.name) == ["response"])
      _ = try await Browser.open(callback.url)
      let error = try await rig.failure("login.wait", ["login_id": .string(login.id)])
      #expect(error.reason == .loginDenied && error.oauth?.error == "access_denied")
    }
  }

  struct Flaw: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var kind: DemoServer.Fault.Kind
    var value: String?

    init(_ description: String, _ kind: DemoServer.Fault.Kind, _ value: String? = nil) {
      testDescription = description
      self.kind = kind
      self.value = value
    }

    static let all = [
      Flaw("a bad signature", .badSignature), Flaw("alg none", .algNone), Flaw("HS256 with a public key", .algHS256),
      Flaw("an unknown critical extension", .critHeader), Flaw("another issuer", .wrongIss),
      Flaw("no issuer", .missingIss), Flaw("another audience", .wrongAudience),
      Flaw("no audience", .claimAbsent, "aud"), Flaw("no end", .claimAbsent, "exp"), Flaw("expired", .expired),
      Flaw("another state", .wrongState), Flaw("no state", .missingState), Flaw("no code", .claimAbsent, "code"),
      Flaw("a plain answer", .plainResponse), Flaw("a token in the answer", .tokenInCallback),
    ]
  }

  @Test("an invalid answer is refused, the login stays pending, and a valid one completes it")
  func flawed() async throws {
    try await Rig.with(Self.wish()) { rig in
      let login = try await rig.startLogin()
      for flaw in Flaw.all {
        try rig.demo.fault(flaw.kind, at: .authorize, times: 1) { $0.value = flaw.value }
        let page = try await Browser.open(try await rig.callback(of: login).url)
        #expect(page.status == 400, "\(flaw.testDescription)")
        #expect(!page.body.contains("Signed in"), "\(flaw.testDescription)")
        #expect(try await rig.pendingLogins == 1, "\(flaw.testDescription)")
      }
      #expect(rig.count(.tokenCode) == 0)
      #expect(try await Browser.open(try await rig.callback(of: login).url).status == 200)
      #expect(try await rig.outcome(of: login).state == .completed)
      #expect(rig.count(.tokenCode) == 1)
    }
  }

  @Test("a forged copy of a valid answer is refused")
  func forged() async throws {
    try await Rig.with(Self.wish()) { rig in
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      let response = try #require(callback.value("response"))
      let parts = response.split(separator: ".").map(String.init)
      let claims = try #require(jwtPart(1, of: response))
      let state = try #require(claims["state"]?.string)
      let other = DemoServer.JSON.object(["state": .string(state), "code": "stolen"]).text
      let forgeries = [
        callback.without("response"), callback.replacing("response", ""), callback.adding("response", response),
        callback.replacing("response", parts[0] + "." + Data(other.utf8).base64URLText + "." + parts[2]),
        callback.replacing("response", parts[0] + "." + parts[1] + "."),
        // Plain parameters have no effect, regardless of their values.
        callback.without("response").adding("code", "stolen").adding("state", state).adding("iss", rig.demo.issuer),
        callback.without("response").adding("error", "access_denied").adding("state", state),
      ]
      for (index, forgery) in forgeries.enumerated() {
        #expect(try await Browser.open(forgery.url).status == 400, "forgery \(index)")
        #expect(try await rig.pendingLogins == 1, "forgery \(index)")
      }
      #expect(rig.count(.tokenCode) == 0)
      #expect(try await Browser.open(callback.url).status == 200)
    }
  }

  @Test("for a key that is not known the keys are fetched again, once; if it is not there the answer is refused")
  func unknownKey() async throws {
    try await Rig.with(Self.wish()) { rig in
      let login = try await rig.startLogin()
      try rig.demo.fault(.unknownKid, at: .authorize, times: 2)
      for _ in 1...2 {
        #expect(try await Browser.open(try await rig.callback(of: login).url).status == 400)
      }
      // The requests that every login needs, and one more.
      #expect(rig.count(.jwks) == 2)
      #expect(try await rig.pendingLogins == 1)
      #expect(try await Browser.open(try await rig.callback(of: login).url).status == 200)
      #expect(rig.count(.jwks) == 2)
    }
  }

  @Test("a key that the provider rotated in is found", arguments: [DemoServer.Algorithm.es256, .edDSA, .ps256])
  func rotatedKey(algorithm: DemoServer.Algorithm) async throws {
    try await Rig.with(Self.wish()) { rig in
      try await rig.login()
      try rig.demo.rotateKeys(algorithm, keepingOld: false)
      try await rig.login("bob")
      #expect(rig.count(.jwks) == 2)
    }
  }
}
