import CToml

/// A value of a TOML document, and its position.
struct Item: Sendable, Equatable {
  var value: Value
  var place: FileLocation

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
  /// Its type, for "must be …, not …". Never its content, which may be a secret.
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
enum TOMLDocument {
  static func parse(_ text: String, file: String, report: inout ConfigurationReport) -> [String: Item]? {
    do throws(SyntaxError) {
      return try read(text, file: file)
    } catch {
      error.record(in: text, file: file, report: &report)
      return nil
    }
  }

  /// The tables and keys of the root.
  static func read(_ text: String, file: String) throws(SyntaxError) -> [String: Item] {
    var text = text
    let parsed = text.withUTF8 { bytes in
      bytes.withMemoryRebound(to: CChar.self) { ctoml_parse($0.baseAddress, $0.count) }
    }
    defer { ctoml_free(parsed) }
    var count = 0
    let nodes = UnsafeBufferPointer(start: ctoml_nodes(parsed, &count), count: count)
    guard !nodes.isEmpty else { throw SyntaxError(ctoml_why(parsed)) }
    // Paths and names end at a NUL for the kernel.
    if let node = nodes.first(where: { $0.key.octets.contains(0) || $0.text.octets.contains(0) }) {
      throw .escapedNUL(line: Int(node.line))
    }
    var rest = nodes[...]
    return item(from: &rest, file: file).table ?? [:]
  }

  /// Takes the first node and those below it.
  private static func item(from rest: inout Slice<UnsafeBufferPointer<ctoml_node>>, file: String) -> Item {
    let node = rest.removeFirst()
    let value: Item.Value
    switch node.kind {
    case .CTOML_TABLE:
      var table: [String: Item] = [:]
      for _ in 0..<node.children {
        guard let key = rest.first?.key else { break }
        table[key.string] = item(from: &rest, file: file)
      }
      value = .table(table)
    case .CTOML_LIST: value = .list((0..<node.children).map { _ in item(from: &rest, file: file) })
    case .CTOML_TEXT: value = .text(node.text.string)
    case .CTOML_NUMBER: value = .number(Int(node.number))
    case .CTOML_FRACTION: value = .fraction(node.fraction)
    case .CTOML_FLAG: value = .flag(node.flag)
    case .CTOML_TIME: value = .time
    }
    return Item(value: value, place: FileLocation(file: file, line: Int(node.line)))
  }
}

extension ctoml_text {
  var string: String { String(decoding: octets, as: UTF8.self) }
  var octets: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: bytes, count: count) }
}
