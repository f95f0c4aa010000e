import Foundation
import SQLite
import Testing

@Suite struct StatementTests {
  private func database<Value: Sendable>(_ body: (Database) throws -> Value) throws -> Value {
    let connection = try SQLiteConnection(path: ":memory:")
    return try connection.use { database in
      try database.execute("CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
      return try body(database)
    }
  }

  @Test("One that is bound and not read yet is not another's, nor is one at its end")
  func taken() throws {
    let sql = "SELECT a FROM t WHERE a >= ? ORDER BY a"
    let found = try database { database -> [Int64] in
      let first = try Cursor(database.statement(sql), [.integer(1)])
      let second = try Cursor(database.statement(sql), [.integer(2)])
      var found: [Int64] = []
      while try first.next() { found.append(first.integer(at: 0)) }
      let third = try Cursor(database.statement(sql), [.integer(2)])
      while try second.next() { found.append(second.integer(at: 0)) }
      while try third.next() { found.append(third.integer(at: 0)) }
      return found
    }
    #expect(found == [1, 2, 2, 2])
  }

  @Test("A statement has as many arguments as parameters", arguments: [0, 1, 3])
  func arguments(count: Int) throws {
    try database { database in
      let values = (0..<count).map { ColumnValue.integer(Int64($0)) }
      #expect(throws: DatabaseError.self) { try database.statement("INSERT INTO t VALUES (?, ?)").run(values) }
    }
  }

  @Test("Two columns of one name are two")
  func sameNames() throws {
    let first = try database { database -> [ColumnValue] in
      let rows = try database.rows("SELECT a, a FROM t ORDER BY a LIMIT 1")
      return [rows[0][0], rows[0][1]]
    }
    #expect(first == [.integer(1), .integer(1)])
  }

  @Test("Questions that differ each time take no kept statement's place for good")
  func many() throws {
    try database { database in
      for number in 0..<250 { _ = try database.rows("SELECT a + \(number) FROM t") }
      #expect(try database.value("SELECT count(*) FROM t") == .integer(2))
    }
  }

  @Test("A transaction that was left open is taken back, and the next one is not lost with it")
  func leftOpen() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "o-\(UInt32.random(in: 0 ... .max)).db")
      .path(percentEncoded: false)
    defer { for end in ["", "-wal", "-shm", "-journal"] { try? FileManager.default.removeItem(atPath: path + end) } }
    let connection = try SQLiteConnection(path: path)
    try connection.write { try $0.execute("CREATE TABLE t (a INTEGER)") }
    try connection.use { database in
      try database.execute("BEGIN IMMEDIATE")
      try database.execute("INSERT INTO t VALUES (1)")
    }
    try connection.write { try $0.execute("INSERT INTO t VALUES (2)") }
    let found = try SQLiteConnection(path: path).read { try $0.rows("SELECT a FROM t").map { $0[0] } }
    #expect(found == [.integer(2)])
  }

  @Test("Commits are counted for as long as the connection is open")
  func watched() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "w-\(UInt32.random(in: 0 ... .max)).db")
      .path(percentEncoded: false)
    defer { for end in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + end) } }
    weak var kept: LogPages?
    let connection: SQLiteConnection
    do {
      let pages = LogPages()
      kept = pages
      var options = SQLiteConnection.Options()
      options.preparations = [{ try $0.execute("PRAGMA journal_mode = WAL") }, { try pages.watch($0) }]
      connection = try SQLiteConnection(path: path, options)
    }
    try connection.write { try $0.execute("CREATE TABLE t (a)") }
    let pages = try #require(kept)
    #expect(pages.pages > 0)
    try connection.close()
  }
}
