/// Where each key of a TOML text is written: the parser tells positions of syntax errors only.
///
/// The scanner judges nothing. On a text that is no TOML it finds fewer keys, and always ends.
struct KeyLines {
  enum Step: Hashable, Sendable {
    case key(String)
    case index(Int)
  }

  /// A key that is written twice.
  struct Repeat: Equatable {
    var key: String
    var line: Int
    var first: Int
  }

  private(set) var repeats: [Repeat] = []
  private var lines: [[Step]: Int] = [:]
  private var explicit: Set<[Step]> = []

  init(_ text: String) {
    var scanner = KeyScanner(text)
    scanner.readDocument()
    self = scanner.found
  }

  fileprivate init() {}

  /// The line, from 1, of a key, table or list element; the nearest one around it where it has none.
  subscript(path: [Step]) -> Int? {
    var path = path
    while !path.isEmpty {
      if let line = lines[path] { return line }
      path.removeLast()
    }
    return nil
  }

  fileprivate mutating func note(_ path: [Step], line: Int, explicit isExplicit: Bool) {
    if isExplicit, !explicit.insert(path).inserted, case .key(let key)? = path.last {
      repeats.append(Repeat(key: key, line: line, first: lines[path] ?? line))
    } else if isExplicit || lines[path] == nil {
      lines[path] = line
    }
  }
}

private struct KeyScanner {
  /// Lists and inline tables nested deeper are passed over.
  static let depthLimit = 32

  var found = KeyLines()
  private let bytes: [UInt8]
  private var position = 0
  private var line = 1
  private var table: [KeyLines.Step] = []
  /// How many elements each list of tables has so far.
  private var counts: [[KeyLines.Step]: Int] = [:]

  init(_ text: String) {
    bytes = Array(text.utf8)
    if bytes.starts(with: [0xef, 0xbb, 0xbf]) { position = 3 }
  }

  private var byte: UInt8? { position < bytes.count ? bytes[position] : nil }

  private func sees(_ text: StaticString) -> Bool {
    let size = text.utf8CodeUnitCount
    guard position + size <= bytes.count else { return false }
    return (0..<size).allSatisfy { bytes[position + $0] == text.utf8Start[$0] }
  }

  private mutating func advance(_ count: Int = 1) {
    for _ in 0..<count where position < bytes.count {
      if bytes[position] == UInt8(ascii: "\n") { line += 1 }
      position += 1
    }
  }

  private mutating func skip(while matches: (UInt8) -> Bool) {
    while let byte, matches(byte) { advance() }
  }

  private mutating func skipSpaces() { skip { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") } }
  private mutating func skipLine() { skip { $0 != UInt8(ascii: "\n") } }

  private mutating func skipBlank() {
    while let byte {
      switch byte {
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): advance()
      case UInt8(ascii: "#"): skipLine()
      default: return
      }
    }
  }

  mutating func readDocument() {
    skipBlank()
    while byte != nil {
      if sees("[") { readHeader() } else { readPair(under: table, depth: 0) }
      skipLine()
      skipBlank()
    }
  }

  private mutating func readHeader() {
    let start = line
    let isList = sees("[[")
    advance(isList ? 2 : 1)
    let keys = readKeys()
    var path: [KeyLines.Step] = []
    for (index, key) in keys.enumerated() {
      path.append(.key(key))
      let isLast = index == keys.count - 1
      if let count = counts[path], !(isList && isLast) { path.append(.index(count - 1)) }
      if !isLast { found.note(path, line: start, explicit: false) }
    }
    if isList {
      found.note(path, line: start, explicit: false)
      let index = counts[path, default: 0]
      counts[path] = index + 1
      path.append(.index(index))
    }
    found.note(path, line: start, explicit: true)
    table = path
  }

  /// `a."b.c".d`
  private mutating func readKeys() -> [String] {
    var keys: [String] = []
    while true {
      skipSpaces()
      guard let byte, let key = readKey(byte) else { return keys }
      keys.append(key)
      skipSpaces()
      guard sees(".") else { return keys }
      advance()
    }
  }

  private mutating func readKey(_ first: UInt8) -> String? {
    if first == UInt8(ascii: "\"") || first == UInt8(ascii: "'") { return readString(first) }
    let start = position
    skip { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
      default: false
      }
    }
    return start == position ? nil : String(decoding: bytes[start..<position], as: UTF8.self)
  }

