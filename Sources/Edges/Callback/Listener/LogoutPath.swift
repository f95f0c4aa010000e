/// The URL for providers' logout notices (OpenID Connect Back-Channel Logout §2.5): the prefix, then the provider's
/// name in the configuration.
enum LogoutPath {
  static let prefix = "/backchannel-logout/"
  /// Characters of a provider's name.
  static let longestName = 64

  /// From a request's target; its query is ignored (§2.2 permits one).
  static func leads(_ target: Substring) -> Bool {
    target.utf8.starts(with: prefix.utf8)
  }

  /// The name behind the prefix, percent-decoded (RFC 3986 §2.1). Nil: no provider can have it.
  static func provider(in path: Substring) -> String? {
    var rest = path.utf8.dropFirst(prefix.utf8.count)
    // An encoded character takes three.
    guard leads(path), rest.count <= 3 * longestName else { return nil }
    var name: [UInt8] = []
    while var byte = rest.popFirst() {
      if byte == UInt8(ascii: "%") {
        guard let high = digit(rest.popFirst()), let low = digit(rest.popFirst()) else { return nil }
        byte = high << 4 | low
      }
      guard isNameByte(byte) else { return nil }
      name.append(byte)
    }
    return (1...longestName).contains(name.count) ? String(decoding: name, as: UTF8.self) : nil
  }

  private static func digit(_ byte: UInt8?) -> UInt8? {
    byte.flatMap { Character(Unicode.Scalar($0)).hexDigitValue }.map(UInt8.init)
  }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "@"),
      UInt8(ascii: "+"), UInt8(ascii: "-"):
      true
    default: false
    }
  }
}
