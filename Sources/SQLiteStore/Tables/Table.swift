import Broker
import Grants
import SQLite
import Sealing

/// A table's statements, made once. A row's columns are written and read in this order.
struct Table: Sendable {
  let name: String
  let columns: [String]
  /// The types of the columns.
  let types: [ColumnType]
  let select: String
  let put: String

  /// - Parameters:
  ///   - integers: the columns of type INTEGER. What is in neither list is a text.
  ///   - blobs: the columns of type BLOB.
  init(_ name: String, key: [String], columns: [String], integers: Set<String> = [], blobs: Set<String> = []) {
    self.name = name
    self.columns = columns
    types = columns.map { integers.contains($0) ? .integer : blobs.contains($0) ? .blob : .text }
    let list = columns.joined(separator: ", ")
    let values = columns.map { _ in "?" }.joined(separator: ", ")
    let updates = columns.filter { !key.contains($0) }.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
    select = "SELECT \(list) FROM \(name) ORDER BY \(key.joined(separator: ", "))"
    // Not INSERT OR REPLACE, which deletes the old row, and with it the rows that refer to it.
    put = """
      INSERT INTO \(name) (\(list)) VALUES (\(values))
      ON CONFLICT (\(key.joined(separator: ", "))) DO UPDATE SET \(updates)
      """
  }
}

/// The type of a column (SQLite, "STRICT Tables").
enum ColumnType: Sendable { case text, integer, blob }

/// A value that is one row of a table.
protocol StoredRow {
  static var table: Table { get }

  /// What the row's sealed columns are bound to: its key, and where its secrets may be sent.
  var sealedWith: [String] { get }

  func write(to row: inout RowWriter) throws
  init(from row: inout RowReader) throws
}

extension StoredRow {
  func put(in db: Database, sealer: Sealer) throws {
    var row = RowWriter(table: Self.table, boundTo: sealedWith, sealer: sealer)
    try write(to: &row)
    try db.statement(Self.table.put).run(row.values)
  }

  static func all(in db: Database, sealer: Sealer) throws -> [Self] {
    var rows: [Self] = []
    let row = try Cursor(db.statement(table.select))
    while try row.next() {
      var reader = RowReader(row, of: table, sealer: sealer)
      rows.append(try Self(from: &reader))
    }
    return rows
  }
}

extension StoredState {
  static func read(_ db: Database, sealer: Sealer) throws -> StoredState {
    var state = try readRest(db, sealer: sealer)
    state.grants = try SavedGrant.all(in: db, sealer: sealer)
    state.tokens = try SavedToken.all(in: db, sealer: sealer)
    state.intents = try RefreshIntent.all(in: db, sealer: sealer)
    return state
  }

  /// All but the accounts.
  static func readRest(_ db: Database, sealer: Sealer) throws -> StoredState {
    var state = StoredState()
    state.logins = try SavedLogin.all(in: db, sealer: sealer)
    state.revocations = try PendingRevocation.all(in: db, sealer: sealer)
    state.registrations = try SavedRegistration.all(in: db, sealer: sealer)
    for setting in try Setting.all(in: db, sealer: sealer) { state.values[setting.name] = setting.value }
    return state
  }

  /// What makes this state from nothing.
  var changes: [Change] {
    grants.map(Change.putGrant) + tokens.map(Change.putToken) + intents.map(Change.putIntent)
      + logins.map(Change.putLogin) + revocations.map(Change.putRevocation)
      + registrations.map(Change.putRegistration) + values.map(Change.putValue)
  }
}

extension Change {
  func apply(to db: Database, sealer: Sealer) throws {
    switch self {
    case .putGrant(let grant): try grant.put(in: db, sealer: sealer)
    case .removeGrant(let account): try Self.delete("DELETE FROM grants WHERE account = ?", account.rawValue, in: db)
    case .putToken(let token): try token.put(in: db, sealer: sealer)
    case .removeTokens(let account): try Self.delete("DELETE FROM tokens WHERE account = ?", account.rawValue, in: db)
    case .removeToken(let account, let key):
      let sql = "DELETE FROM tokens WHERE account = ? AND scope = ? AND resource = ?"
      try db.statement(sql).run([.text(account.rawValue), .text(plain(key.scope)), .text(plain(key.resource))])
    case .putIntent(let intent): try intent.put(in: db, sealer: sealer)
    case .removeIntent(let account):
      try Self.delete("DELETE FROM refresh_intents WHERE account = ?", account.rawValue, in: db)
    case .putLogin(let login): try login.put(in: db, sealer: sealer)
    case .removeLogin(let id): try Self.delete("DELETE FROM logins WHERE id = ?", id.rawValue, in: db)
    case .putRevocation(let revocation): try revocation.put(in: db, sealer: sealer)
    case .removeRevocation(let id): try Self.delete("DELETE FROM revocations WHERE id = ?", plain(id), in: db)
    case .putRegistration(let registration): try registration.put(in: db, sealer: sealer)
    case .removeRegistration(let provider):
      try Self.delete("DELETE FROM registrations WHERE provider = ?", provider.rawValue, in: db)
    case .putValue(let name, let value): try Setting(name: name, value: value).put(in: db, sealer: sealer)
    }
  }

  private static func delete(_ sql: String, _ key: String, in db: Database) throws {
    try db.statement(sql).run([.text(key)])
  }
}
