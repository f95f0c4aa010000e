import BrokerAPI
import Crypto
import DemoProvider
import Foundation
import Testing
import UnixSocket

@Suite("Tokens that are bound to a key (RFC 9449)")
struct DPoPTests {
  private static let bound = Wish { $0.provider = "dpop = true" }

  private func proof(
    _ rig: Rig, for token: TokenGet.Result? = nil, method: String = "GET", query: String = "", nonce: String? = nil
  ) async throws -> DPoPProof.Result {
    try await rig.client.call(
      DPoPProof.self,
      .init(
        account: "alice", method: method, url: "\(rig.demo.issuer)/resource\(query)", nonce: nonce,
        access_token: token.map { .init($0.access_token) }),
      timeout: .seconds(30))
  }

  @Test("a login binds its tokens, and token.get says to which key, by whichever road it answers")
  func login() async throws {
    try await Rig.with(Self.bound) { rig in
      let login = try await rig.startLogin()
      let thumbprint = try #require(Callback(url: login.url).value("dpop_jkt"))
      #expect(try await Browser.open(try await rig.callback(of: login).url).status == 200)
      #expect(try await rig.outcome(of: login).state == .completed)
      let cached = try await rig.token()
      let scopes = cached.scope
      let asked = try await rig.narrowed(scopes: scopes, timeout: 20)
      for token in [cached, asked] {
        #expect(token.token_type == "DPoP" && token.dpop_thumbprint == thumbprint)
        #expect(token.access_token == cached.access_token && token.generation == 1)
      }
      #expect(thumbprint.utf8.count == 43)
      #expect(rig.demo.stats().grants.map(\.isBound) == [true])
      #expect(rig.demo.stats().count(.proof) == 1 && rig.demo.stats().count(.proofRefused) == 0)
      // Each account has a key of its own.
      try await rig.login("bob")
      #expect(try await rig.token("bob").dpop_thumbprint != thumbprint)
    }
  }

  @Test("a proof by dpop.proof opens a resource to the token, once, and to no other token, method or address")
  func resource() async throws {
    try await Rig.with(Self.bound) { rig in
      try await rig.login()
      let token = try await rig.token()
      let first = try await proof(rig, for: token, query: "?page=2#part")
      #expect(first.thumbprint == token.dpop_thumbprint)
      let header = try #require(jwtPart(0, of: first.proof))
      #expect(header["typ"] == "dpop+jwt" && header["alg"] == "ES256" && header["jwk"]?["d"] == nil)
      let claims = try #require(jwtPart(1, of: first.proof))
      #expect(claims["htm"] == "GET" && claims["htu"] == .string("\(rig.demo.issuer)/resource"))
      let hash = Data(SHA256.hash(data: Data(token.access_token.utf8))).base64URLText
      #expect(claims["ath"] == .string(hash) && claims["nonce"] == nil)
      let answer = try await ResourceAnswer.get(
        rig.demo, token: token.access_token, proof: first.proof, query: "?page=2")
      #expect(answer.status == 200 && answer.body?["bound"] == true && answer.body?["sub"] == "sub-alice")
      // Used before.
      #expect(try await ResourceAnswer.get(rig.demo, token: token.access_token, proof: first.proof).status == 401)
      // Without any, as a bearer token.
      #expect(try await ResourceAnswer.get(rig.demo, token: token.access_token).status == 401)
      let post = try await proof(rig, for: token, method: "POST")
      #expect(try await ResourceAnswer.get(rig.demo, token: token.access_token, proof: post.proof).status == 401)
      // Without a token it is for the account's current one.
      let current = try await proof(rig)
      #expect(jwtPart(1, of: current.proof)?["ath"] == .string(hash))
      #expect(jwtPart(1, of: current.proof)?["jti"] != claims["jti"])
      #expect(try await ResourceAnswer.get(rig.demo, token: token.access_token, proof: current.proof).status == 200)
      let small = try await rig.narrowed(scopes: ["email"])
      #expect(small.token_type == "DPoP" && small.dpop_thumbprint == token.dpop_thumbprint)
      let wrong = try await proof(rig)
      #expect(try await ResourceAnswer.get(rig.demo, token: small.access_token, proof: wrong.proof).status == 401)
      let right = try await proof(rig, for: small)
      #expect(try await ResourceAnswer.get(rig.demo, token: small.access_token, proof: right.proof).scopes == ["email"])
      // The broker's own requests are proven as well.
      let info = try await rig.call("account.userinfo", ["account": "alice"])
      #expect(info["claims"]?["sub"]?.string == "sub-alice")
    }
  }