  private mutating func readPair(under table: [KeyLines.Step], depth: Int) {
    let start = line
    let keys = readKeys()
    guard !keys.isEmpty, sees("=") else { return }
    advance()
    skipSpaces()
    var path = table
    for (index, key) in keys.enumerated() {
      path.append(.key(key))
      found.note(path, line: start, explicit: index == keys.count - 1)
    }
    readValue(path, depth: depth)
  }

  private mutating func readValue(_ path: [KeyLines.Step], depth: Int) {
    guard let byte, depth < Self.depthLimit else { return }
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "'"): _ = readString(byte)
    case UInt8(ascii: "["): readList(path, depth: depth)
    case UInt8(ascii: "{"): readInlineTable(path, depth: depth)
    default: skip { !",]}#\n".utf8.contains($0) }
    }
  }

  private mutating func readList(_ path: [KeyLines.Step], depth: Int) {
    advance()
    var index = 0
    while true {
      skipBlank()
      guard byte != nil, !sees("]") else { return advance() }
      let before = position
      found.note(path + [.index(index)], line: line, explicit: false)
      readValue(path + [.index(index)], depth: depth + 1)
      skipBlank()
      if sees(",") { advance() }
      guard position > before else { return }
      index += 1
    }
  }

  private mutating func readInlineTable(_ path: [KeyLines.Step], depth: Int) {
    advance()
    while true {
      skipBlank()
      guard byte != nil, !sees("}") else { return advance() }
      let before = position
      readPair(under: path, depth: depth + 1)
      skipBlank()
      if sees(",") { advance() }
      guard position > before else { return }
    }
  }

  /// A string of any of the four kinds; its text is right for what a key may hold.
  private mutating func readString(_ quote: UInt8) -> String {
    let isLong = quote == UInt8(ascii: "\"") ? sees("\"\"\"") : sees("'''")
    advance(isLong ? 3 : 1)
    var text: [UInt8] = []
    while let byte {
      if byte == quote {
        guard isLong else { break }
        let run = bytes[position...].prefix { $0 == quote }.count
        advance(run)
        if run >= 3 { return String(decoding: text, as: UTF8.self) }
      } else if byte == UInt8(ascii: "\\"), quote == UInt8(ascii: "\"") {
        text += readEscape()
      } else if byte == UInt8(ascii: "\n"), !isLong {
        return String(decoding: text, as: UTF8.self)
      } else {
        text.append(byte)
        advance()
      }
    }
    advance()
    return String(decoding: text, as: UTF8.self)
  }

  private mutating func readEscape() -> [UInt8] {
    advance()
    guard let kind = byte else { return [] }
    advance()
    let size: Int
    switch kind {
    case UInt8(ascii: "n"): return [0x0a]
    case UInt8(ascii: "t"): return [0x09]
    case UInt8(ascii: "r"): return [0x0d]
    case UInt8(ascii: "b"): return [0x08]
    case UInt8(ascii: "f"): return [0x0c]
    case UInt8(ascii: "u"): size = 4
    case UInt8(ascii: "U"): size = 8
    default: return [kind]
    }
    let digits = String(decoding: bytes[position...].prefix(size), as: UTF8.self)
    guard let scalar = UInt32(digits, radix: 16).flatMap(Unicode.Scalar.init) else { return [] }
    advance(size)
    return Array(String(Character(scalar)).utf8)
  }
}
