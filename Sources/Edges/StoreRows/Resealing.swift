package import SQLite
package import Sealing

extension Table {
  /// The values of a row that cannot be read, for another key: each value that the old key opens is sealed under the new
  /// one. The rest and the code stay, so that the row still cannot be read.
  package func resealed(_ values: [ColumnValue], from old: Sealer, to new: Sealer) throws -> [ColumnValue] {
    guard !old.isSame(as: new) else { return values }
    func text(_ column: String) -> String { columns.firstIndex(of: column).flatMap { values[$0].text } ?? "" }
    let place = Place(table: name, row: boundTo.map(text))
    return try values.indices.map { index in
      let column = columns[index]
      guard types[index] == .blob, column != Self.code, let sealed = values[index].blob,
        let value = try? old.open(sealed, at: place, column: column)
      else { return values[index] }
      return .blob(try new.seal(value, at: place, column: column))
    }
  }
}
