import BrokerAPI
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// Which resources (RFC 8707) a rule lets a caller request tokens for.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ResourceCapTests {
  private static let files = "https://files.example/"
  private static let mail = "https://mail.example/"

  private func reason(_ rules: [Rule], _ resource: String, as caller: Caller = .user(1000)) async throws -> ErrorReason?
  {
    let store = MemoryStore()
    try await store.signIn("work", scopes: ["read", "write"])
    let rig = try await Rig(
      store: store, configuration: .plain([OAuthProvider(.plain { $0.refresh.narrowing = .verified })], rules: rules))
    return await rig.reason {
      try await rig.call(TokenGet.self, .init(account: "work", scopes: ["read"], resource: resource), as: caller)
    }
  }

  private func rule(scopes: Set<String>? = nil, resources: Set<String>? = nil) -> Rule {
    Rule(
      name: "r", who: .init(uid: 1000), accounts: ["work"], access: [.use], scopes: scopes, resources: resources)
  }

  @Test("any without a cap; with one, only the resources that the rules name")
  func caps() async throws {
    #expect(try await reason([rule()], Self.files) == nil)
    #expect(try await reason([rule(scopes: ["read"])], Self.files) == .notPermitted)
    #expect(try await reason([rule(scopes: ["read"], resources: [Self.files])], Self.files) == nil)
    #expect(try await reason([rule(scopes: ["read"], resources: [Self.files])], Self.mail) == .notPermitted)
    #expect(try await reason([rule(resources: [Self.files])], Self.mail) == .notPermitted)
    #expect(try await reason([rule(resources: [Self.files])], Self.files) == nil)
    #expect(try await reason([rule(resources: [Self.files]), rule(resources: [Self.mail])], Self.mail) == nil)
    #expect(try await reason([rule(scopes: ["read"]), rule()], Self.mail) == nil)
    #expect(try await reason([rule(resources: [])], Self.mail, as: .root) == nil)
  }
}
