/// Hosts that are requested without a proxy: the value of `no_proxy`. Names are never looked up.
///
/// - `*`: all hosts.
/// - `example.com`: the host and its subdomains. `.example.com`, `*.example.com`: only its subdomains.
/// - `192.0.2.7`, `2001:db8::7`: an address. `192.0.2.0/24`, `2001:db8::/32`: the addresses of a network.
/// - Each with a port, such as `example.com:8443` or `[2001:db8::7]:8443`: only at that port. Networks have none.
public struct ProxyExceptions: Sendable, Hashable {
  /// The most patterns of a list.
  public static let most = 200

  private enum Pattern: Sendable, Hashable {
    case all
    case name(String, withHost: Bool)
    case network([UInt8], bits: Int)
  }

  private struct Exception: Sendable, Hashable {
    var pattern: Pattern
    var port: Int?
  }

  private var exceptions: [Exception] = []

  public init() {}

  /// Adds a pattern. Returns false, and adds nothing, if the text is not one.
  public mutating func insert(_ text: String) -> Bool {
    guard exceptions.count < Self.most, let exception = Self.exception(text.lowercased()) else { return false }
    exceptions.append(exception)
    return true
  }

  /// - Parameter host: in lower case, without brackets.
  public func contains(host: String, port: Int) -> Bool {
    guard !exceptions.isEmpty else { return false }
    let address = AddressScope.bytes(of: host)
    let name = host.hasSuffix(".") ? String(host.dropLast()) : host
    return exceptions.contains { exception in
      guard exception.port ?? port == port else { return false }
      switch exception.pattern {
      case .all: return true
      case .name(let pattern, let withHost):
        return address == nil && (withHost && name == pattern || name.hasSuffix("." + pattern))
      case .network(let network, let bits): return address.map { Self.isIn($0, network, bits) } ?? false
      }
    }
  }

  // MARK: Patterns

  private static func exception(_ text: String) -> Exception? {
    if text == "*" { return Exception(pattern: .all) }
    if let slash = text.lastIndex(of: "/") {
      guard let network = AddressScope.bytes(of: String(text[..<slash])),
        let bits = number(text[text.index(after: slash)...], to: network.count * 8)
      else { return nil }
      return Exception(pattern: .network(network, bits: bits))
    }
    if let address = AddressScope.bytes(of: text) { return whole(address, port: nil) }
    guard let (host, port) = split(text) else { return nil }
    if let address = AddressScope.bytes(of: host) { return whole(address, port: port) }
    var name = host
    let isSuffix = name.hasPrefix("*.") || name.hasPrefix(".")
    if isSuffix { name.removeFirst(name.hasPrefix("*") ? 2 : 1) }
    if name.hasSuffix(".") { name.removeLast() }
    let isName = name.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { label in
      !label.isEmpty
        && label.utf8.allSatisfy { (0x61...0x7a).contains($0) || (0x30...0x39).contains($0) || "-_".utf8.contains($0) }
    }
    guard isName, name.utf8.count <= 253 else { return nil }
    return Exception(pattern: .name(name, withHost: !isSuffix), port: port)
  }

  private static func whole(_ address: [UInt8], port: Int?) -> Exception {
    Exception(pattern: .network(address, bits: address.count * 8), port: port)
  }

  /// Host and port of `host`, `host:port`, `[address]` and `[address]:port`.
  private static func split(_ text: String) -> (host: String, port: Int?)? {
    var (host, rest) = (text[...], Substring())
    if text.hasPrefix("[") {
      guard let end = text.firstIndex(of: "]") else { return nil }
      host = text[text.index(after: text.startIndex)..<end]
      rest = text[text.index(after: end)...]
      guard host.contains(":") else { return nil }
    } else if let colon = text.firstIndex(of: ":") {
      host = text[..<colon]
      rest = text[colon...]
    }
    guard !rest.isEmpty else { return (String(host), nil) }
    guard rest.first == ":", let port = number(rest.dropFirst(), to: 65_535), port > 0 else { return nil }
    return (String(host), port)
  }

  private static func number(_ text: Substring, to most: Int) -> Int? {
    guard (1...5).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
      let number = Int(text), number <= most
    else { return nil }
    return number
  }

  private static func isIn(_ address: [UInt8], _ network: [UInt8], _ bits: Int) -> Bool {
    guard address.count == network.count else { return false }
    let whole = bits / 8
    guard address.prefix(whole) == network.prefix(whole) else { return false }
    guard bits % 8 > 0 else { return true }
    let mask = UInt8(truncatingIfNeeded: 0xFF00 >> (bits % 8))
    return address[whole] & mask == network[whole] & mask
  }
}
