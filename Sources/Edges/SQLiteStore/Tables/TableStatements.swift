import Broker
import FoundationEssentials
import Grants
import SQLite
import Sealing
import StoreRows

// The tables in SQLite: rows in and out.
extension ColumnType {
  var sqlite: Cursor.Kind {
    switch self {
    case .text: .text
    case .integer: .integer
    case .blob: .blob
    }
  }
}

extension PackedColumns {
  /// The columns of the cursor's row.
  init(_ row: Cursor, of table: Table) {
    self.init()
    for column in table.columns.indices { append(row.value(at: column)) }
  }
}

extension StoredRow {
  func put(in db: Database, sealer: Sealer) throws {
    try db.statement(Self.table.put).run(values(sealer))
  }

  /// Those that can be read; the others are left where they are, and added to `setAside`.
  static func all(in db: Database, sealer: Sealer, _ setAside: inout [SetAsideRow]) throws -> [Self] {
    var rows: [Self] = []
    let row = try Cursor(db.statement(table.select))
    while try row.next() {
      var reader = RowReader(PackedColumns(row, of: table), of: table, sealer: sealer)
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
}

extension Change {
  func apply(to db: Database, sealer: Sealer) throws {
    switch self {
    case .putGrant(let grant): try grant.put(in: db, sealer: sealer)
    case .removeGrant(let account): try Self.delete("DELETE FROM grants WHERE account = ?", account.rawValue, in: db)
    // This store has one owner: its configuration names the issuers.
    case .putIssuer: break
    case .putToken(let token): try token.put(in: db, sealer: sealer)
    case .removeTokens(let account): try Self.delete("DELETE FROM tokens WHERE account = ?", account.rawValue, in: db)
    case .removeToken(let account, let key):
      let sql = "DELETE FROM tokens WHERE account = ? AND scope = ? AND resource = ?"
      try db.statement(sql).run([.text(account.rawValue), .text(plain(key.scope)), .text(plain(key.target))])
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
