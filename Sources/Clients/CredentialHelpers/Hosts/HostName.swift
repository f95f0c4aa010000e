/// A host in the form for comparison: lower case, without the root's dot, non-ASCII labels as Punycode (RFC 5890
/// §2.3.2.1).
public struct HostName: Sendable, Hashable, CustomStringConvertible {
  /// RFC 1035 §2.3.4.
  static let longestName = 253
  static let longestLabel = 63

  public let description: String

  /// Nil if the text is neither a host name nor an IP address. An IPv6 address may be in brackets.
  public init?(_ text: String) {
    guard !text.isEmpty, text.utf8.count <= 4 * Self.longestName else { return nil }
    if text.utf8.contains(UInt8(ascii: ":")) || text.utf8.first == UInt8(ascii: "[") {
      guard let address = Self.address6(text) else { return nil }
      description = address
      return
    }
    let dot = UInt8(ascii: ".")
    let name = text.utf8.last == dot ? text.utf8.dropLast() : text.utf8[...]
    var labels: [String] = []
    for label in name.split(separator: dot, omittingEmptySubsequences: false) {
      guard let label = Self.label(String(Substring(label))) else { return nil }
      labels.append(label)
    }
    let joined = labels.joined(separator: ".")
    guard joined.utf8.count <= Self.longestName else { return nil }
    description = joined
  }

  /// Nothing that is sent there leaves the machine.
  public var isLoopback: Bool {
    description == "localhost" || description.hasSuffix(".localhost") || description == "::1"
      || (description.hasPrefix("127.") && description.utf8.allSatisfy { $0 == 0x2E || (0x30...0x39).contains($0) })
  }

  /// Whether this host is below that one.
  func isBelow(_ other: HostName) -> Bool { description.hasSuffix("." + other.description) }

  private static func label(_ text: String) -> String? {
    let label: String
    if text.utf8.allSatisfy({ $0 < 0x80 }) {
      label = text.lowercased()
    } else {
      // Full-width letters and similar characters are kept, and match no ASCII name.
      guard let encoded = Punycode.encoded(text.lowercased()) else { return nil }
      label = "xn--" + encoded
    }
    guard (1...longestLabel).contains(label.utf8.count), label.first != "-", label.last != "-" else { return nil }
    let isPlain = label.utf8.allSatisfy {
      (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D || $0 == 0x5F
    }
    return isPlain ? label : nil
  }

  /// Compared as written, in lower case: `::1` is not `0:0:0:0:0:0:0:1`.
  private static func address6(_ text: String) -> String? {
    var address = text[...]
    if address.hasPrefix("[") {
      guard address.hasSuffix("]") else { return nil }
      address = address.dropFirst().dropLast()
    }
    guard (2...45).contains(address.utf8.count), address.utf8.count(where: { $0 == 0x3A }) >= 2,
      address.utf8.allSatisfy({ "0123456789abcdefABCDEF:.".utf8.contains($0) })
    else { return nil }
    return address.lowercased()
  }
}
