import AsyncClient
import BrokerAPI
import Crypto
import DemoProvider
import Foundation
import Testing

@Suite("Tokens that are bound to a key (RFC 9449)")
struct DPoPTests {
  @Test("a login binds its tokens, and token.get names the key on every path")
  func login() async throws {
    try await Rig.with(Wish.bound) { rig in
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
    try await Rig.with(Wish.bound) { rig in
      try await rig.login()
      let token = try await rig.token()
      let first = try await rig.proof(for: token, query: "?page=2#part")
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
      let post = try await rig.proof(for: token, method: "POST")
      #expect(try await ResourceAnswer.get(rig.demo, token: token.access_token, proof: post.proof).status == 401)
      // Without a token it is for the account's current one.
      let current = try await rig.proof()
      #expect(jwtPart(1, of: current.proof)?["ath"] == .string(hash))
      #expect(jwtPart(1, of: current.proof)?["jti"] != claims["jti"])
      #expect(try await ResourceAnswer.get(rig.demo, token: token.access_token, proof: current.proof).status == 200)
      let small = try await rig.narrowed(scopes: ["email"])
      #expect(small.token_type == "DPoP" && small.dpop_thumbprint == token.dpop_thumbprint)
      let wrong = try await rig.proof()
      #expect(try await ResourceAnswer.get(rig.demo, token: small.access_token, proof: wrong.proof).status == 401)
      let right = try await rig.proof(for: small)
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
    try await Rig.with(Wish.bound) { rig in
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

  @Test("the key survives a restart: refreshes, proofs and a second login use it")
  func restart() async throws {
    try await Rig.with(Wish.bound) { rig in
      rig.demo.changeSettings { $0.dpop.mode = .required }
      try await rig.login()
      let before = try await rig.token()
      try await rig.restart()
      #expect(try await rig.token().access_token == before.access_token)
      try await rig.reject(1)
      let after = try await rig.token()
      #expect(after.generation == 2 && after.dpop_thumbprint == before.dpop_thumbprint && after.token_type == "DPoP")
      let signed = try await rig.proof(for: after)
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
    try await Rig.with(Wish.bound) { rig in
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
      let signed = try await rig.proof(for: token)
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
      // The search finds a present key.
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
