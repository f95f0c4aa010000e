/// The redirect URI of the authorization response (RFC 6749 §3.1.2), exactly as registered: both endpoints get the same
/// string. Custom schemes without a host are allowed (RFC 8252 §7.1).
public struct RedirectURI: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
  public let rawValue: String
  private let uri: URI

  public init(_ text: String) throws(RedirectURIError) {
    guard let uri = URI(text), text.utf8.allSatisfy({ $0 < 0x7f }),
      uri.query.map({ FormEncoding.decode($0) != nil }) ?? true
    else { throw .notAURI(text.printable(limit: 512)) }
    guard uri.fragment == nil else { throw .fragment(text.printable(limit: 512)) }
    let isWeb = ["http", "https"].contains(uri.scheme.lowercased())
    guard !(uri.host ?? "").isEmpty || !isWeb else { throw .noHost(text.printable(limit: 512)) }
    rawValue = text
    self.uri = uri
  }

  public init?(rawValue: String) {
    guard let value = try? RedirectURI(rawValue) else { return nil }
    self = value
  }

  public static func == (lhs: Self, rhs: Self) -> Bool { lhs.rawValue == rhs.rawValue }

  public func hash(into hasher: inout Hasher) { hasher.combine(rawValue) }

  public var description: String { rawValue }

  public var scheme: String { uri.scheme.lowercased() }

  /// Whether a browser can open it directly.
  public var isWeb: Bool { ["http", "https"].contains(scheme) }

  /// The host in lower case; IPv6 literals keep their brackets.
  public var host: String? { uri.host?.lowercased() }

  /// The explicit port; nil if there is none.
  public var port: Int? { uri.port }

  /// The path, percent-encoded as written; `/` if a web URL has none.
  public var path: String { Self.path(of: uri) }

  /// Scheme and host in lower case, and the port if it is not the scheme's default (RFC 6454 §6.2):
  /// `https://broker.example.com`. Nil if there is no host.
  public var origin: String? {
    host.map { "\(scheme)://\($0)\(uri.significantPort.map { ":\($0)" } ?? "")" }
  }

  /// Whether its listener is on this machine (RFC 8252 §7.3): plain http to 127.0.0.0/8, [::1] or localhost.
  public var isLoopback: Bool { scheme == "http" && uri.isLoopback }

  /// The same with another port: a loopback listener uses a free one (RFC 8252 §7.3).
  public func replacingPort(_ port: UInt16) -> RedirectURI {
    guard let host = uri.host else { return self }
    let user = uri.user.map { "\($0)@" } ?? ""
    let query = uri.query.map { "?\($0)" } ?? ""
    return RedirectURI(rawValue: "\(uri.scheme)://\(user)\(host):\(port)\(uri.path)\(query)") ?? self
  }

  /// The same with an appended path segment, which is not escaped.
  public func appending(_ segment: String) -> RedirectURI {
    let end = rawValue.utf8.firstIndex(of: UInt8(ascii: "?")) ?? rawValue.endIndex
    let start = rawValue[..<end]
    let slash = start.hasSuffix("/") ? "" : "/"
    return RedirectURI(rawValue: "\(start)\(slash)\(segment)\(rawValue[end...])") ?? self
  }

  /// Whether `url` is a request to this redirect URI: scheme and host equal without case, user, port and path equal,
  /// and the parameters of this URI included in those of `url`.
  public func matches(_ url: String) -> Bool { URI(url).map(matches) ?? false }

  func matches(_ other: URI) -> Bool {
    guard other.scheme.lowercased() == scheme, other.host?.lowercased() == host, other.user == uri.user,
      other.significantPort == uri.significantPort, Self.path(of: other) == path
    else { return false }
    guard let query = uri.query else { return true }
    guard let wanted = FormEncoding.decode(query), let found = FormEncoding.decode(other.query ?? "") else {
      return false
    }
    return wanted.allSatisfy(found.contains)
  }

  private static func path(of uri: URI) -> String {
    uri.path.isEmpty && ["http", "https"].contains(uri.scheme.lowercased()) ? "/" : uri.path
  }
}

public enum RedirectURIError: Error, Equatable, Sendable, CustomStringConvertible {
  case notAURI(String)
  case fragment(String)
  case noHost(String)

  public var description: String {
    switch self {
    case .notAURI(let text):
      "the redirect URI “\(text)” is not an absolute URI: write it exactly as it is registered at the provider"
    case .fragment(let text): "the redirect URI “\(text)” has a fragment: remove everything from # on (RFC 6749 §3.1.2)"
    case .noHost(let text): "the redirect URI “\(text)” names no host: write it as http://127.0.0.1/callback"
    }
  }
}
