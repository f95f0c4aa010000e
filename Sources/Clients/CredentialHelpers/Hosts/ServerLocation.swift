/// A server, and what of it, as programs name it: `https://user@host:8443/path`, `host:5000`, `sparse+https://host/`.
public struct ServerLocation: Sendable, Equatable {
  /// In lower case; nil if none was given.
  public var scheme: String?
  public var host: HostName
  /// As written; nil if none was given.
  public var port: Int?
  /// Begins with a slash, or is empty.
  public var path: String
  /// From the address.
  public var username: String?

  public init(scheme: String? = nil, host: HostName, port: Int? = nil, path: String = "", username: String? = nil) {
    self.scheme = scheme
    self.host = host
    self.port = port
    self.path = path
    self.username = username
  }

  private static let (slash, question, hash) = (UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"))
  private static let (at, colon) = (UInt8(ascii: "@"), UInt8(ascii: ":"))

  /// Nil where the text names no host (RFC 3986 §3). Queries and fragments are left out.
  ///
  /// It is read by bytes: of characters, a combining one would hide the delimiter before it.
  public init?(_ text: String) {
    guard text.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F && $0 != 0x5C }) else { return nil }
    var rest = text.utf8[...]
    scheme = nil
    if let end = rest.firstRange(of: "://".utf8) {
      let name = String(Substring(rest[..<end.lowerBound])).lowercased()
      guard Self.isScheme(name) else { return nil }
      // For `sparse+https` the transport is used.
      scheme = name.split(separator: "+").last.map(String.init)
      rest = rest[end.upperBound...]
    }
    let authority = rest.prefix { $0 != Self.slash && $0 != Self.question && $0 != Self.hash }
    path = String(Substring(rest[authority.endIndex...].prefix { $0 != Self.question && $0 != Self.hash }))
    var server = authority
    username = nil
    if let at = server.lastIndex(of: Self.at) {
      let user = server[..<at].prefix { $0 != Self.colon }
      username = user.isEmpty ? nil : Percent.decoded(String(Substring(user)))
      server = server[server.index(after: at)...]
    }
    guard let (host, port) = Self.hostAndPort(Substring(server)) else { return nil }
    (self.host, self.port) = (host, port)
  }

  /// `host`, `host:port`, `[::1]:port`.
  static func hostAndPort(_ text: Substring) -> (HostName, Int?)? {
    let text = text.utf8
    var (name, digits): (Substring.UTF8View, Substring.UTF8View?) = (text, nil)
    if text.first == UInt8(ascii: "["), let end = text.lastIndex(of: UInt8(ascii: "]")) {
      name = text[...end]
      let rest = text[text.index(after: end)...]
      guard rest.isEmpty || rest.first == Self.colon else { return nil }
      digits = rest.isEmpty ? nil : rest.dropFirst()
    } else if let colon = text.firstIndex(of: Self.colon) {
      name = text[..<colon]
      digits = text[text.index(after: colon)...]
    }
    guard let host = HostName(String(Substring(name))) else { return nil }
    guard let digits, !digits.isEmpty else { return (host, nil) }
    guard digits.count <= 5, digits.allSatisfy({ (0x30...0x39).contains($0) }),
      let port = Int(String(Substring(digits))),
      (1...65535).contains(port)
    else { return nil }
    return (host, port)
  }

  private static func isScheme(_ name: String) -> Bool {
    guard let first = name.utf8.first, (0x61...0x7A).contains(first) else { return false }
    return name.utf8.allSatisfy {
      (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2B || $0 == 0x2D || $0 == 0x2E
    }
  }

  /// The port that is connected to. A registry without a scheme is asked over https.
  public var effectivePort: Int? {
    if let port { return port }
    return switch scheme {
    case nil, "https", "grpcs": 443
    case "http": 80
    default: nil
    }
  }

  /// Whether others can read it in transit.
  public var isReadable: Bool { ![nil, "https", "grpcs"].contains(scheme) && !host.isLoopback }

  /// As an entry of the mapping names it.
  public var name: String {
    let host = host.description.contains(":") ? "[\(host)]" : host.description
    return effectivePort == 443 ? host : port.map { "\(host):\($0)" } ?? host
  }
}

enum Percent {
  /// RFC 3986 §2.1; an invalid escape is kept.
  static func decoded(_ text: String) -> String {
    guard text.utf8.contains(0x25) else { return text }
    return String(decoding: decoded(text.utf8), as: UTF8.self)
  }

  static func decoded(_ text: some Sequence<UInt8>) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = Array(text)[...]
    while let byte = rest.first {
      rest = rest.dropFirst()
      if byte == 0x25, let high = rest.first.flatMap(digit), let low = rest.dropFirst().first.flatMap(digit) {
        bytes.append(high << 4 | low)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return bytes
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x37
    case 0x61...0x66: byte - 0x57
    default: nil
    }
  }
}