  @Test("a proof for a token that is bound to nothing, or for no request, is none")
  func noProof() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let params: JSON = ["account": "alice", "method": "GET", "url": "https://api.example/me"]
      let error = try await rig.failure("dpop.proof", params)
      #expect(error.reason == .unsupportedByProvider && error.hint?.contains("dpop = true") == true)
      #expect(try await rig.token().dpop_thumbprint == nil)
    }
    try await Rig.with(Self.bound) { rig in
      try await rig.login()
      for (method, url) in [
        ("", "https://api.example/me"), ("GET /", "https://api.example/me"), ("GET", ""), ("GET", "api.example/me"),
        ("GET", "ftp://api.example/me"), ("GET", "https:///me"),
      ] {
        let error = try await rig.failure(
          "dpop.proof", ["account": "alice", "method": .string(method), "url": .string(url)])
        #expect(error.code == -32602, "\(method) \(url): \(error.message)")
      }
    }
  }

  // MARK: Nonces

  @Test("a nonce that the provider wants is learnt by one refusal and kept for what follows")
  func nonces() async throws {
    try await Rig.with(Self.bound) { rig in
      rig.demo.changeSettings { $0.dpop.nonce = .both }
      try await rig.login()
      #expect(rig.demo.stats().count(.nonceRefused) == 1 && rig.count(.tokenCode) == 2)
      try await rig.reject(1)
      #expect(rig.demo.stats().count(.nonceRefused) == 1 && rig.count(.tokenRefresh) == 1)
      // The provider has another one.
      rig.demo.rotateNonce()
      try await rig.reject(2)
      #expect(rig.demo.stats().count(.nonceRefused) == 2 && rig.count(.tokenRefresh) == 3)
      #expect(rig.demo.stats().refreshes == 2)
      // A new jti each time, and the same refresh token in both tries.
      #expect(rig.demo.stats().count(.replay) == 0 && rig.demo.stats().count(.reuse) == 0)
      let tries = rig.requests(.tokenRefresh).suffix(2)
      #expect(Set(tries.compactMap { $0.parameters["refresh_token"] }).count == 1)
      #expect(Set(tries.compactMap { $0.headers["dpop"].flatMap { jwtPart(1, of: $0)?["jti"]?.string } }).count == 2)
      #expect(rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("a nonce that is good once is taken from each answer")
  func nonceForEachUse() async throws {
    try await Rig.with(Self.bound) { rig in
      rig.demo.changeSettings {
        $0.dpop.nonce = .token
        $0.dpop.nonceRotation = .eachUse
      }
      try await rig.login()
      for scope in ["openid", "email", "profile"] { _ = try await rig.narrowed(scopes: [scope]) }
      #expect(rig.count(.tokenRefresh) == 3)
      #expect(rig.demo.stats().count(.nonceRefused) == 1)
    }
  }

  @Test("a nonce that a resource wants goes into the next proof; the broker does the same for userinfo")
  func nonceOfAResource() async throws {
    try await Rig.with(Self.bound) { rig in
      rig.demo.changeSettings { $0.dpop.nonce = .resource }
      try await rig.login()
      #expect(rig.demo.stats().count(.nonceRefused) == 0)
      let token = try await rig.token()
      let first = try await proof(rig, for: token)
      let refused = try await ResourceAnswer.get(rig.demo, token: token.access_token, proof: first.proof)
      #expect(refused.status == 401)
      let nonce = try #require(refused.nonce)
      let second = try await proof(rig, for: token, nonce: nonce)
      #expect(jwtPart(1, of: second.proof)?["nonce"] == .string(nonce))
      #expect(try await ResourceAnswer.get(rig.demo, token: token.access_token, proof: second.proof).status == 200)
      let info = try await rig.call("account.userinfo", ["account": "alice"])
      #expect(info["claims"]?["sub"]?.string == "sub-alice")
      #expect(rig.count(.userinfo) == 2)
    }
  }

  @Test("a provider that always demands another nonce is tried twice each time, and loses no grant")
  func endlessNonces() async throws {
    try await Rig.with(Self.bound) { rig in
      try await rig.login()
      try rig.demo.fault(.useDPoPNonce, at: .tokenRefresh)
      let error = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1])
      #expect(error.reason == .temporarilyUnavailable)
      #expect(error.oauth?.error == "use_dpop_nonce")
      #expect(rig.count(.tokenRefresh) == 2)
      #expect(try await rig.account().state != .loginRequired)
      rig.demo.reset()
      try await eventually("the grant goes on") {
        (try? await rig.token().generation) == 2
      }
      #expect(rig.demo.stats().liveGrants == 1 && rig.demo.stats().count(.reuse) == 0)
      #expect(try await rig.account().state == .ok)
    }
  }

  @Test("a login at such a provider fails as temporarily unavailable, and the next one works")
  func endlessNoncesAtLogin() async throws {
    try await Rig.with(Self.bound) { rig in
      try rig.demo.fault(.useDPoPNonce, at: .tokenCode)
      let login = try await rig.startLogin()
      _ = try await Browser.open(try await rig.callback(of: login).url)
      let error = try await rig.failure("login.wait", ["login_id": .string(login.id)])
      #expect(error.reason == .temporarilyUnavailable && rig.count(.tokenCode) == 2)
      rig.demo.reset()
      try await rig.login()
    }
  }

  @Test("a provider that does not know DPoP makes no account, in words that say what to change")
  func ignored() async throws {
    try await Rig.with(Self.bound) { rig in
      rig.demo.changeSettings { $0.dpop.mode = .ignored }
      let login = try await rig.startLogin()
      _ = try await Browser.open(try await rig.callback(of: login).url)
      let error = try await rig.failure("login.wait", ["login_id": .string(login.id)])
      #expect(error.reason == .providerError)
      #expect(error.message.contains("remove dpop"), "\(error.message)")
      rig.demo.changeSettings { $0.dpop.mode = .accepted }
      try await rig.login()
      // A rotated refresh token is worth more than the binding.
      rig.demo.changeSettings { $0.dpop.mode = .ignored }
      #expect(try await rig.token().token_type == "DPoP")
    }
  }

  @Test("a demand without a nonce is a refusal like others: it is not answered with the same request again")
  func demandWithoutNonce() async throws {
    try await Rig.with(Self.bound) { rig in
      try await rig.login()
      try rig.demo.fault(.oauthError, at: .tokenRefresh, times: 1) { $0.error = "use_dpop_nonce" }
      let error = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1])
      #expect(error.reason == .temporarilyUnavailable)
      #expect(rig.count(.tokenRefresh) == 1)
      try await eventually("the grant goes on") { (try? await rig.token().generation) == 2 }
    }
  }

  // MARK: The key

  @Test("the key outlives the daemon: refreshes and proofs go on with it, and so does a second login")
  func restart() async throws {
    try await Rig.with(Self.bound) { rig in
      rig.demo.changeSettings { $0.dpop.mode = .required }
      try await rig.login()
      let before = try await rig.token()
      try await rig.restart()
      #expect(try await rig.token().access_token == before.access_token)
      try await rig.reject(1)
      let after = try await rig.token()
      #expect(after.generation == 2 && after.dpop_thumbprint == before.dpop_thumbprint && after.token_type == "DPoP")
      let signed = try await proof(rig, for: after)
      #expect(try await ResourceAnswer.get(rig.demo, token: after.access_token, proof: signed.proof).status == 200)
      // In the middle of a login too.
      let login = try await rig.startLogin()
      let callback = try await rig.callback(of: login)
      try await rig.restart()
      #expect(try await Browser.open(callback.url).status == 200)
      #expect(try await rig.token().dpop_thumbprint == before.dpop_thumbprint)
      try await rig.reject(3)
      #expect(rig.demo.stats().count(.proofRefused) == 0)
    }
  }

  @Test("tokens from before dpop was set stay bearer tokens until the next login")
  func switchedOn() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let text = try String(contentsOfFile: rig.configurationFile, encoding: .utf8)
      try rig.folder.write(
        text.replacing("kind = \"oidc\"", with: "kind = \"oidc\"\ndpop = true"), to: "grantd.toml")
      try await rig.call("broker.reload")
      try await rig.reject(1)
      #expect(try await rig.token().token_type == "Bearer")
      try await rig.login()
      let token = try await rig.token()
      #expect(token.token_type == "DPoP" && token.dpop_thumbprint != nil)
      try await rig.reject(token.generation)
      #expect(try await rig.token().generation == token.generation + 1)
    }
  }

  @Test("the key is printed nowhere: not in the log, not in an answer, not in a request, not in a file")
  func secrecy() async throws {
    try await Rig.with(Self.bound) { rig in
      rig.demo.changeSettings { $0.dpop.nonce = .both }
      var printed = ""
      func keep(_ method: String, _ params: JSON = [:]) async throws {
        printed += String(decoding: try await rig.call(method, params).serialized(), as: UTF8.self) + "\n"
      }
      let login = try await rig.startLogin()
      printed += login.url + "\n"
      try await keep("login.list")
      #expect(try await Browser.open(try await rig.callback(of: login).url).status == 200)
      _ = try await rig.outcome(of: login)
      let token = try await rig.token()
      let signed = try await proof(rig, for: token)
      try await rig.reject(1)
      for method in ["account.list", "broker.status", "provider.list", "broker.metrics"] { try await keep(method) }
      for method in ["account.get", "token.get", "account.userinfo"] { try await keep(method, ["account": "alice"]) }
      printed += signed.proof + (try jwtText(signed.proof)) + rig.log
      printed += rig.demo.requests.map { "\($0.headers) \($0.parameters) \($0.body)" }.joined()
      for proof in rig.demo.requests.compactMap({ $0.headers["dpop"] }) { printed += try jwtText(proof) }
      for file in try FileManager.default.subpathsOfDirectory(atPath: rig.folder.root) {
        let bytes = try? Data(contentsOf: URL(fileURLWithPath: rig.folder.path(file)))
        if let bytes { printed += String(decoding: bytes, as: UTF8.self) }
      }
      let jwk = try #require(jwtPart(0, of: signed.proof)?["jwk"])
      let wanted = try #require(jwk["x"]?.string.flatMap { Data(base64URLText: $0) })
      // The search does find a key that is there.
      let known = P256.Signing.PrivateKey()
      let planted = " d=\(known.rawRepresentation.base64URLText)! "
      #expect(Self.holdsKey(printed + planted, publicX: known.publicKey.rawRepresentation.prefix(32)))
      #expect(!Self.holdsKey(printed, publicX: wanted))
    }
  }

  private func jwtText(_ compact: String) throws -> String {
    let parts = try [0, 1].map { try #require(jwtPart($0, of: compact)).text }
    return parts.joined(separator: " ") + "\n"
  }

  /// Whether a run of characters is the private key, as its file and the broker's own form of it would write it.
  private static func holdsKey(_ text: String, publicX: Data) -> Bool {
    func isKey(_ bytes: Data) -> Bool {
      (try? P256.Signing.PrivateKey(rawRepresentation: bytes))?.publicKey.rawRepresentation.prefix(32) == publicX
    }
    let runs = Set(
      text.utf8.split {
        !($0 == 0x2D || $0 == 0x5F || (0x30...0x39).contains($0) || (0x41...0x5A).contains($0)
          || (0x61...0x7A).contains($0))
      }.filter { $0.count == 43 || $0.count == 64 }.map { String(Substring($0)) })
    return runs.contains { run in
      if run.utf8.count == 43 { return Data(base64URLText: run).map(isKey) ?? false }
      let digits = Array(run.utf8)
      let bytes = stride(from: 0, to: 64, by: 2).compactMap {
        UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
      }
      return bytes.count == 32 && isKey(Data(bytes))
    }
  }
}
