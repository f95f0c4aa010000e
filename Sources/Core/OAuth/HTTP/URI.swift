/// The parts of a URI (RFC 3986), exactly as written; Foundation's `URL` corrects its input.
struct URI: Equatable {
  var scheme: String
  var user: String?
  var host: String?
  var port: Int?
  var path: String
  var query: String?
  var fragment: String?

  static let maximumBytes = 64 << 10

  /// Nil if the text is not an absolute URI.
  init?(_ text: some StringProtocol) {
    // By bytes: a combining mark after a delimiter makes another Character of it.
    guard text.utf8.count <= Self.maximumBytes, let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else {
      return nil
    }
    guard !text.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7f }) else { return nil }
    scheme = String(text[..<colon])
    guard let first = scheme.utf8.first, Self.isLetter(first), scheme.utf8.allSatisfy(Self.isScheme) else { return nil }

    var rest = text[text.utf8.index(after: colon)...]
    if let hash = rest.utf8.firstIndex(of: UInt8(ascii: "#")) {
      fragment = String(rest[rest.utf8.index(after: hash)...])
      rest = rest[..<hash]
    }
    if let mark = rest.utf8.firstIndex(of: UInt8(ascii: "?")) {
      query = String(rest[rest.utf8.index(after: mark)...])
      rest = rest[..<mark]
    }
    guard rest.utf8.allSatisfy(Self.isPlain) else { return nil }
    path = String(rest)
    if rest.hasPrefix("//") {
      let authority = rest.dropFirst(2).prefix { $0 != "/" }
      path = String(rest.dropFirst(2).dropFirst(authority.count))
      guard readAuthority(authority) else { return nil }
    }
  }

  private mutating func readAuthority(_ authority: some StringProtocol) -> Bool {
    var rest = String(authority)
    if let at = rest.lastIndex(of: "@") {
      user = String(rest[..<at])
      rest = String(rest[rest.index(after: at)...])
    }
    let hostEnd = rest.hasPrefix("[") ? rest.firstIndex(of: "]").map(rest.index(after:)) : rest.firstIndex(of: ":")
    if rest.hasPrefix("["), hostEnd == nil { return false }
    host = String(rest[..<(hostEnd ?? rest.endIndex)])
    let tail = rest[(hostEnd ?? rest.endIndex)...]
    if tail.isEmpty { return true }
    guard tail.hasPrefix(":"), tail.utf8.dropFirst().allSatisfy({ (0x30...0x39).contains($0) }),
      let number = UInt16(tail.dropFirst())
    else { return false }
    port = Int(number)
    return true
  }

  private static func isLetter(_ byte: UInt8) -> Bool { (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte) }

  private static func isScheme(_ byte: UInt8) -> Bool {
    isLetter(byte) || (0x30...0x39).contains(byte) || "+-.".utf8.contains(byte)
  }

  /// The characters allowed in scheme, authority and path; a query is as lenient as in user agents.
  private static func isPlain(_ byte: UInt8) -> Bool {
    byte < 0x7f && !"\\<>\"{}|^`".utf8.contains(byte)
  }

  /// The port; nil if it is the scheme's default.
  var significantPort: Int? {
    switch (scheme.lowercased(), port) {
    case ("http", 80), ("https", 443): nil
    default: port
    }
  }

  /// Whether the host is a loopback address or `localhost` (RFC 6761 §6.3).
  var isLoopback: Bool {
    guard let host = host?.lowercased() else { return false }
    if host == "localhost" || host == "[::1]" { return true }
    let octets = host.split(separator: ".", omittingEmptySubsequences: false)
    return octets.count == 4 && octets[0] == "127" && octets.allSatisfy { UInt8($0) != nil }
  }

  /// Whether a request may be sent there: https, plain http to this machine, or plain http anywhere if allowed.
  func isSafe(allowInsecureHTTP: Bool) -> Bool {
    switch scheme.lowercased() {
    case "https": true
    case "http": allowInsecureHTTP || isLoopback
    default: false
    }
  }
}
