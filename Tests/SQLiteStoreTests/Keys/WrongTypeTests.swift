import Broker
import Grants
import SQLite
import SQLiteStore
import Sealing
import Testing

@Suite("A row with a value of a wrong type", .serialized, .timeLimit(.minutes(5)))
struct WrongTypeTests {
  let folder = TemporaryFolder()

  /// A database that a start does not read whole. The tables are strict, so no statement writes such a value.
  private func damaged(_ table: String, _ change: String) async throws -> SQLiteStore {
    let key = try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
    let store = try folder.open(key)
    try await store.commit(Sample.everything + [.putValue("large", String(repeating: "x", count: 9 << 20))])
    await store.close()
    let allowing = "UPDATE sqlite_master SET sql = replace(sql, ') STRICT', ')') WHERE name = '\(table)'"
    let forbidding = "UPDATE sqlite_master SET sql = sql || ' STRICT' WHERE name = '\(table)'"
    for statement in [allowing, "UPDATE \(table) SET \(change)", forbidding] {
      let other = try SQLiteConnection(path: folder.database)
      try other.use { try $0.execute("PRAGMA foreign_keys = OFF; PRAGMA writable_schema = ON; \(statement)") }
      try other.close()
    }
    return try folder.open(key)
  }

  private static let damages = [
    ("logins", "state = CAST(state AS TEXT) || 'x'"), ("settings", "value = x'01'"), ("grants", "provider = x'01'"),
  ]

  @Test("does not prevent that the database is written again from memory", arguments: damages)
  func rebuild(table: String, change: String) async throws {
    let store = try await damaged(table, change)
    var state = try await store.loadRest()
    let accounts = try await store.accounts(after: nil, most: 99)
    state.setAside = store.setAside
    await #expect(throws: StoreError.self) { try await store.verify() }
    try await store.rebuild(from: state, accounts: accounts)
    try await store.verify()
    try await store.commit([.putValue("after", "1")])
    await store.close()
    let again = try folder.open(SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state))
    #expect(try await again.load().values["after"] == "1")
    await again.close()
  }

  @Test("does not prevent a new key", arguments: damages)
  func rotation(table: String, change: String) async throws {
    let store = try await damaged(table, change)
    #expect(try await !store.rotateKey().remains.isEmpty)
    try await store.commit([.putValue("after", "1")])
    #expect(try await store.loadRest().values["after"] == "1")
    await store.close()
  }
}
