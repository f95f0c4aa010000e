import Broker
import Foundation
import Grants
import OAuth
import SQLite
import Testing

@testable import SQLiteStore

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

  @Test("are those that were committed, with their tokens and intents", arguments: [1, 2, 3, 4096])
  func whole(_ size: Int) async throws {
    try await folder.fill(Sample.everything)
    let store = try folder.open()
    let found = try await pages(store, of: size)
    #expect(try found.map { try sorted($0.read(.whole)) } == Sample.state.accounts.map(sorted))
    #expect(try await store.countAccounts() == found.count)
    let rest = try await store.loadRest()
    #expect(rest.grants.isEmpty && rest.tokens.isEmpty && rest.intents.isEmpty)
    #expect(rest.logins == Sample.state.logins && rest.values == Sample.state.values)
    // Packed anew, they are the same.
    for account in Sample.state.accounts {
      #expect(try sorted(store.pack(account).read(.whole)) == sorted(account))
      #expect(store.pack(account) is PackedRows)
    }
    await store.close()
  }

  @Test("have no secret before they are read whole, and say what is due without")
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
    let database = try Connection(path: folder.database)
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
    #expect(try found[0].read(.facts).grant.account.rawValue == "a")
    #expect(try found[1].read(.whole).grant.refreshToken == Secret("refresh-token-of-b"))
    // A new database has both, and says what is the matter with one; what was there is put aside.
    try await store.rebuild(from: StoredState(), accounts: found)
    let anew = try await store.load().accounts.map(\.grant)
    #expect(anew.map(\.refreshToken) == [nil, Secret("refresh-token-of-b")])
    guard case .loginRequired(.unreadable, let failure)? = anew.first?.standing else {
      Issue.record("\(anew)")
      return
    }
    #expect(failure.message == error?.message)
    #expect(try !folder.aside().isEmpty)
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
