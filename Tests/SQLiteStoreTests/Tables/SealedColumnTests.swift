import Broker
import Foundation
import Grants
import OAuth
import SQLite
import SQLiteStore
import Testing

@Suite("Sealed columns")
struct SealedColumnTests {
  let folder = TemporaryFolder()

  @Test(
    "that were swapped, moved, copied or changed are set aside, and the file stays unchanged",
    arguments: [
      "UPDATE grants SET refresh_token = (SELECT refresh_token FROM grants WHERE account = 'b') WHERE account = 'a'",
      "UPDATE grants SET refresh_token = id_token WHERE account = 'a'",
      "UPDATE grants SET previous_refresh_token = refresh_token WHERE account = 'a'",
      "UPDATE grants SET extra = (SELECT access_token FROM tokens LIMIT 1) WHERE account = 'a'",
      "UPDATE grants SET provider = 'attacker' WHERE account = 'a'",
      "UPDATE tokens SET scope = 'more' WHERE account = 'a'",
      "UPDATE tokens SET access_token = (SELECT access_token FROM tokens WHERE account = 'b') WHERE account = 'a'",
      "UPDATE logins SET provider = 'attacker'",
      "UPDATE logins SET account = 'b'",
      "UPDATE logins SET nonce = state",
      "UPDATE revocations SET provider = 'attacker'",
      "UPDATE tokens SET access_token = x'01' WHERE account = 'a'",
      "UPDATE tokens SET access_token = x'' WHERE account = 'a'",
      "UPDATE tokens SET access_token = CAST(access_token || x'00' AS BLOB) WHERE account = 'a'",
      "UPDATE grants SET standing = 'failing' WHERE account = 'a'",
      "UPDATE grants SET standing_detail = '{' WHERE account = 'a'",
      "UPDATE grants SET account = 'no name' WHERE account = 'b'; DELETE FROM tokens WHERE account = 'b'",
      "UPDATE grants SET standing = 'gone' WHERE account = 'a'", "UPDATE grants SET identity = '{' WHERE account = 'a'",
      "UPDATE grants SET kind = 'none' WHERE account = 'a'", "UPDATE tokens SET reports = '{' WHERE account = 'a'",
      "UPDATE refresh_intents SET attempts = -9223372036854775808; UPDATE refresh_intents SET account = 'no name'",
      "UPDATE registrations SET issuer = 'none'", "UPDATE tokens SET expires_at = expires_at + 1 WHERE account = 'a'",
      "UPDATE registrations SET detail = x'00'",
      "UPDATE logins SET uid = -1",
    ])
  func tampered(sql: String) async throws {
    try await folder.fill([
      .putGrant(Sample.fullGrant("a")), .putGrant(Sample.fullGrant("b")), .putToken(Sample.token("a")),
      .putToken(Sample.token("b")), .putLogin(Sample.login("l", full: true)), .putRevocation(Sample.revocation("r")),
      .putIntent(Sample.intent("a")), .putRegistration(Sample.registration("op", full: true)),
    ])
    let database = try SQLiteConnection(path: folder.database)
    try database.use { try $0.execute("PRAGMA foreign_keys = OFF; \(sql)") }
    try database.close()
    // A row of tokens goes with that of its account.
    try await expectDamage(of: sql.contains("grants SET") ? "grants" : nil, others: 6)
  }

  @Test(
    "Each column of each table is bound to its row",
    arguments: ["grants", "tokens", "refresh_intents", "logins", "revocations", "registrations", "settings"])
  func everyColumn(table: String) async throws {
    try await folder.fill([
      .putGrant(Sample.fullGrant("full")), .putToken(Sample.token("full")), .putIntent(Sample.intent("full")),
      .putLogin(Sample.login("l", full: true)), .putRevocation(Sample.revocation("r")),
      .putRegistration(Sample.registration("op", full: true)), .putValue("name", "value"),
    ])
    let clean = try folder.contents(folder.database)
    var database = try SQLiteConnection(path: folder.database)
    let columns = try database.read { try $0.rows("PRAGMA table_info(\(table))") }
      .map { (name: $0["name"].text ?? "", type: $0["type"].text, isRequired: $0["notnull"].integer == 1) }
    try database.close()
    for column in columns {
      // Valid values: a time, a number, a name or a list of scopes like another; NULL if that is allowed.
      var changes = [column.type == "INTEGER" ? "1" : column.type == "BLOB" ? "x'01'" : "'other'"]
      if !column.isRequired, column.name != "code" { changes.append("NULL") }
      for change in changes {
        try folder.write(clean, to: folder.database)
        database = try SQLiteConnection(path: folder.database)
        let isChanged = try database.use { db in
          try db.execute("PRAGMA foreign_keys = OFF")
          try db.execute("UPDATE \(table) SET \(column.name) = \(change) WHERE \(column.name) IS NOT \(change)")
          return db.changes > 0
        }
        try database.close()
        guard isChanged else { continue }
        let store = try folder.open()
        let state = try await store.load()
        #expect(state.setAside.contains { $0.table == table }, "\(table).\(column.name) = \(change)")
        await store.close()
      }
    }
  }

