import Broker
import Foundation
import Grants
import OAuth
import SQLite
import SQLiteStore
import Sealing
import Testing

@Suite("A store that cannot be used is refused and not touched")
struct OpeningTests {
  let folder = TemporaryFolder()

  private func sql(_ sql: String) throws {
    let database = try SQLiteConnection(path: folder.database)
    try database.use { try $0.execute(sql) }
    try database.close()
  }

  /// Opens it, with the error.
  private func refusal(key: SealingKey = Sample.key) -> StoreError? {
    do throws(StoreError) {
      _ = try SQLiteStore.open(folder: folder.state, key: key)
      return nil
    } catch {
      return error
    }
  }

  enum Damage: CaseIterable {
    case text, shortText, random, truncated, otherProgram, schema
  }

  @Test("damaged", arguments: Damage.allCases)
  func damaged(_ damage: Damage) async throws {
    try await folder.fill(Sample.everything)
    var contents = try folder.contents(folder.database)
    switch damage {
    case .text: contents = Data(String(repeating: "no database\n", count: 1000).utf8)
    case .shortText: contents = Data("x".utf8)
    case .random: contents = Data((0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* $0 &* 2_654_435_761 >> 7) })
    case .truncated: contents = contents.prefix(3 * 4096)
    case .schema:
      let range = try #require(contents.range(of: Data("provider TEXT NOT NULL".utf8)))
      contents[range.lowerBound] ^= 1
    case .otherProgram:
      try sql("PRAGMA journal_mode = DELETE; PRAGMA application_id = 5; DROP TABLE settings")
      contents = try folder.contents(folder.database)
    }
    try folder.write(contents, to: folder.database)
    let error = refusal()
    guard case .corrupt(folder.database, let detail) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(!detail.isEmpty)
    #expect(try folder.contents(folder.database) == contents)
  }

  @Test("but of one whose pages are damaged every row that can be read is in a new one")
  func damagedPages() async throws {
    let names = (0..<40).map { "account-\($0)" }
    try await folder.fill(names.map { .putGrant(Sample.fullGrant($0)) } + names.map { .putToken(Sample.token($0)) })
    let database = try SQLiteConnection(path: folder.database)
    let sql = "SELECT pageno FROM dbstat WHERE name = 'grants' AND pagetype = 'leaf' ORDER BY pageno DESC LIMIT 1"
    let page = Int(try #require(try database.read { try $0.value(sql)?.integer }))
    try database.close()
    var contents = try folder.contents(folder.database)
    contents.replaceSubrange((page - 1) * 4096..<page * 4096, with: Data(repeating: 0xa5, count: 4096))
    try folder.write(contents, to: folder.database)
    let store = try folder.open()
    let state = try await store.load()
    let lost = Set(state.setAside.compactMap { $0.table == "grants" ? $0.account?.rawValue : nil })
    #expect(!lost.isEmpty && lost.count < 20)
    #expect(Set(state.grants.map(\.account.rawValue)).union(lost) == Set(names))
    for grant in state.grants { #expect(grant == Sample.fullGrant(grant.account.rawValue)) }
    #expect(store.repairs.count == 1)
    await store.close()
    let aside = try #require(try folder.aside().first { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") })
    #expect(try folder.contents("\(folder.state)/\(aside)") == contents)
    let again = try folder.open()
    #expect(again.repairs.isEmpty)
    #expect(try await again.load().grants == state.grants)
    await again.close()
  }

  @Test("but a damaged note of the key is written again, if the key opens the values")
  func damagedNote() async throws {
    try await folder.fill(Sample.everything)
    try sql("UPDATE meta SET value = x'00'")
    #expect(refusal(key: Sample.otherKey) != nil)
    let store = try folder.open()
    #expect(try await store.load() == Sample.state && store.repairs.count == 1)
    await store.close()
    let again = try folder.open()
    #expect(again.repairs.isEmpty)
    await again.close()
  }

  @Test("but a damaged number in the header is corrected, and nothing is migrated", arguments: HeaderDamage.all)
  func damagedNumber(_ damage: HeaderDamage) async throws {
    try await folder.fill(Sample.everything)
    var contents = try folder.contents(folder.database)
    contents.replaceSubrange(damage.offset..<damage.offset + 4, with: damage.bytes)
    try folder.write(contents, to: folder.database)
    #expect(refusal(key: Sample.otherKey) == .wrongKey(path: folder.database, keySource: "test"))
    #expect(try folder.contents(folder.database) == contents)
    let store = try folder.open()
    #expect(try await store.load() == Sample.state)
    let notices = store.repairs
    #expect(notices.count == 1 && notices.first?.contains(damage.says) == true, "\(notices)")
    await store.close()
    let again = try folder.open()
    #expect(again.repairs.isEmpty)
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  struct HeaderDamage: Sendable {
    /// `user_version` lies at byte 60 of the header, `application_id` at byte 68.
    let offset: Int
    let bytes: [UInt8]
    let says: String

    static let all =
      [0, 1, 3, 6, 15, 0x407, 0x8000_0007].map { number in
        let says = Int(Int32(truncatingIfNeeded: number))
        return HeaderDamage(
          offset: 60, bytes: (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) },
          says: "schema \(says) instead of 7")
      } + [HeaderDamage(offset: 68, bytes: [1, 2, 3, 4], says: "application 16909060 instead of")]
  }

  @Test("with tables of no known schema", arguments: [0, 3, 7])
  func unknownTables(version: Int) async throws {
    try await folder.fill(Sample.everything)
    try sql("PRAGMA user_version = \(version); ALTER TABLE tokens DROP COLUMN reports")
    guard case .corrupt(folder.database, let detail) = refusal() else {
      Issue.record("opened")
      return
    }
    #expect(detail.contains(version == 7 ? "reports" : "schema \(version)"), "\(detail)")
  }

  @Test("written by a newer version")
  func newer() async throws {
    try await folder.fill(Sample.everything)
    try sql("PRAGMA user_version = 8; CREATE TABLE later (x)")
    let contents = try folder.contents(folder.database)
    #expect(refusal() == .newer(path: folder.database, found: 8, known: 7))
    #expect(try folder.contents(folder.database) == contents)
  }

  @Test("sealed under another key")
  func wrongKey() async throws {
    try await folder.fill(Sample.everything)
    let contents = try folder.contents(folder.database)
    #expect(refusal(key: Sample.otherKey) == .wrongKey(path: folder.database, keySource: "test"))
    #expect(try folder.contents(folder.database) == contents)
    let store = try folder.open()
    #expect(try await store.load() == Sample.state)
    await store.close()
  }

  @Test("without the note of its key, and without anything that the key opens")
  func noKeyCheck() async throws {
    try await folder.fill([.putGrant(Sample.grant("a"))])
    try sql("DELETE FROM meta")
    guard case .corrupt = refusal() else {
      Issue.record("opened")
      return
    }
  }

  @Test("whose database is missing or empty while its log exists", arguments: [true, false])
  func logAlone(missing: Bool) async throws {
    try folder.write(Data("log".utf8), to: folder.database + "-wal")
    if !missing { try folder.write(Data(), to: folder.database) }
    guard case .corrupt = refusal() else {
      Issue.record("opened")
      return
    }
    #expect(try folder.contents(folder.database + "-wal") == Data("log".utf8))
  }

  @Test("but an empty file is a new store: the first start ended before it wrote")
  func emptyFile() async throws {
    try folder.write(Data(), to: folder.database)
    let store = try folder.open()
    #expect(try await store.load() == StoredState())
    await store.close()
  }

  @Test("but only a list of migrations is a new store: the first start ended before the first migration")
  func listOfMigrationsAlone() async throws {
    try folder.write(Data(), to: folder.database)
    try sql("CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)")
    try await folder.fill(Sample.everything)
    #expect(refusal(key: Sample.otherKey) == .wrongKey(path: folder.database, keySource: "test"))
  }

  @Test("but a journal next to an empty database is a new store: the first start ended during its setup")
  func hotJournal() async throws {
    let source = folder.path + "/source.db"
    try folder.write(Data(), to: source)
    let database = try SQLiteConnection(path: source)
    try database.use {
      // Without waiting for the disk the journal counts from its first page on.
      try $0.execute("PRAGMA synchronous = OFF; CREATE TABLE t (a); DROP TABLE t")
    }
    // As a kill would leave them: a page that is in the journal, and a transaction without an end.
    let files = try database.use { db in
      try db.begin(.immediate)
      defer { try? db.rollback() }
      try db.execute("PRAGMA user_version = 8")
      return try [source, source + "-journal"].map { try Data(contentsOf: URL(fileURLWithPath: $0)) }
    }
    try folder.write(files[0], to: folder.database)
    try folder.write(files[1], to: folder.database + "-journal")
    #expect(!files[0].isEmpty && !files[1].isEmpty)
    try await folder.fill(Sample.everything)
    #expect(refusal(key: Sample.otherKey) == .wrongKey(path: folder.database, keySource: "test"))
  }

  @Test("but tables without anything in them are a new store: the first start ended before it noted the key")
  func emptyTables() async throws {
    try await folder.fill([])
    try sql("DELETE FROM meta")
    try await folder.fill(Sample.everything)
    #expect(refusal(key: Sample.otherKey) == .wrongKey(path: folder.database, keySource: "test"))
  }

  @Test("in a folder where others may write")
  func openFolder() throws {
    try FileManager.default.createDirectory(atPath: folder.state, withIntermediateDirectories: true)
    try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.state)
    guard case .unreadable(folder.state, let detail) = refusal() else {
      Issue.record("opened")
      return
    }
    #expect(detail.contains("777"))
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.state).isEmpty)
  }

  @Test("with a file instead of the folder")
  func fileForFolder() throws {
    try folder.write(Data(), to: folder.path + "/state")
    guard case .unreadable = refusal() else {
      Issue.record("opened")
      return
    }
  }

  @Test("every error says what to do next")
  func texts() {
    let path = "/var/lib/grantd"
    let errors: [StoreError] = [
      .owned(path: path, pid: 123), .owned(path: path, pid: nil), .newer(path: path, found: 2, known: 1),
      .corrupt(path: path, detail: "d"), .missing(path: path), .wrongKey(path: path, keySource: "k"),
      .unusableKey(source: "k", detail: "d"), .unreadable(path: path, detail: "d"),
      .unreadableAccount(Sample.grant("a").account, detail: "d"), .unwritable(path: path, detail: "d"), .closed,
    ]
    let shared = SharedStoreTrouble.Kind.allCases.map { StoreError.shared(SharedStoreTrouble($0, "db", "d")) }
    for error in errors + shared {
      #expect(error.message.count > 10 || error.message == "db: d")
      #expect(error.hint.first?.isUppercase == true && error.hint.hasSuffix(".") && error.hint.count > 10)
    }
    #expect(errors[0].message == "another grantd (pid 123) owns /var/lib/grantd")
    #expect(errors[0].hint.hasPrefix("Stop that process"))
  }
}
