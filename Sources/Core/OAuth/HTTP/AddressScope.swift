/// The reach of an IP address, from the whole Internet to one link. A request that a document of a server causes goes no
/// nearer than the URL that the user named: such a document must not direct the broker to other servers of this network or
/// machine.
public enum AddressScope: Int, Sendable, Codable, Comparable, CaseIterable {
  /// Public addresses.
  case global
  /// Private networks (RFC 1918, RFC 4193, RFC 6598).
  case site
  /// This machine (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3).
  case machine
  /// Link-local addresses (RFC 3927, RFC 4291 §2.5.6), among them the metadata services of clouds, and all addresses that
  /// are not of one host.
  case link

  public static func < (one: AddressScope, other: AddressScope) -> Bool { one.rawValue < other.rawValue }

  /// The scope of a numeric address, without brackets; nil: the text is not one.
  public init?(_ text: String) {
    if let bytes = Self.four(text[...]) {
      self = Self.scope(bytes)
    } else if let bytes = Self.sixteen(text) {
      self = Self.scope(sixteen: bytes)
    } else {
      return nil
    }
  }

  /// The 4 or 16 bytes of a numeric address, without brackets; nil: the text is not one.
  static func bytes(of text: String) -> [UInt8]? { four(text[...]) ?? sixteen(text) }

  /// For errors: `a private address`.
  public var words: String {
    switch self {
    case .global: "a public address"
    case .site: "a private address"
    case .machine: "an address of this machine"
    case .link: "a link-local or reserved address"
    }
  }

  // MARK: IPv4

  private static func scope(_ bytes: [UInt8]) -> AddressScope {
    switch (bytes[0], bytes[1], bytes[2]) {
    case (10, _, _), (172, 16...31, _), (192, 168, _), (100, 64...127, _): .site
    case (127, _, _): .machine
    // "This network", link-local, protocol assignments, benchmarks, multicast and the rest (RFC 6890).
    case (0, _, _), (169, 254, _), (192, 0, 0), (198, 18...19, _), (224..., _, _): .link
    default: .global
    }
  }

  private static func four(_ text: Substring) -> [UInt8]? {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 4 else { return nil }
    let bytes = parts.compactMap { part in
      part.utf8.count <= 3 && part.utf8.allSatisfy { (0x30...0x39).contains($0) } ? UInt8(part) : nil
    }
    return bytes.count == 4 ? bytes : nil
  }

  // MARK: IPv6

  private static func scope(sixteen bytes: [UInt8]) -> AddressScope {
    let isZero = { (range: Range<Int>) in bytes[range].allSatisfy { $0 == 0 } }
    // IPv4 in an IPv6 address: mapped and compatible (RFC 4291 §2.5.5), translated (RFC 6052 §2.1), 6to4 (RFC 3056 §2).
    if isZero(0..<10), bytes[10] == 0xFF, bytes[11] == 0xFF { return scope(Array(bytes[12...])) }
    if isZero(0..<15) { return bytes[15] == 1 ? .machine : .link }
    if isZero(0..<12) { return scope(Array(bytes[12...])) }
    if bytes.starts(with: [0x00, 0x64, 0xFF, 0x9B]), isZero(4..<12) { return scope(Array(bytes[12...])) }
    if bytes.starts(with: [0x20, 0x02]) { return scope(Array(bytes[2..<6])) }
    switch (bytes[0], bytes[1]) {
    case (0xFC...0xFD, _): return .site
    // Unicast addresses of the Internet are in 2000::/3 (RFC 4291 §2.4).
    case (0x20...0x3F, _): return .global
    // Site-local, no longer used (RFC 3879).
    case (0xFE, 0xC0...): return .site
    default: return .link
    }
  }

  private static func sixteen(_ text: String) -> [UInt8]? {
    guard text.contains(":"), text.utf8.count <= 45 else { return nil }
    let halves = Self.halves(text)
    guard (1...2).contains(halves.count) else { return nil }
    var sides: [[UInt8]] = []
    for half in halves {
      guard let bytes = groups(half) else { return nil }
      sides.append(bytes)
    }
    let count = sides.reduce(0) { $0 + $1.count }
    if sides.count == 1 { return count == 16 ? sides[0] : nil }
    guard count <= 14 else { return nil }
    return sides[0] + Array(repeating: 0, count: 16 - count) + sides[1]
  }

  /// Before and after each `::`.
  private static func halves(_ text: String) -> [Substring] {
    var (rest, found) = (text[...], [Substring]())
    while let range = rest.firstRange(of: "::") {
      found.append(rest[..<range.lowerBound])
      rest = rest[range.upperBound...]
    }
    return found + [rest]
  }

  private static func groups(_ half: Substring) -> [UInt8]? {
    guard !half.isEmpty else { return [] }
    var bytes: [UInt8] = []
    let parts = half.split(separator: ":", omittingEmptySubsequences: false)
    for (index, part) in parts.enumerated() {
      if index == parts.count - 1, let last = four(part) {
        bytes += last
      } else {
        guard (1...4).contains(part.utf8.count), let group = UInt16(part, radix: 16), part.first != "+" else {
          return nil
        }
        bytes += [UInt8(group >> 8), UInt8(group & 0xFF)]
      }
    }
    return bytes
  }
}