  @Test("with any one byte changed are refused", arguments: [0, 1, 4, 5, 16, 17, 20, -1])
  func flipped(offset: Int) async throws {
    try await folder.fill([.putGrant(Sample.grant("a", refresh: "refresh-token-of-a"))])
    let database = try SQLiteConnection(path: folder.database)
    let sealed = try #require(
      try database.read { try $0.value("SELECT refresh_token FROM grants")?.blob })
    try database.close()
    var contents = try folder.contents(folder.database)
    let range = try #require(contents.range(of: sealed))
    contents[offset < 0 ? range.upperBound + offset : range.lowerBound + offset] ^= 0x10
    try folder.write(contents, to: folder.database)
    try await expectDamage(of: "grants", others: 0)
  }

  /// - Parameter others: how many rows can be read at least.
  private func expectDamage(of table: String?, others: Int) async throws {
    let before = try folder.contents(folder.database)
    let store = try folder.open()
    let state = try await store.load()
    #expect(!state.setAside.isEmpty && state.setAside.allSatisfy { $0.detail.contains("table \($0.table)") })
    if let table { #expect(state.setAside.map(\.table) == [table]) }
    let read = [
      state.grants.count, state.tokens.count, state.intents.count, state.logins.count, state.revocations.count,
      state.registrations.count,
    ].reduce(0, +)
    #expect(read >= others - 1)
    await store.close()
    #expect(try folder.contents(folder.database) == before)
  }

  @Test("show no secret in any file, open or closed")
  func nothingInTheClear() async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    try expectNoSecrets()
    try await store.commit([.removeGrant(Sample.account("full"))])
    try expectNoSecrets()
    await store.close()
    try expectNoSecrets()
  }

  private func expectNoSecrets() throws {
    for file in try FileManager.default.contentsOfDirectory(atPath: folder.state) {
      let contents = try folder.contents("\(folder.state)/\(file)")
      for secret in ["refresh-of-", "previous-of-", "id-of-", "extra-of-", "access-of-", "state-of-", "nonce-of-"] {
        #expect(contents.range(of: Data(secret.utf8)) == nil, "\(secret) in \(file)")
      }
      #expect(contents.range(of: Data("verifier-of-".utf8)) == nil)
      #expect(contents.range(of: Data("revoked-of-".utf8)) == nil)
    }
  }

  @Test("are different each time they are sealed")
  func freshNonces() async throws {
    func sealed() async throws -> Data? {
      try await folder.fill([.putGrant(Sample.grant("a", refresh: "the same"))])
      let database = try SQLiteConnection(path: folder.database)
      defer { try? database.close() }
      return try database.read { try $0.value("SELECT refresh_token FROM grants")?.blob }
    }
    #expect(try await sealed() != sealed())
  }

  @Test("are sealed again when the key changes, and the old key opens nothing")
  func rotation() async throws {
    try await folder.fill(Sample.everything)
    let old = try folder.contents(folder.database)
    let rotated = try SQLiteStore.open(folder: folder.state, key: Sample.otherKey, previousKeys: [Sample.key])
    #expect(try await rotated.load() == Sample.state)
    await rotated.close()
    #expect(try folder.contents(folder.database) != old)
    #expect(throws: StoreError.wrongKey(path: folder.database, keySource: "test")) { try folder.open() }
    // The previous key may stay configured.
    let again = try SQLiteStore.open(folder: folder.state, key: Sample.otherKey, previousKeys: [Sample.key])
    #expect(try await again.load() == Sample.state)
    await again.close()
  }
}
