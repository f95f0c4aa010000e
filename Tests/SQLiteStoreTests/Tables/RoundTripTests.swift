import Broker
import Foundation
import Grants
import OAuth
import SQLiteStore
import Testing

@Suite("Committed data exist after a restart")
struct RoundTripTests {
  let folder = TemporaryFolder()

  @Test("a new store is empty")
  func newStoreIsEmpty() async throws {
    let store = try folder.open()
    #expect(try await store.load() == StoredState())
    #expect(store.location == folder.database)
    await store.close()
  }

  @Test("every value is read as it was written, full and minimal, before and after a restart")
  func everyValueComesBack() async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    #expect(try await store.load() == Sample.state)
    await store.close()
    let again = try folder.open()
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  @Test("put replaces the whole value and leaves what refers to it")
  func putReplaces() async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    try await store.commit([
      .putGrant(Sample.grant("full", generation: 2)), .putToken(Sample.token("full", generation: 9)),
      .putValue("empty", "no longer"),
    ])
    let state = try await store.load()
    #expect(state.grants.filter { $0.account.rawValue == "full" } == [Sample.grant("full", generation: 2)])
    #expect(state.tokens.filter { $0.account.rawValue == "full" }.map(\.generation) == [9, 1])
    #expect(state.intents == [Sample.intent("full")])
    #expect(state.values["empty"] == "no longer")
    await store.close()
  }

  @Test(
    "each removal removes only its own row",
    arguments: [
      (.removeGrant(Sample.account("full")), [5, 1, 0, 2, 1]),
      (.removeTokens(Sample.account("full")), [6, 1, 1, 2, 1]),
      (.removeToken(Sample.account("full"), SavedToken.Key()), [6, 2, 1, 2, 1]),
      (.removeToken(Sample.account("full"), SavedToken.Key(scope: "none such")), [6, 3, 1, 2, 1]),
      (.removeIntent(Sample.account("full")), [6, 3, 0, 2, 1]),
      (.removeLogin(Sample.login("l1")), [6, 3, 1, 1, 1]),
      (.removeRevocation("r1"), [6, 3, 1, 2, 0]),
      (.removeGrant(Sample.account("nobody")), [6, 3, 1, 2, 1]),
    ] as [(Change, [Int])])
  func removes(change: Change, counts: [Int]) async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    try await store.commit([change])
    let state = try await store.load()
    let found = [
      state.grants.count, state.tokens.count, state.intents.count, state.logins.count, state.revocations.count,
    ]
    #expect(found == counts)
    await store.close()
  }

  @Test("a token for an audience, and the audience of a grant, are read again, and are removed separately")
  func audiences() async throws {
    let store = try folder.open()
    var grant = Sample.grant("full")
    grant.audience = "https://api.example.com"
    var token = Sample.token("full", generation: 8)
    token.key = SavedToken.Key(audience: TokenAudience("https://b.example.com", .exchange))
    try await store.commit(Sample.everything + [.putGrant(grant), .putToken(token)])
    await store.close()
    let again = try folder.open()
    var state = try await again.load()
    #expect(state.grants.first { $0.account.rawValue == "full" } == grant)
    #expect(state.tokens.contains(token) && state.tokens.count == 4)
    try await again.commit([.removeToken(Sample.account("full"), token.key)])
    state = try await again.load()
    #expect(!state.tokens.contains(token) && state.tokens.count == 3)
    await again.close()
  }

  @Test("a NUL in a plain text is shown, and its row still opens")
  func textsWithNUL() async throws {
    let store = try folder.open()
    var token = Sample.token("a", scope: "x\0y")
    token.type = "Bea\0rer"
    try await store.commit([.putGrant(Sample.grant("a")), .putToken(token)])
    let loaded = try #require(try await store.load().tokens.first)
    #expect(loaded.key.scope == "x\u{2400}y")
    #expect(loaded.type == "Bea\u{2400}rer")
    #expect(loaded.accessToken == token.accessToken)
    await store.close()
  }

  @Test("a thousand accounts load in a moment")
  func thousandAccounts() async throws {
    let changes = (0..<1000).flatMap { number -> [Change] in
      [.putGrant(Sample.fullGrant("a\(number)")), .putToken(Sample.token("a\(number)", access: longToken))]
    }
    try await folder.fill(changes)
    let clock = ContinuousClock()
    let start = clock.now
    let store = try folder.open()
    let opened = clock.now
    #expect(try await store.load().tokens.count == 1000)
    // Generous: a busy machine, an unoptimised build.
    #expect(clock.now - start < .seconds(60))
    print("1,000 accounts: opened in \(opened - start), loaded in \(clock.now - opened)")
    await store.close()
  }

  private let longToken = String(repeating: "eyJhbGciOiJSUzI1NiJ9", count: 60)
}
