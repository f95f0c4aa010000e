import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Nonces in proofs (RFC 9449 §8, §9)")
struct DPoPNonceTests {
  @Test("a nonce that the provider requires is learned from one refusal and kept")
  func nonces() async throws {
    try await Rig.with(Wish.bound) { rig in
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
    try await Rig.with(Wish.bound) { rig in
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
    try await Rig.with(Wish.bound) { rig in
      rig.demo.changeSettings { $0.dpop.nonce = .resource }
      try await rig.login()
      #expect(rig.demo.stats().count(.nonceRefused) == 0)
      let token = try await rig.token()
      let first = try await rig.proof(for: token)
      let refused = try await ResourceAnswer.get(rig.demo, token: token.access_token, proof: first.proof)
      #expect(refused.status == 401)
      let nonce = try #require(refused.nonce)
      let second = try await rig.proof(for: token, nonce: nonce)
      #expect(jwtPart(1, of: second.proof)?["nonce"] == .string(nonce))
      #expect(try await ResourceAnswer.get(rig.demo, token: token.access_token, proof: second.proof).status == 200)
      let info = try await rig.call("account.userinfo", ["account": "alice"])
      #expect(info["claims"]?["sub"]?.string == "sub-alice")
      #expect(rig.count(.userinfo) == 2)
    }
  }

  @Test("a provider that always demands another nonce is tried twice each time, and loses no grant")
  func endlessNonces() async throws {
    try await Rig.with(Wish.bound) { rig in
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
    try await Rig.with(Wish.bound) { rig in
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
    try await Rig.with(Wish.bound) { rig in
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
    try await Rig.with(Wish.bound) { rig in
      try await rig.login()
      try rig.demo.fault(.oauthError, at: .tokenRefresh, times: 1) { $0.error = "use_dpop_nonce" }
      let error = try await rig.failure("token.report_rejected", ["account": "alice", "generation": 1])
      #expect(error.reason == .temporarilyUnavailable)
      #expect(rig.count(.tokenRefresh) == 1)
      try await eventually("the grant goes on") { (try? await rig.token().generation) == 2 }
    }
  }
}
