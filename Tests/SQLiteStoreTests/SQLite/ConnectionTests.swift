import Foundation
import SQLite
import Testing

@Suite("A connection to SQLite")
struct ConnectionTests {
  let folder = TemporaryFolder()

  private func path() throws -> String {
    try folder.write(Data(), to: folder.path + "/any.db")
    return folder.path + "/any.db"
  }

  private func opened(_ sql: String = "CREATE TABLE t (id INTEGER PRIMARY KEY, v ANY) STRICT") throws
    -> SQLiteConnection
  {
    let connection = try SQLiteConnection(path: path())
    try connection.use { try $0.execute(sql) }
    return connection
  }

  @Test(
    "returns each value as it was bound",
    arguments: [
      .null, .integer(.min), .integer(.max), .real(0.5), .text(""), .text("e\u{301} \u{1f511}"), .blob(Data()),
      .blob(Data([0, 255, 0])),
    ] as [ColumnValue])
  func values(value: ColumnValue) throws {
    let connection = try opened()
    try connection.write { try $0.execute("INSERT INTO t VALUES (1, ?)", [value]) }
    #expect(try connection.read { try $0.value("SELECT v FROM t") } == value)
    #expect(try connection.read { try $0.rows("SELECT id, v FROM t")[0]["v"] } == value)
  }

  @Test("binds a text up to its first NUL, and no number to a text")
  func texts() throws {
    let connection = try opened()
    try connection.write { try $0.execute("INSERT INTO t VALUES (1, ?)", [.text("a\0b")]) }
    #expect(try connection.read { try $0.value("SELECT v FROM t") } == .text("a"))
    #expect(try connection.read { try $0.value("SELECT v FROM t")?.integer } == nil)
  }

  @Test("rolls a transaction back if its body throws, and continues")
  func takenBack() throws {
    struct Stop: Error {}
    let connection = try opened()
    #expect(throws: Stop.self) {
      try connection.write {
        try $0.execute("INSERT INTO t VALUES (1, 1)")
        throw Stop()
      }
    }
    try connection.write { try $0.execute("INSERT INTO t VALUES (2, 2)") }
    #expect(try connection.read { try $0.rows("SELECT id FROM t").map { $0[0] } } == [.integer(2)])
  }

  @Test("takes a transaction back where the commit fails: a foreign key is looked at only then")
  func failingCommit() throws {
    let connection = try opened(
      """
      CREATE TABLE a (id INTEGER PRIMARY KEY);
      CREATE TABLE b (a INTEGER REFERENCES a (id) DEFERRABLE INITIALLY DEFERRED);
      """)
    let error = #expect(throws: DatabaseError.self) {
      try connection.write { try $0.execute("INSERT INTO b VALUES (7)") }
    }
    #expect(error?.code == .constraint)
    try connection.write { try $0.execute("INSERT INTO a VALUES (7); INSERT INTO b VALUES (7)") }
    #expect(try connection.read { try $0.value("SELECT count(*) FROM b") } == .integer(1))
  }

  @Test("says with SQLite's reason why a statement fails, and is usable afterwards")
  func failures() throws {
    let connection = try opened()
    try connection.write { try $0.execute("INSERT INTO t VALUES (1, 1)") }
    let insert = "INSERT INTO t VALUES (?, 1)"
    let error = #expect(throws: DatabaseError.self) {
      try connection.write { try $0.statement(insert).run([.integer(1)]) }
    }
    // SQLITE_CONSTRAINT_PRIMARYKEY
    #expect(error?.extendedCode == ResultCode(rawValue: 1555) && error?.code == .constraint)
    #expect(error?.message == "UNIQUE constraint failed: t.id")
    try connection.write { try $0.statement(insert).run([.integer(2)]) }
    #expect(try connection.read { try $0.rows("SELECT id FROM t").count } == 2)
    #expect(throws: DatabaseError.self) { try connection.use { try $0.execute("SELECT \"no column\"") } }
  }

  @Test("that is read-only writes nothing; a file that is not a database is refused at once")
  func refusals() throws {
    try opened().close()
    var options = SQLiteConnection.Options()
    options.isReadOnly = true
    let reader = try SQLiteConnection(path: folder.path + "/any.db", options)
    let error = #expect(throws: DatabaseError.self) { try reader.write { try $0.execute("DELETE FROM t") } }
    #expect(error?.code == .readOnly)
    try folder.write(Data("not a database".utf8), to: folder.path + "/any.db")
    let other = #expect(throws: DatabaseError.self) { try SQLiteConnection(path: folder.path + "/any.db") }
    #expect(other?.code == .notADatabase)
    let missing = #expect(throws: DatabaseError.self) { try SQLiteConnection(path: folder.path + "/none/any.db") }
    #expect(missing?.code == .cannotOpen)
  }

  @Test("waits for another one as long as it may")
  func patience() throws {
    let (one, path) = (try opened(), folder.path + "/any.db")
    var options = SQLiteConnection.Options()
    options.patience = .milliseconds(200)
    let other = try SQLiteConnection(path: path, options)
    try one.use { try $0.begin(.immediate) }
    let begun = ContinuousClock.now
    let error = #expect(throws: DatabaseError.self) { try other.write { try $0.execute("DELETE FROM t") } }
    #expect(error?.code == .busy && ContinuousClock.now - begun > .milliseconds(150))
    try one.use { try $0.rollback() }
    try other.write { try $0.execute("DELETE FROM t") }
  }

  @Test("reads one statement twice at a time, and is closed once nothing is read")
  func cursors() throws {
    let connection = try opened()
    try connection.write { try $0.execute("INSERT INTO t VALUES (1, 1), (2, 2)") }
    try connection.use { db in
      let sql = "SELECT id FROM t ORDER BY id"
      let one = try Cursor(db.statement(sql))
      #expect(try one.next())
      let other = try Cursor(db.statement(sql))
      #expect(try other.next() && one.next())
      #expect(one.integer(at: 0) == 2 && other.integer(at: 0) == 1)
      #expect(try !one.next())
    }
    try connection.close()
    let error = #expect(throws: DatabaseError.self) { try connection.use { try $0.execute("SELECT 1") } }
    #expect(error?.code == .misuse)
  }
}
