/// `helper.toml`: tables `[[host]]` of strings, lists of strings and booleans, a part of TOML 1.0.
public enum MappingFile {
  public struct Fault: Error, Equatable {
    public var line: Int
    public var message: String
  }

  private enum Value: Equatable {
    case text(String)
    case texts([String])
    case bool(Bool)
  }

  public static func parse(_ text: String) throws(Fault) -> [Mapping.Entry] {
    var entries: [Mapping.Entry] = []
    var table: (line: Int, keys: [(String, Value)])?
    var number = 0
    for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
      number += 1
      var scanner = Scanner(line: number, rest: line)
      scanner.skipSpace()
      guard !scanner.isAtEnd else { continue }
      if scanner.consume("[[host]]") {
        try scanner.end()
        if let table { entries.append(try entry(table.keys, table.line)) }
        table = (number, [])
        continue
      }
      guard table != nil else { throw Fault(line: number, message: "the first line of an entry is [[host]]") }
      let key = try scanner.key()
      let value = try scanner.value()
      try scanner.end()
      guard table?.keys.contains(where: { $0.0 == key }) == false else {
        throw Fault(line: number, message: "\(key) is there twice")
      }
      table?.keys.append((key, value))
    }
    if let table { entries.append(try entry(table.keys, table.line)) }
    return entries
  }

  private static func entry(_ keys: [(String, Value)], _ line: Int) throws(Fault) -> Mapping.Entry {
    func fault(_ message: String) -> Fault { Fault(line: line, message: message) }
    func text(_ name: String) throws(Fault) -> String? {
      guard let value = keys.first(where: { $0.0 == name })?.1 else { return nil }
      guard case .text(let text) = value, !text.isEmpty else { throw fault("\(name) is a text") }
      return text
    }
    func texts(_ name: String) throws(Fault) -> [String] {
      guard let value = keys.first(where: { $0.0 == name })?.1 else { return [] }
      guard case .texts(let texts) = value else { throw fault("\(name) is a list of texts") }
      return texts
    }
    guard let name = try text("name") else { throw fault("name is missing: the host, such as \"git.example.com\"") }
    guard let account = try text("account") else {
      throw fault("account is missing: its name, as `grantctl list` has it")
    }
    let isWildcard = name.hasPrefix("*.")
    guard let (host, port) = ServerLocation.hostAndPort(isWildcard ? name.dropFirst(2) : name[...]) else {
      throw fault("name is a host, host:port or *.domain, without a scheme and a path")
    }
    var entry = Mapping.Entry(host: host, account: account)
    (entry.isWildcard, entry.port) = (isWildcard, port)
    entry.path = try text("path")
    guard entry.path?.utf8.first ?? UInt8(ascii: "/") == UInt8(ascii: "/") else {
      throw fault("path begins with a slash")
    }
    guard entry.path.map({ !Mapping.Entry.isAmbiguous(path: $0.utf8) }) ?? true else {
      throw fault("path has an encoded slash, a backslash or a dot segment: no address is below it")
    }
    entry.username = try text("username")
    entry.scopes = try texts("scopes")
    entry.resource = try text("resource")
    entry.helpers = try texts("helpers")
    if let unknown = entry.helpers.first(where: { Protocols.named($0) == nil }) {
      throw fault("helpers has \"\(unknown)\": there are \(Protocols.names.joined(separator: ", "))")
    }
    switch try text("authtype") {
    case nil, "basic": break
    case "bearer": entry.isBearer = true
    default: throw fault("authtype is \"basic\" or \"bearer\"")
    }
    if let value = keys.first(where: { $0.0 == "allow_insecure_http" })?.1 {
      guard case .bool(let allows) = value else { throw fault("allow_insecure_http is true or false") }
      entry.allowsInsecureHTTP = allows
    }
    if let unknown = keys.first(where: { !Self.keys.contains($0.0) })?.0 {
      throw fault("there is no key \(unknown): there are \(Self.keys.joined(separator: ", "))")
    }
    return entry
  }

  /// docs/helpers.md has the same; a test compares.
  public static let keys = [
    "name", "account", "path", "username", "scopes", "resource", "helpers", "authtype", "allow_insecure_http",
  ]

  private struct Scanner {
    let line: Int
    var rest: Substring

    var isAtEnd: Bool { rest.isEmpty || rest.first == "#" }

    mutating func skipSpace() { rest = rest.drop { $0 == " " || $0 == "\t" } }

    mutating func consume(_ word: String) -> Bool {
      guard rest.hasPrefix(word) else { return false }
      rest = rest.dropFirst(word.count)
      return true
    }

    func fault(_ message: String) -> Fault { Fault(line: line, message: message) }

    func end() throws(Fault) {
      var copy = self
      copy.skipSpace()
      guard copy.isAtEnd else { throw fault("one key to a line, and nothing behind its value") }
    }

    mutating func key() throws(Fault) -> String {
      let key = rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_" || $0 == "-") }
      rest = rest.dropFirst(key.count)
      skipSpace()
      guard !key.isEmpty, consume("=") else { throw fault("a line is KEY = VALUE, [[host]] or a comment") }
      skipSpace()
      return String(key)
    }

    mutating func value() throws(Fault) -> Value {
      if consume("true") { return .bool(true) }
      if consume("false") { return .bool(false) }
      guard consume("[") else { return .text(try text()) }
      var texts: [String] = []
      while true {
        skipSpace()
        if consume("]") { return .texts(texts) }
        texts.append(try text())
        skipSpace()
        guard consume(",") || rest.first == "]" else { throw fault("a list is [\"a\", \"b\"], on one line") }
      }
    }

    mutating func text() throws(Fault) -> String {
      if consume("'") {
        let text = rest.prefix { $0 != "'" }
        rest = rest.dropFirst(text.count)
        guard consume("'") else { throw fault("a text has no end") }
        return String(text)
      }
      guard consume("\"") else { throw fault("a text is in quotation marks") }
      var text = ""
      while let next = rest.popFirst() {
        switch next {
        case "\"": return text
        case "\\":
          guard let escaped = rest.popFirst(), escaped == "\"" || escaped == "\\" else {
            throw fault("in a text \\\" and \\\\ are the only escapes")
          }
          text.append(escaped)
        default: text.append(next)
        }
      }
      throw fault("a text has no end")
    }
  }
}
