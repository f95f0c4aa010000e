/// The short addresses of logins: the prefix, then a random token. They lead to the provider, once.
enum LinkPath {
  static let prefix = "/go/"
  /// Characters of a token.
  static let longestToken = 128

  /// Nil: the path is none of a link.
  static func token(in path: Substring) -> String? {
    let token = path.utf8.dropFirst(prefix.utf8.count)
    guard path.utf8.starts(with: prefix.utf8), (1...longestToken).contains(token.count),
      token.allSatisfy(isTokenByte)
    else { return nil }
    return String(token)
  }

  /// The alphabet of base64url (RFC 4648 §5).
  private static func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
      true
    default: false
    }
  }
}
