import Broker
import Foundation
import Grants
import OAuth
import SQLite
import Testing

@testable import SQLiteStore
@testable import StoreRows

@Suite("Accounts that are read in pages") struct PackedRowsTests {
  private let folder = TemporaryFolder()

  private func pages(_ store: SQLiteStore, of size: Int) async throws -> [any PackedAccount] {
    var all: [any PackedAccount] = []
    var page = try await store.accounts(after: nil, most: size)
    while let last = page.last {
      all += page
      page = try await store.accounts(after: last.account, most: size)
    }
    return all
  }

  @Test("are those committed, with their tokens and intents", arguments: [1, 2, 3, 4096])
  func whole(_ size: Int) async throws {
    try await folder.fill(Sample.everything)
    let store = try folder.open()
    let found = try await pages(store, of: size)
    #expect(try found.map { try sorted($0.read(.whole)) } == Sample.state.accounts.map(sorted))
    #expect(try await store.countAccounts() == found.count)
    let rest = try await store.loadRest()
    #expect(rest.grants.isEmpty && rest.tokens.isEmpty && rest.intents.isEmpty)
    #expect(rest.logins == Sample.state.logins && rest.values == Sample.state.values)
    // Packed again, they are the same.
    for account in Sample.state.accounts {
      #expect(try sorted(store.pack(account).read(.whole)) == sorted(account))
      #expect(store.pack(account) is PackedRows)
    }
    await store.close()
  }

  @Test("have no secret before they are read completely, and know their due time without it")
  func depths() async throws {
    try await folder.fill(Sample.everything)
    let store = try folder.open()
    for account in try await pages(store, of: 4096) {
      let (whole, facts, moments) = try (account.read(.whole), account.read(.facts), account.read(.moments))
      for less in [facts, moments] {
        let secrets = [
          \StoredAccount.grant.refreshToken, \.grant.previousRefreshToken, \.grant.idToken, \.grant.dpopKey,
        ]
        for secret in secrets {
          #expect((less[keyPath: secret] == nil) == (whole[keyPath: secret] == nil))
          #expect(less[keyPath: secret]?.isEmpty ?? true)
        }
        #expect(less.tokens.allSatisfy { $0.accessToken.isEmpty })
        #expect(less.grant.standing == whole.grant.standing && less.intent == whole.intent)
        #expect(less.tokens.map(\.expiresAt) == whole.tokens.map(\.expiresAt))
        let times = [\SavedGrant.refreshTokenExpiresAt, \.refreshTokenIssuedAt, \.expiryAnnouncedAt]
        #expect(times.allSatisfy { less.grant[keyPath: $0] == whole.grant[keyPath: $0] })
        #expect(less.grant.createdAt == whole.grant.createdAt && less.grant.loggedInAt == whole.grant.loggedInAt)
        #expect(less.grant.generation == whole.grant.generation && less.grant.kind == whole.grant.kind)
        #expect(less.tokens.map(\.issuedAt) == whole.tokens.map(\.issuedAt))
        #expect(less.tokens.map(\.key) == whole.tokens.map(\.key))
        #expect(less.grant.identity?.subject == whole.grant.identity?.subject)
      }
      #expect(facts.grant.identity == whole.grant.identity && facts.grant.grantedScopes == whole.grant.grantedScopes)
    }
    await store.close()
  }

  @Test(
    "A subject is found as the whole of the JSON would have it",
    arguments: [
      "jane", "", "a\"b", #"x","subject":"evil"#, #"\"#, "é😀", "tab\t",
    ])
  func subject(_ subject: String) throws {
    for name in [nil, #"","subject":"other"#, #"\","subject":"other"#] {
      let identity = Identity(subject: subject, email: "a@b", name: name)
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
      let text = String(decoding: try encoder.encode(identity), as: UTF8.self)
      let found = SubjectText.find(in: Array(text.utf8))
      #expect(found == subject || found == nil && text.contains("\\"), "\(text)")
    }
  }

