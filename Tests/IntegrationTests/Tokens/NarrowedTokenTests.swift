import AsyncClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Tokens for fewer scopes or another resource, under one grant")
struct NarrowedTokenTests {
  private static let files = "https://files.example/"
  private static let mail = "https://mail.example/api"

  private func resource(_ rig: Rig, _ token: Token) async throws -> ResourceAnswer {
    try await ResourceAnswer.get(rig.demo, token: token.access_token)
  }

  @Test("each scope set and each resource has its own token, asked for once, and none takes another's place")
  func apart() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let whole = try await rig.token()
      let email = try await rig.narrowed(scopes: ["email"])
      let two = try await rig.narrowed(scopes: ["profile", "email"])
      let files = try await rig.narrowed(resource: Self.files)
      let both = try await rig.narrowed(scopes: ["email"], resource: Self.files)
      let all = [whole, email, two, files, both]
      #expect(Set(all.map(\.access_token)).count == 5)
      #expect(Set(all.map(\.generation)).count == 5)
      #expect(email.scope == ["email"] && Set(two.scope) == ["profile", "email"])
      #expect(rig.count(.tokenRefresh) == 4)
      // Again, however they are written: no further request, and the same token.
      let again = [
        try await rig.token(), try await rig.narrowed(scopes: ["email", "email"]),
        try await rig.narrowed(scopes: ["email", "profile"]), try await rig.narrowed(scopes: [], resource: Self.files),
        try await rig.narrowed(scopes: ["email"], resource: Self.files),
      ]
      #expect(again.map(\.access_token) == all.map(\.access_token))
      let everything = try await rig.narrowed(scopes: whole.scope.reversed())
      #expect(everything.access_token == whole.access_token)
      #expect(rig.count(.tokenRefresh) == 4)
      // And the provider gave what was asked for.
      #expect(try await resource(rig, whole).scopes == Set(whole.scope))
      #expect(try await resource(rig, email).scopes == ["email"])
      #expect(try await resource(rig, two).scopes == ["email", "profile"])
      #expect(try await resource(rig, files).body?["resources"] == [.string(Self.files)])
      #expect(try await resource(rig, files).scopes == Set(whole.scope))
      let narrowest = try await resource(rig, both)
      #expect(narrowest.scopes == ["email"] && narrowest.body?["resources"] == [.string(Self.files)])
      let account = try await rig.account()
      #expect(account.state == .ok && Set(account.scopes) == Set(whole.scope))
      #expect(rig.demo.stats().count(.reuse) == 0 && rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("a refresh asks for the narrowed scope and resource, and the account's own token never does")
  func requests() async throws {
    try await Rig.with(Wish { $0.provider = "resource = \"\(Self.mail)\"" }) { rig in
      try await rig.login()
      // The account's own resource needs no other token.
      #expect(try await rig.narrowed(resource: Self.mail).generation == 1)
      _ = try await rig.narrowed(scopes: ["email"])
      _ = try await rig.narrowed(scopes: ["email"], resource: Self.mail)
      try await rig.reject(1)
      let asked = rig.requests(.tokenRefresh).map { [$0.parameters["scope"], $0.parameters["resource"]] }
      #expect(asked == [["email", Self.mail], [nil, Self.mail]])
      // The person agreed to no other.
      let error = try await rig.failure("token.get", ["account": "alice", "resource": .string(Self.files)])
      #expect(error.reason == .scopeNotGranted && error.oauth?.error == "invalid_target")
    }
  }

