import Foundation
import OAuth
import TOMLKit

/// A value of a TOML document, and where it is written.
struct Item: Sendable, Equatable {
  var value: Value
  var place: Place

  enum Value: Sendable, Equatable {
    case text(String)
    case number(Int)
    case fraction(Double)
    case flag(Bool)
    case list([Item])
    case table([String: Item])
    case time
  }

  var table: [String: Item]? {
    if case .table(let table) = value { table } else { nil }
  }

  var text: String? {
    if case .text(let text) = value { text } else { nil }
  }
}

extension Item.Value {
  /// What it is, for "must be …, not …". Never what it says: that may be a secret.
  var kind: String {
    switch self {
    case .text: "a text"
    case .number: "a number"
    case .fraction: "a number with a fraction"
    case .flag(let flag): flag ? "true" : "false"
    case .list: "a list"
    case .table: "a table"
    case .time: "a date or time"
    }
  }
}

extension [String: Item] {
  /// As they are written.
  var inOrder: [(key: String, value: Item)] {
    sorted { ($0.value.place.line ?? 0, $0.key) < ($1.value.place.line ?? 0, $1.key) }
  }
}

/// A TOML text as a tree that knows its lines.
enum Document {
  static func parse(_ text: String, file: String, report: inout Report) -> [String: Item]? {
    // C strings end at a NUL: what follows would be lost without a word.
    guard !text.contains("\\u0000"), !text.contains("\\U00000000") else {
      report.problem("has an escaped NUL (\\u0000)", at: Place(file: file), suggestion: "remove it")
      return nil
    }
    if let stray = StrayCharacter.find(in: text) {
      let place = Place(file: file, line: stray.line)
      report.problem("is no TOML: \(stray.message)", at: place, column: stray.column)
      return nil
    }
    let lines = KeyLines(text)
    do {
      let root = try TOMLTable(string: text)
      // The tree borrows from the root's memory, so it is copied while the root is alive.
      return withExtendedLifetime(root) { items(root, path: [], file: file, lines: lines) }
    } catch let error as TOMLParseError {
      note(error, file: file, lines: lines, report: &report)
    } catch {
      report.problem("is no TOML", at: Place(file: file))
    }
    return nil
  }

  private static func note(_ error: TOMLParseError, file: String, lines: KeyLines, report: inout Report) {
    guard lines.repeats.isEmpty else {
      for found in lines.repeats {
        report.problem(
          "\"\(found.key.printable(limit: 64))\" is set twice", at: Place(file: file, line: found.line),
          suggestion: "the first is in line \(found.first)")
      }
      return
    }
    let position = error.source.begin
    report.problem(
      "is no TOML: \(quoteless(error.description))", at: Place(file: file, line: max(position.line, 1)),
      column: max(position.column, 1))
  }

  /// The parser's message without what it quotes from the file: that may be a part of a secret.
  private static func quoteless(_ message: String) -> String {
    let words = message.split(separator: ",", maxSplits: 1).first.map(String.init) ?? message
    let plain = words.split(separator: ": ", maxSplits: 1).last.map(String.init) ?? words
    let quotes = plain.contains("'") || plain.contains("\"")
    // After "expected" it quotes the grammar, not the file.
    let text = quotes && !plain.hasPrefix("expected ") ? "unexpected text here" : plain
    return text.printable(limit: 200)
  }

  private static func items(
    _ table: TOMLTable, path: [KeyLines.Step], file: String, lines: KeyLines
  ) -> [String: Item] {
    var result: [String: Item] = [:]
    for key in table.keys {
      guard let value = table[key] else { continue }
      result[key] = item(value, path: path + [.key(key)], file: file, lines: lines)
    }
    return result
  }

  private static func item(
    _ value: any TOMLValueConvertible, path: [KeyLines.Step], file: String, lines: KeyLines
  ) -> Item {
    Item(value: read(value, path: path, file: file, lines: lines), place: Place(file: file, line: lines[path]))
  }

  private static func read(
    _ value: any TOMLValueConvertible, path: [KeyLines.Step], file: String, lines: KeyLines
  ) -> Item.Value {
    if let table = value.table { return .table(items(table, path: path, file: file, lines: lines)) }
    if let text = value.string { return .text(text) }
    if let flag = value.bool { return .flag(flag) }
    if let number = value.int { return .number(number) }
    if let fraction = value.double { return .fraction(fraction) }
    if let array = value.array {
      return .list(
        array.enumerated().map { item($1, path: path + [.index($0)], file: file, lines: lines) })
    }
    return .time
  }
}
