import Broker
import Foundation
import Grants
import SQLite
import Testing

@testable import SQLiteStore

@Suite("A store of schema version 1", .serialized, .timeLimit(.minutes(5)))
struct MigrationTests {
  let folder = TemporaryFolder()

  /// As that version wrote it.
  private func makeVersion1() throws {
    let dump = (#filePath as NSString).deletingLastPathComponent + "/../../Support/Stores/v1.sql"
    try FileManager.default.createDirectory(
      atPath: folder.state, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    let database = try SQLiteConnection(path: folder.database)
    try database.use { try $0.execute(String(contentsOfFile: dump, encoding: .utf8)) }
    try database.close()
  }

  private func version() throws -> Int64? {
    let database = try SQLiteConnection(path: folder.database)
    defer { try? database.close() }
    return try database.read { try $0.value("PRAGMA user_version")?.integer }
  }

  @Test("each version has other tables or columns than the others")
  func tablesOfVersions() throws {
    for version in 1...SQLiteSchema.version {
      let database = try SQLiteConnection(path: ":memory:")
      try SQLiteSchema.migrate(database, to: version)
      #expect(try database.read { try SQLiteSchema.version(ofTablesIn: $0) } == version)
    }
  }

  /// What it holds: what later versions added is unknown.
  private var state: StoredState {
    var state = Sample.state
    for index in state.grants.indices {
      state.grants[index].refreshTokenIssuedAt = nil
      state.grants[index].expiryAnnouncedAt = nil
    }
    return asItWas(state)
  }

  /// What later versions added is as it always was.
  private func asItWas(_ state: StoredState) -> StoredState {
    var state = state
    state.grants.removeAll(where: \.isRefusedOnce)
    for index in state.grants.indices {
      state.grants[index].kind = .authorizationCode
      state.grants[index].dpopKey = nil
      state.grants[index].sourceFingerprint = nil
    }
    for index in state.logins.indices {
      state.logins[index].dpopKey = nil
      state.logins[index].device = nil
      state.logins[index].memory = [:]
      state.logins[index].action = nil
      state.logins[index].exchangesCode = true
      state.logins[index].offered = nil
      state.logins[index].opened = nil
      state.logins[index].browserUID = nil
      state.logins[index].link = nil
    }
    for index in state.revocations.indices { state.revocations[index].context = [:] }
    state.registrations = []
    return state
  }

  @Test("is taken over with every value, and takes new ones")
  func takenOver() async throws {
    try makeVersion1()
    let store = try folder.open()
    #expect(try await store.load() == state)
    try await store.commit(Sample.everything)
    #expect(try await store.load() == Sample.state)
    await store.close()
    #expect(try version() == 7)
    let again = try folder.open()
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  @Test("is complete, and of version 1, if the process ends during its migration")
  func endsWithin() async throws {
    try makeVersion1()
    let migrating = try Fixture("die-migrating", folder)
    #expect(migrating.wait() == SIGKILL)
    #expect(try version() == 1)
    let columns = try SQLiteConnection(path: folder.database).read {
      try $0.rows("SELECT name FROM pragma_table_info('grants')").compactMap { $0[0].text }
    }
    #expect(!columns.contains("refresh_token_issued_at"))
    let store = try folder.open()
    #expect(try await store.load() == state)
    await store.close()
  }

  @Test("is taken over where the process ended before anything was in it")
  func empty() async throws {
    try makeVersion1()
    let database = try SQLiteConnection(path: folder.database)
    try database.write { db in
      for table in ["meta", "tokens", "refresh_intents", "grants", "logins", "revocations", "settings"] {
        try db.execute("DELETE FROM \(table)")
      }
    }
    try database.close()
    let store = try folder.open()
    #expect(try await store.load() == StoredState())
    try await store.commit(Sample.everything)
    await store.close()
    #expect(try version() == 7)
  }

  @Test("has a code in each row after the first full check, except in an unreadable row")
  func bound() async throws {
    try makeVersion1()
    let change = try SQLiteConnection(path: folder.database)
    try change.use { try $0.execute("UPDATE grants SET standing = 'gone' WHERE account = 'login'") }
    try change.close()
    let store = try folder.open()
    let before = try await store.load()
    try await store.verify()
    let after = try await store.load()
    #expect(after == before && after.setAside.count == 1)
    await store.close()
    let database = try SQLiteConnection(path: folder.database)
    for table in ["grants", "tokens", "refresh_intents", "logins", "revocations", "settings"] {
      let without = try database.read { try $0.value("SELECT count(*) FROM \(table) WHERE code IS NULL")?.integer }
      #expect(without == (table == "grants" ? 1 : 0), "\(table)")
    }
    try database.close()
  }

  @Test("is refused untouched under another key")
  func otherKey() throws {
    try makeVersion1()
    let contents = try folder.contents(folder.database)
    #expect(throws: StoreError.wrongKey(path: folder.database, keySource: "test")) {
      try folder.open(Sample.otherKey)
    }
    #expect(try folder.contents(folder.database) == contents)
  }
}
