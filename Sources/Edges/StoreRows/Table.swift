package import Broker
package import FoundationEssentials
import Grants
package import SQLite
package import Sealing

/// A table's statements, made once. A row's columns are written and read in this order.
package struct Table: Sendable {
  package let name: String
  package let columns: [String]
  package let key: [String]
  /// The columns that the sealed ones are bound to: ``StoredRow/sealedWith``.
  package let boundTo: [String]
  /// The types of the columns.
  package let types: [ColumnType]
  package let select: String
  package let put: String

  /// The last column of each table: the row's authentication code. NULL: an earlier version wrote the row.
  package static let code = "code"

  /// - Parameters:
  ///   - boundTo: the columns that the sealed ones are bound to.
  ///   - integers: the columns of type INTEGER. A column in neither list is a text.
  ///   - blobs: the columns of type BLOB.
  package init(
    _ name: String, key: [String], columns: [String], boundTo: [String] = [], integers: Set<String> = [],
    blobs: Set<String> = []
  ) {
    self.name = name
    self.key = key
    self.boundTo = boundTo
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
package enum ColumnType: Sendable {
  case text, integer, blob
}

/// A value that is one row of a table.
package protocol StoredRow: SendableMetatype {
  static var table: Table { get }

  /// The values that the sealed columns are bound to: the row's key, and where its secrets may be sent.
  var sealedWith: [String] { get }

  func write(to row: inout RowWriter) throws
  init(from row: inout RowReader) throws
}

extension StoredRow {
  /// The columns, with the row's code.
  package func values(_ sealer: Sealer) throws -> [ColumnValue] {
    var row = RowWriter(table: Self.table, boundTo: sealedWith, sealer: sealer)
    try write(to: &row)
    return row.values + [.blob(Self.code(of: row.values, sealer))]
  }

  /// - Parameter values: the columns without the code.
  package static func code(of values: [ColumnValue], _ sealer: Sealer) -> Data {
    sealer.code(of: PackedColumns(values).bytes, in: table.name)
  }
}

extension StoredState {
  package static var types: [any StoredRow.Type] {
    [
      SavedGrant.self, SavedToken.self, RefreshIntent.self, SavedLogin.self, PendingRevocation.self,
      SavedRegistration.self, Setting.self,
    ]
  }

  /// The changes that make this state from an empty one.
  package var changes: [Change] {
    grants.map(Change.putGrant) + tokens.map(Change.putToken) + intents.map(Change.putIntent)
      + logins.map(Change.putLogin) + revocations.map(Change.putRevocation)
      + registrations.map(Change.putRegistration) + values.map(Change.putValue)
  }
}
