import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A refresh of the account's own token that returns fewer scopes than were granted.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct LostScopesTests {
  private static let scopes = ["read", "write"]

  private func rig(
    _ answered: String?, _ change: (inout ProviderSettings) -> Void = { _ in }
  ) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(4000), scopes: Self.scopes)
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(.plain("example", change))]))
    answer(rig, answered)
    return rig
  }

  private func answer(_ rig: Rig, _ scope: String?) {
    let told = scope.map { #","scope":"\#($0)""# } ?? ""
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"fresh","token_type":"Bearer","expires_in":3600,"refresh_token":"next"\#(told)}"#)
    }
  }

  private func refresh(_ rig: Rig) async throws {
    _ = try await rig.call(AccountRefresh.self, .init(account: "work"))
  }

  @Test("the account keeps its granted scopes, and its view names the scopes that the token lost")
  func lost() async throws {
    let rig = try await rig("read")
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(), on: session)
    #expect(try await rig.token("work").scope == ["read"])
    let view = try await rig.view("work")
    #expect(view.scopes == ["read"] && view.lost_scopes == ["write"] && view.state == .ok)
    #expect(rig.store.grant("work")?.grantedScopes == Self.scopes)
    #expect(await eventually { session.types.count { $0 == "account.scopes_lost" } == 1 })
    try await refresh(rig)
    await settle()
    #expect(session.types.count { $0 == "account.scopes_lost" } == 1)
    #expect(
      await rig.reason { try await rig.call(TokenGet.self, .init(account: "work", scopes: ["write"])) }
        == .scopeNotGranted)
    answer(rig, "read write")
    try await refresh(rig)
    #expect(try await rig.view("work").lost_scopes == nil)
    #expect(try await rig.token("work").scope == Self.scopes)
  }

  @Test("with refresh_scope each refresh asks for the granted scopes, even after some were lost")
  func refreshScope() async throws {
    let rig = try await rig("read") { $0.refresh.sendsScope = true }
    _ = try await rig.token("work")
    try await refresh(rig)
    #expect(rig.transport.requests(.token).map { $0.form["scope"] } == ["read+write", "read+write"])
    let plain = try await self.rig("read")
    _ = try await plain.token("work")
    #expect(plain.transport.requests(.token).map { $0.form["scope"] } == [nil])
  }

  @Test("scopes that the provider refuses are not requested again, with refresh_scope too", arguments: [false, true])
  func refused(always: Bool) async throws {
    let rig = try await rig("read") { $0.refresh.sendsScope = always }
    _ = try await rig.token("work")
    rig.transport.answer(.token) { request in
      if request.form["scope"] == "read+write" { return reply(#"{"error":"invalid_scope"}"#, status: 400) }
      return reply(
        #"{"access_token":"fresh","token_type":"Bearer","expires_in":3600,"refresh_token":"next","scope":"read"}"#)
    }
    for _ in 0..<2 { try await refresh(rig) }
    let rest: String? = always ? "read" : nil
    #expect(rig.transport.requests(.token).map { $0.form["scope"] }.dropFirst() == ["read+write", rest, rest])
    #expect(try await rig.view("work").state == .ok)
  }

  @Test("a provider that returns no scope leaves them as they were, and marks them as unverified")
  func unverified() async throws {
    let rig = try await rig("read")
    _ = try await rig.token("work")
    #expect(try await rig.view("work").scopes_unverified == nil)
    answer(rig, nil)
    try await refresh(rig)
    let view = try await rig.view("work")
    #expect(view.scopes_unverified == true && view.lost_scopes == ["write"])
  }
}