  @Test("narrowed tokens and their rotated refresh tokens survive a restart", arguments: [true, false])
  func restart(rotates: Bool) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.refresh.narrowedRotates = rotates }
      try await rig.login()
      let email = try await rig.narrowed(scopes: ["email"])
      let files = try await rig.narrowed(resource: Self.files)
      try await rig.restart()
      #expect(try await rig.narrowed(scopes: ["email"]).access_token == email.access_token)
      #expect(try await rig.narrowed(resource: Self.files).access_token == files.access_token)
      #expect(rig.count(.tokenRefresh) == 2)
      let profile = try await rig.narrowed(scopes: ["profile"])
      #expect(profile.generation == 4)
      try await rig.restart()
      try await rig.reject(1)
      let whole = try await rig.token()
      #expect(whole.generation == 5)
      for (token, scopes) in [(email, ["email"]), (profile, ["profile"]), (whole, whole.scope)] {
        #expect(try await resource(rig, token).scopes == Set(scopes))
        #expect(try await rig.narrowed(scopes: scopes).access_token == token.access_token)
      }
      #expect(rig.demo.stats().count(.reuse) == 0 && rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("each is refreshed after use and ends separately; a caller always gets a valid one")
  func expiry() async throws {
    try await Rig.with(.shortLived { $0.accessTTL = 3 }) { rig in
      try await rig.login()
      let email = try await rig.narrowed(scopes: ["email"])
      // It is used: it is refreshed before it ends, like the account's own, without another request.
      try await eventually("both are refreshed") {
        let scopes = rig.requests(.tokenRefresh).map { $0.parameters["scope"] }
        return scopes.filter { $0 == "email" }.count >= 2 && scopes.contains(nil)
      }
      let fresh = try await rig.narrowed(scopes: ["email"])
      #expect(fresh.generation > email.generation && fresh.scope == ["email"])
      // Each lives for three seconds, and may end on its way.
      try await eventually("it works") {
        try await resource(rig, try await rig.narrowed(scopes: ["email"])).scopes == ["email"]
      }
      try await eventually("the account's token works") {
        let whole = try await rig.token()
        return try await resource(rig, whole).scopes == Set(whole.scope) && whole.scope.count > 1
      }
      #expect(rig.demo.stats().count(.reuse) == 0 && rig.demo.stats().liveGrants == 1)
    }
  }

  @Test("a scope or a resource that the provider refuses is not granted; that is remembered, and the account is well")
  func refused() async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.refresh.narrowing = .refused }
      try await rig.login()
      let cases: [(JSON, String)] = [
        (["account": "alice", "scopes": ["email"]], "invalid_scope"),
        (["account": "alice", "resource": .string(Self.files)], "invalid_target"),
      ]
      for (index, (params, code)) in cases.enumerated() {
        for _ in 1...3 {
          let error = try await rig.failure("token.get", params)
          #expect(error.reason == .scopeNotGranted && error.oauth?.error == code, "\(error.message)")
          #expect(error.hint != nil)
        }
        #expect(rig.count(.tokenRefresh) == index + 1)
        #expect(try await rig.account().state == .ok)
      }
      #expect(try await rig.token().generation == 1)
      // What the account was granted goes on, and so do other accounts of the provider.
      try await rig.reject(1)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      try await rig.login("bob")
      #expect(try await rig.token("bob").generation == 1)
      #expect(rig.demo.stats().liveGrants == 2 && rig.demo.stats().count(.reuse) == 0)
      // A restarted daemon asks once more, since the provider may have been fixed.
      rig.demo.changeSettings { $0.refresh.narrowing = .honoured }
      try await rig.restart()
      #expect(try await rig.narrowed(scopes: ["email"]).scope == ["email"])
    }
  }

  @Test("scopes that were not granted are refused without a request, invalid scopes and resources too")
  func notGranted() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let error = try await rig.failure("token.get", ["account": "alice", "scopes": ["email", "admin"]])
      #expect(error.reason == .scopeNotGranted && error.message.contains("admin") && !error.message.contains("email "))
      for bad: JSON in [
        ["account": "alice", "scopes": ["two words"]], ["account": "alice", "scopes": [""]],
        ["account": "alice", "resource": "no address"], ["account": "alice", "resource": "https://a.example/#part"],
        ["account": "alice", "resource": ""],
      ] {
        #expect(try await rig.failure("token.get", bad).code == -32602)
      }
      #expect(rig.count(.tokenRefresh) == 0)
    }
  }

  @Test("a provider that ignores the wish gives all that was granted, and that serves: it is asked once for each")
  func ignored() async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.refresh.narrowing = .ignored }
      try await rig.login()
      let whole = try await rig.token()
      let email = try await rig.narrowed(scopes: ["email"])
      #expect(Set(email.scope) == Set(whole.scope) && email.access_token != whole.access_token)
      #expect(try await rig.narrowed(scopes: ["email"]).access_token == email.access_token)
      #expect(try await rig.token().access_token == whole.access_token)
      #expect(rig.count(.tokenRefresh) == 1)
    }
  }

  @Test("an answer with fewer scopes than requested is detected")
  func less() async throws {
    try await Rig.with { rig in
      try await rig.login()
      rig.demo.changeSettings { $0.tokenExtra = ["scope": "email"] }
      let error = try await rig.failure("token.get", ["account": "alice", "scopes": ["email", "profile"]])
      #expect(error.reason == .scopeNotGranted && error.message.contains("profile"))
      _ = try await rig.failure("token.get", ["account": "alice", "scopes": ["email", "profile"]])
      #expect(rig.count(.tokenRefresh) == 1)
      #expect(try await rig.token().generation == 1)
      #expect(try await rig.account().state == .ok)
    }
  }

  @Test("a report of a narrowed token refreshes only that token")
  func rejected() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let whole = try await rig.token()
      let email = try await rig.narrowed(scopes: ["email"])
      let files = try await rig.narrowed(resource: Self.files)
      #expect(try await rig.reject(email.generation) == .init(refreshed: true, generation: 4))
      let next = try await rig.narrowed(scopes: ["email"])
      #expect(next.generation == 4 && next.access_token != email.access_token && next.scope == ["email"])
      #expect(try await rig.token().access_token == whole.access_token)
      #expect(try await rig.narrowed(resource: Self.files).access_token == files.access_token)
      #expect(rig.count(.tokenRefresh) == 3)
      // A late report of the same one does nothing.
      #expect(try await rig.reject(email.generation).refreshed == false)
      // And the other way round.
      #expect(try await rig.reject(whole.generation) == .init(refreshed: true, generation: 5))
      #expect(try await rig.narrowed(scopes: ["email"]).access_token == next.access_token)
      #expect(rig.count(.tokenRefresh) == 4)
      // A restarted daemon does not release a rejected token again.
      rig.demo.changeSettings { $0.refresh.narrowing = .refused }
      let error = try await rig.failure(
        "token.report_rejected", ["account": "alice", "generation": .integer(next.generation)])
      #expect(error.reason == .scopeNotGranted)
      rig.demo.changeSettings { $0.refresh.narrowing = .honoured }
      try await rig.restart()
      #expect(try await rig.narrowed(scopes: ["email"]).generation == 6)
    }
  }

  @Test("with narrow_tokens = false a request for less gets the full token, and no other resource")
  func off() async throws {
    try await Rig.with(Wish { $0.provider = "narrow_tokens = false" }) { rig in
      try await rig.login()
      let whole = try await rig.token()
      #expect(try await rig.narrowed(scopes: ["email"]).access_token == whole.access_token)
      let error = try await rig.failure("token.get", ["account": "alice", "resource": .string(Self.files)])
      #expect(error.reason == .scopeNotGranted)
      #expect(rig.count(.tokenRefresh) == 0)
    }
  }

  @Test("a grant without a refresh token serves its one token for less too")
  func noRefreshToken() async throws {
    try await Rig.with { rig in
      try rig.demo.fault(.noRefreshToken, at: .tokenCode, times: 1)
      try await rig.login()
      let whole = try await rig.token()
      #expect(try await rig.narrowed(scopes: ["email"]).access_token == whole.access_token)
      #expect(
        try await rig.failure("token.get", ["account": "alice", "resource": .string(Self.files)]).reason
          == .scopeNotGranted)
      #expect(rig.count(.tokenRefresh) == 0)
    }
  }
}
