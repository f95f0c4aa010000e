import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("The provider's data about a user and a token")
struct UserInfoTests {
  @Test("UserInfo comes plain or signed, with the members as the provider wrote them", arguments: [false, true])
  func userInfo(isSigned: Bool) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings {
        $0.resource.userinfoSigned = isSigned
        $0.userinfoExtra = ["address": ["country": "IS"], "age": 41]
      }
      try await rig.login()
      let claims = try #require(try await rig.call("account.userinfo", ["account": "alice"])["claims"])
      #expect(claims["sub"]?.string == "sub-alice")
      #expect(claims["email"]?.string == "alice@demo.example")
      #expect(claims["address"]?["country"]?.string == "IS")
      #expect(claims["age"]?.integer == 41)
      let request = try #require(rig.demo.requests.last { $0.place == .userinfo })
      let token = try await rig.token().access_token
      #expect(request.headers["authorization"] == "Bearer \(token)")
    }
  }

  struct Wrong: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var reason = ErrorReason.providerError
    var prepare: @Sendable (DemoServer) throws -> Void

    static let all = [
      Wrong(testDescription: "another subject") { $0.changeSettings { $0.userinfoExtra = ["sub": "sub-bob"] } },
      Wrong(testDescription: "no subject") { $0.changeSettings { $0.userinfoExtra = ["sub": .null] } },
      Wrong(testDescription: "another subject, signed") {
        $0.changeSettings {
          $0.resource.userinfoSigned = true
          $0.userinfoExtra = ["sub": "sub-bob"]
        }
      },
      Wrong(testDescription: "a signature that is not the provider's") {
        $0.changeSettings { $0.resource.userinfoSigned = true }
        try $0.fault(.badSignature, at: .userinfo)
      },
      Wrong(testDescription: "unsigned") {
        $0.changeSettings { $0.resource.userinfoSigned = true }
        try $0.fault(.algNone, at: .userinfo)
      },
      Wrong(testDescription: "a web page at 200", reason: .temporarilyUnavailable) {
        try $0.fault(.html200, at: .userinfo)
      },
      Wrong(testDescription: "503", reason: .temporarilyUnavailable) { try $0.fault(.status, at: .userinfo) },
    ]
  }

  @Test("UserInfo that cannot belong to this user is refused, and the account is unchanged", arguments: Wrong.all)
  func wrong(_ wrong: Wrong) async throws {
    try await Rig.with { rig in
      try await rig.login()
      try wrong.prepare(rig.demo)
      let error = try await rig.failure("account.userinfo", ["account": "alice"])
      #expect(error.reason == wrong.reason, "\(error)")
      #expect(try await rig.account().state == .ok)
      #expect(try await rig.token().generation == 1)
    }
  }

  @Test("a 401 costs one refresh; the second request has the new token and returns the claims")
  func refusedOnce() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let first = try await rig.token().access_token
      try rig.demo.fault(.status, at: .userinfo, times: 1) { $0.status = 401 }
      let claims = try #require(try await rig.call("account.userinfo", ["account": "alice"])["claims"])
      #expect(claims["sub"]?.string == "sub-alice")
      #expect(rig.count(.tokenRefresh) == 1)
      let token = try await rig.token()
      #expect(token.generation == 2)
      #expect(
        rig.requests(.userinfo).map { $0.headers["authorization"] } == [
          "Bearer \(first)", "Bearer \(token.access_token)",
        ])
    }
  }

  @Test("a 401 each time costs no more than one refresh for each question; the error says what to do")
  func refusedAlways() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(.status, at: .userinfo) { $0.status = 401 }
      let error = try await rig.failure("account.userinfo", ["account": "alice"])
      #expect(error.reason == .providerError && error.message.contains("401"), "\(error)")
      #expect(error.hint?.contains("grantctl login demo alice") == true, "\(error)")
      #expect(rig.count(.tokenRefresh) == 1 && rig.count(.userinfo) == 2)
      #expect(try await rig.account().state == .ok)
      #expect(try await ResourceAnswer.get(rig.demo, token: try await rig.token().access_token).status == 200)
      for _ in 1...5 { _ = try await rig.failure("account.userinfo", ["account": "alice"]) }
      #expect(rig.count(.tokenRefresh) <= 6 && rig.count(.userinfo) <= 12)
      rig.demo.reset()
      // Who uses the account has had enough new tokens; who manages it gets one at once.
      _ = try await rig.call("account.refresh", ["account": "alice"])
      try await eventually("it works again") { (try? await rig.call("account.userinfo", ["account": "alice"])) != nil }
    }
  }

  @Test("a 401 without a refresh token requires a login, and reports it from then on")
  func refusedForGood() async throws {
    try await Rig.with { rig in
      try rig.demo.fault(.noRefreshToken, at: .tokenCode, times: 1)
      try await rig.login()
      try rig.demo.fault(.status, at: .userinfo, times: 1) { $0.status = 401 }
      for method in ["account.userinfo", "token.get"] {
        let error = try await rig.failure(method, ["account": "alice"])
        #expect(error.reason == .loginRequired && error.detail == "no_refresh_token", "\(method): \(error)")
        #expect(error.hint?.contains("grantctl login demo alice") == true, "\(method): \(error)")
      }
      #expect(try await rig.account().state == .loginRequired)
      #expect(rig.count(.userinfo) == 1 && rig.count(.tokenRefresh) == 0)
    }
  }

  @Test("introspection returns whether the token is active, and the provider's other members")
  func introspection() async throws {
    try await Rig.with { rig in
      try await rig.login()
      rig.demo.changeSettings { $0.introspectionExtra = ["ext": ["tier": "gold"]] }
      let answer = try await rig.call("token.introspect", ["account": "alice"])
      #expect(answer["active"]?.bool == true)
      #expect(answer["claims"]?["sub"]?.string == "sub-alice")
      #expect(answer["claims"]?["ext"]?["tier"]?.string == "gold")
      let request = try #require(rig.demo.requests.last { $0.place == .introspect })
      #expect(request.parameters["token_type_hint"] == "access_token")
      try rig.demo.revoke(user: "alice")
      #expect(try await rig.call("token.introspect", ["account": "alice"])["active"]?.bool == false)
    }
  }

  @Test("“active” must be true or false: neither a text nor its absence is accepted")
  func activeText() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(.activeString, at: .introspect, times: 1)
      let error = try await rig.failure("token.introspect", ["account": "alice"])
      #expect(error.reason == .providerError)
      #expect(error.message.contains("active"))
      rig.demo.changeSettings { $0.introspectionExtra = ["active": .null] }
      #expect(try await rig.failure("token.introspect", ["account": "alice"]).reason == .providerError)
    }
  }

  @Test("without the endpoint the error comes at once and names its key of the configuration")
  func without() async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings {
        $0.metadata.oidc = .bare
        $0.metadata.oauth = .bare
      }
      try await rig.login()
      let endpoints = ["account.userinfo": "userinfo_endpoint", "token.introspect": "introspection_endpoint"]
      for (method, key) in endpoints {
        let error = try await rig.failure(method, ["account": "alice"])
        #expect(error.reason == .unsupportedByProvider)
        #expect(error.hint?.contains(key) == true, "\(error)")
      }
    }
  }
}
