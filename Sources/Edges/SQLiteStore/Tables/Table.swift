import Broker
import FoundationEssentials
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

  /// The last column of each table: the row's authentication code. NULL: an earlier version wrote the row.
  static let code = "code"

  /// - Parameters:
  ///   - integers: the columns of type INTEGER. What is in neither list is a text.
  ///   - blobs: the columns of type BLOB.
  init(_ name: String, key: [String], columns: [String], integers: Set<String> = [], blobs: Set<String> = []) {
    self.name = name
    let (columns, blobs) = (columns + [Self.code], blobs.union([Self.code]))
    self.columns = columns
    types = columns.map { integers.contains($0) ? .integer : blobs.contains($0) ? .blob : .text }
    let list = columns.joined(separator: ", ")
    let values = columns.map { _ in "?" }.joined(separator: ", ")
    let updates = columns.filter { !key.contains($0) }.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
    select = "SELECT \(list), rowid FROM \(name) ORDER BY \(key.joined(separator: ", "))"
    // Not INSERT OR REPLACE, which deletes the old row, and with it the rows that refer to it.
    put = """
      INSERT INTO \(name) (\(list)) VALUES (\(values))
      ON CONFLICT (\(key.joined(separator: ", "))) DO UPDATE SET \(updates)
      """
  }
}

/// The type of a column (SQLite, "STRICT Tables").
enum ColumnType: Sendable {
  case text, integer, blob

  var sqlite: Cursor.Kind {
    switch self {
    case .text: .text
    case .integer: .integer
    case .blob: .blob
    }
  }
}

/// A value that is one row of a table.
protocol StoredRow: SendableMetatype {
  static var table: Table { get }

  /// What the row's sealed columns are bound to: its key, and where its secrets may be sent.
  var sealedWith: [String] { get }

  func write(to row: inout RowWriter) throws
  init(from row: inout RowReader) throws
}

extension StoredRow {
  /// The columns, with the row's code.
  func values(_ sealer: Sealer) throws -> [ColumnValue] {
    var row = RowWriter(table: Self.table, boundTo: sealedWith, sealer: sealer)
    try write(to: &row)
    return row.values + [.blob(Self.code(of: row.values, sealer))]
  }

  /// - Parameter values: the columns without the code.
  static func code(of values: some Sequence<ColumnValue>, _ sealer: Sealer) -> Data {
    var columns = PackedColumns()
    for value in values { columns.append(value) }
    return sealer.code(of: columns.bytes, in: table.name)
  }

  func put(in db: Database, sealer: Sealer) throws {
    try db.statement(Self.table.put).run(values(sealer))
  }

  /// Those that can be read; the others are left where they are, and added to `setAside`.
  static func all(in db: Database, sealer: Sealer, _ setAside: inout [SetAsideRow]) throws -> [Self] {
    var rows: [Self] = []
    let row = try Cursor(db.statement(table.select))
    while try row.next() {
      var reader = RowReader(row, of: table, sealer: sealer)
      do {
        let value = try Self(from: &reader)
        try reader.checkCode()
        rows.append(value)
      } catch let error as DamagedRow {
        let text = { column in table.columns.firstIndex(of: column).flatMap { row.value(at: $0).text } }
        setAside.append(
          SetAsideRow(
            error, number: row.integer(at: table.columns.count), key: row.value(at: 0).text, account: text("account"),
            provider: text("provider")))
      }
    }
    return rows
  }
}

extension StoredState {
  static func read(_ db: Database, sealer: Sealer) throws -> StoredState {
    var state = try readRest(db, sealer: sealer)
    state.grants = try SavedGrant.all(in: db, sealer: sealer, &state.setAside)
    state.tokens = try SavedToken.all(in: db, sealer: sealer, &state.setAside)
    state.intents = try RefreshIntent.all(in: db, sealer: sealer, &state.setAside)
    guard !state.setAside.isEmpty else { return state }
    let accounts = Set(state.grants.map(\.account))
    state.tokens.removeAll { !accounts.contains($0.account) }
    state.intents.removeAll { !accounts.contains($0.account) }
    return state
  }

  static var types: [any StoredRow.Type] {
    [
      SavedGrant.self, SavedToken.self, RefreshIntent.self, SavedLogin.self, PendingRevocation.self,
      SavedRegistration.self, Setting.self,
    ]
  }

  /// That the tables have the columns that they must have: SQLite does not check the schema's text.
  static func checkColumns(of db: Database) throws {
    for type in types { _ = try db.statement(type.table.select) }
  }

  /// The rows of a table that cannot be read.
  static func setAside(_ table: String, in db: Database, _ sealer: Sealer) throws -> [SetAsideRow] {
    var rows: [SetAsideRow] = []
    for type in types where type.table.name == table { _ = try type.all(in: db, sealer: sealer, &rows) }
    return rows
  }

  /// All but the accounts.
  static func readRest(_ db: Database, sealer: Sealer) throws -> StoredState {
    var state = StoredState()
    state.logins = try SavedLogin.all(in: db, sealer: sealer, &state.setAside)
    state.revocations = try PendingRevocation.all(in: db, sealer: sealer, &state.setAside)
    state.registrations = try SavedRegistration.all(in: db, sealer: sealer, &state.setAside)
    for setting in try Setting.all(in: db, sealer: sealer, &state.setAside) {
      state.values[setting.name] = setting.value
    }
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