  @Test("One that was damaged is refused when it is read whole; the others are not")
  func damaged() async throws {
    try await folder.fill([
      .putGrant(Sample.grant("a", refresh: "refresh-token-of-a")),
      .putGrant(Sample.grant("b", refresh: "refresh-token-of-b")),
    ])
    let database = try SQLiteConnection(path: folder.database)
    try database.write {
      try $0.execute(
        "UPDATE grants SET refresh_token = (SELECT refresh_token FROM grants WHERE account = 'b') WHERE account = 'a'"
      )
    }
    try database.close()
    let store = try folder.open()
    let found = try await pages(store, of: 10)
    let error = #expect(throws: StoreError.self) { try found[0].read(.whole) }
    #expect(error?.message.hasPrefix("what is saved of account a cannot be read") == true)
    #expect(try found[0].read(.remains).grant.account.rawValue == "a")
    #expect(try found[1].read(.whole).grant.refreshToken == Secret("refresh-token-of-b"))
    // A new database has both, the damaged one as it was; what was there is put aside.
    try await store.rebuild(from: StoredState(), accounts: found)
    let anew = try await store.load()
    #expect(anew.accounts.map(\.grant.refreshToken) == [Secret("refresh-token-of-b")])
    #expect(anew.setAside.map(\.name) == [.account(Sample.account("a"))])
    #expect(try !folder.aside().isEmpty)
    await store.close()
  }

  @Test("A damaged row leaves its readable columns and its refresh token")
  func remains() async throws {
    try await folder.fill([.putGrant(Sample.fullGrant("a")), .putToken(Sample.token("a"))])
    let database = try SQLiteConnection(path: folder.database)
    try database.use { try $0.execute("UPDATE grants SET standing = 'gone', created_at = 5, granted_scopes = 'x'") }
    try database.close()
    let store = try folder.open()
    let found = try await pages(store, of: 10)
    for depth in [AccountDepth.moments, .facts, .whole] {
      #expect(throws: StoreError.self) { try found[0].read(depth) }
    }
    let rest = try found[0].read(.remains).grant
    #expect(rest.provider == Sample.provider("op") && rest.identity == Sample.identity && rest.refreshToken == nil)
    let saved = try #require(try await store.salvage(Sample.account("a")))
    #expect(saved.refreshToken == Secret("refresh-of-a") && saved.dpopKey == Secret("dpop-key-of-a"))
    #expect(saved.refreshTokenExpiresAt == nil && saved.standing == .good && saved.createdAt == Sample.time(5))
    await store.close()
  }

  @Test("Damaged tokens and intents are left out; of a grant without a refresh token nothing is left")
  func parts() async throws {
    try await folder.fill([
      .putGrant(Sample.grant("a", refresh: "r")), .putToken(Sample.token("a")),
      .putToken(Sample.token("a", scope: "b")),
      .putIntent(Sample.intent("a")), .putGrant(Sample.grant("b")), .putToken(Sample.token("b")),
    ])
    let database = try SQLiteConnection(path: folder.database)
    try database.use {
      try $0.execute(
        "UPDATE tokens SET access_token = x'00' WHERE scope = ''; UPDATE refresh_intents SET attempts = attempts * 0.5")
    }
    try database.close()
    let store = try folder.open()
    let found = try await pages(store, of: 10)
    let account = try found[0].read(.whole)
    #expect(account.tokens.map(\.key.scope) == ["b"] && account.leftOut.count == 2)
    #expect(throws: StoreError.self) { try found[1].read(.whole) }
    await store.close()
  }

  @Test("A row without a name of an account is passed over, named and removed")
  func unnamed() async throws {
    try await folder.fill((0..<6).map { .putGrant(Sample.grant("u\($0)", refresh: "r")) })
    let database = try SQLiteConnection(path: folder.database)
    try database.use { try $0.execute("UPDATE grants SET account = account || ' x' WHERE account >= 'u3'") }
    try database.close()
    let store = try folder.open()
    #expect(try await pages(store, of: 2).map(\.account.rawValue) == ["u0", "u1", "u2"])
    let rows = store.setAside
    #expect(rows.count == 3 && rows.allSatisfy { $0.account == nil && $0.table == "grants" })
    for row in rows { #expect(try await store.discard(row.name)) }
    #expect(store.setAside.isEmpty)
    #expect(try await !store.discard(.row(table: "grants", number: 1)))
    #expect(try await store.load().grants.count == 3)
    await store.close()
  }

  @Test("A new database has them all")
  func rebuilt() async throws {
    try await folder.fill(Sample.everything)
    let store = try folder.open()
    let found = try await pages(store, of: 4096)
    var rest = StoredState()
    rest.values = ["x": "1"]
    try await store.rebuild(from: rest, accounts: found)
    #expect(try await store.load().accounts.map(sorted) == Sample.state.accounts.map(sorted))
    #expect(try await store.load().values == ["x": "1"])
    await store.close()
  }

  private func sorted(_ account: StoredAccount) -> StoredAccount {
    var account = account
    account.tokens.sort { ($0.key.scope, $0.key.resource) < ($1.key.scope, $1.key.resource) }
    return account
  }
}
