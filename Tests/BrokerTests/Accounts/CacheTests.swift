import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// The fast path says what the comfortable road says, or leaves it to that.
@Suite(.scheduled) struct CacheTests {
  private func bytes(_ reply: CachedReply) -> String {
    String(decoding: reply.body.head + (reply.expiresIn.map { "\($0)" } ?? "").utf8 + reply.body.tail, as: UTF8.self)
  }

  private func comfortable(_ rig: Rig, minTTL: Double? = nil) async throws -> String {
    let params = JSON(encoding: TokenGet.Params(account: "work", min_ttl: minTTL))
    let request = RPCRequest(method: TokenGet.name, params: params, isNotification: false)
    let result = try await rig.router.respond(to: request, session: FakeSession(.root)).get()
    return String(decoding: result.serialized(), as: UTF8.self)
  }

  @Test("Both roads answer with the same bytes", arguments: [Duration.seconds(3600), .seconds(31), nil])
  func bothRoadsAnswerWithTheSameBytes(_ lifetime: Duration?) async throws {
    let store = MemoryStore()
    try await store.signIn("work", lifetime: lifetime)
    let rig = try await Rig(store: store)
    rig.clock.advance(.milliseconds(500))
    let reply = try #require(rig.cached("work"))
    #expect(try await comfortable(rig) == bytes(reply))
  }

  @Test("The cache answers exactly where the grant would hand the same token out, for each moment and min_ttl")
  func theCacheAnswersExactlyWhereTheGrant()
    async throws
  {
    let policy = RefreshPolicy()
    for lifetime in [1, 40, 100, 3600] {
      let store = MemoryStore()
      try await store.signIn("work", lifetime: .seconds(lifetime))
      let rig = try await Rig(store: store)
      let grant = Grant(saved: store.grant("work")!, token: store.token("work"), jitter: 0)
      for step in 0..<40 {
        for minTTL in [nil, 0, 1, 29, 30, 31, 90, 3240, 3600, 1_000_000_000_000] as [Int64?] {
          let answer = grant.answer(
            minimumTTL: minTTL.map { .seconds(min($0, 1_000_000_000)) }, at: rig.clock.now, policy: policy)
          let isServed = if case .token = answer { true } else { false }
          #expect((rig.cached("work", minTTL: minTTL) != nil) == isServed, "\(lifetime) \(step) \(minTTL ?? -1)")
        }
        rig.clock.advance(.milliseconds(lifetime * 1000 / 38))
      }
    }
  }

  @Test(
    "Scopes equal to those of the cached token are answered from the cache, others are not", arguments: [true, false])
  func scopes(narrows: Bool) async throws {
    let store = MemoryStore()
    try await store.signIn("work", scopes: ["read", "write"])
    let token = try #require(store.token("work"))
    let rig = try await Rig(
      store: store,
      configuration: .plain([OAuthProvider(.plain("example") { $0.refresh.narrowing = narrows ? .verified : .never })]))
    let texts = [
      "[]", #"["read","write"]"#, #"[ "write" , "read" ]"#, #"["read"]"#, #"["read","read"]"#, #"["delete"]"#,
      #"["read","delete"]"#,
    ]
    for text in texts {
      let wanted = try JSON.parse(Array(text.utf8)).decode([String].self)
      let before = rig.transport.count(.token)
      let isCached = rig.cached("work", scopes: text) != nil
      let answer = try? await rig.call(TokenGet.self, .init(account: "work", scopes: wanted))
      let isSame = answer?.access_token == token.accessToken.exposed && rig.transport.count(.token) == before
      #expect(isCached == isSame, "\(text)")
    }
  }

  @Test("A request past the cache renders nothing again if nothing changed") func servedOnce()
    async throws
  {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    _ = try await comfortable(rig)
    let body = try #require(rig.cached("work")).body
    for _ in 0..<3 { _ = try await comfortable(rig) }
    #expect(rig.cached("work")?.body === body)
  }

  @Test("A request that the policy refuses is left to the router, which gives the reason")
  func whatThePolicyDoesNotAllowIs()
    async throws
  {
    let store = MemoryStore()
    try await store.signIn("work")
    let rules = [
      Rule(name: "a", uid: 1000, gid: nil, accounts: ["wo*"], access: [.use]),
      Rule(name: "b", uid: 1001, gid: nil, accounts: ["*"], access: [.observe, .login, .manage]),
    ]
    let rig = try await Rig(store: store, configuration: .plain(rules: rules))
    #expect(rig.cached("work", as: .user(1000)) != nil)
    #expect(rig.cached("work", as: .user(1001)) == nil)
    #expect(rig.cached("work", as: .user(1002)) == nil)
    #expect(rig.cached("nobody") == nil)
  }

  @Test("After the end nothing comes out of it") func afterTheEndNothingComesOutOf() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    await rig.broker.drain(until: rig.clock.elapsed)
    #expect(rig.cached("work") == nil)
  }
}
