import Broker
import SQLite

/// The application and the schema version in a database's header, compared with its tables: a damaged number must neither
/// start a migration nor make the database another program's.
struct SchemaHeader: Sendable {
  /// The schema version of the tables.
  let version: Int
  /// The difference of the header; nil: it is right.
  let damage: String?

  /// - Throws: `StoreError` if the database is another program's, or of a newer version; and if its tables are damaged.
  init(of db: Database, at path: String) throws {
    let application = try db.number("PRAGMA application_id")
    let stated = try db.number("PRAGMA user_version")
    let isOurs = application == SQLiteSchema.applicationID
    if isOurs, stated == SQLiteSchema.version, (try? StoredState.checkColumns(of: db)) != nil {
      (version, damage) = (stated, nil)
      return
    }
    guard let found = try SQLiteSchema.version(ofTablesIn: db) else {
      guard isOurs else { throw StoreError.corrupt(path: path, detail: "it is another program's database") }
      guard stated <= SQLiteSchema.version else {
        throw StoreError.newer(path: path, found: stated, known: SQLiteSchema.version)
      }
      if stated == SQLiteSchema.version { try StoredState.checkColumns(of: db) }
      throw StoreError.corrupt(
        path: path, detail: "its header names schema \(stated), and its tables are those of no schema")
    }
    version = found
    if !isOurs {
      damage = "application \(application) instead of \(SQLiteSchema.applicationID)"
    } else {
      damage = stated == found ? nil : "schema \(stated) instead of \(found)"
    }
  }

  func notice(at path: String) -> String? {
    damage.map { "the header of \(path) was damaged (\($0)): it was written again" }
  }

  /// Before migrations.
  func correct(_ database: SQLiteConnection) throws {
    guard damage != nil else { return }
    try database.write { db in
      try db.execute("PRAGMA application_id = \(SQLiteSchema.applicationID); PRAGMA user_version = \(version)")
    }
  }
}

extension SQLiteSchema {
  /// The version that has exactly these tables and columns; nil: none of the known ones.
  static func version(ofTablesIn db: Database) throws -> Int? {
    let found = try columns(of: db)
    let empty = try SQLiteConnection(path: ":memory:")
    defer { try? empty.close() }
    for version in 1...version {
      try migrate(empty, to: version)
      if try empty.read({ try columns(of: $0) }) == found { return version }
    }
    return nil
  }

  private static func columns(of db: Database) throws -> [String] {
    try db.rows(
      """
      SELECT t.name || '.' || c.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
      WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND t.name <> 'grdb_migrations' ORDER BY 1
      """
    ).map { $0[0].text ?? "" }
  }
}
