public import FoundationEssentials

/// The URL of a protected resource, as a user names it (RFC 9728 §1.2).
public struct ResourceURL: Sendable, Equatable, CustomStringConvertible {
  public let url: URL
  private let uri: URI

  /// Https, or plain http on this machine; without user and fragment. Nil: the text is another one.
  public init?(_ text: String) {
    guard text.utf8.count <= Self.longest, let url = Endpoint.url(text, allowInsecureHTTP: false), let uri = URI(text)
    else { return nil }
    self.url = url
    self.uri = uri
  }

  private static let longest = 2048
  private static let wellKnown = "/.well-known/oauth-protected-resource"

  public var description: String { url.absoluteString }

  /// Scheme, host and port as written: `https://mcp.example.com`.
  public var origin: String { "\(uri.scheme)://\(uri.host ?? "")" + (uri.port.map { ":\($0)" } ?? "") }

  public var host: String { (uri.host ?? "").lowercased() }
  /// As written; empty if there is none.
  public var path: String { uri.path }

  /// The URLs of its metadata, in the order to try: with its path, then of the whole host (RFC 9728 §3.1).
  public var metadataURLs: [URL] {
    let path = uri.path == "/" ? "" : uri.path
    let query = uri.query.map { "?" + $0 } ?? ""
    var texts = [origin + Self.wellKnown + path + query]
    if !(path + query).isEmpty { texts.append(origin + Self.wellKnown) }
    return texts.compactMap { URL(string: $0, encodingInvalidCharacters: false) }
  }

  /// Whether the other URL has the same scheme, host and port (RFC 6454 §4).
  public func hasOrigin(of other: String) -> Bool {
    guard let other = URI(other), other.user == nil else { return false }
    return other.scheme.lowercased() == uri.scheme.lowercased() && (other.host ?? "").lowercased() == host
      && other.significantPort == uri.significantPort
  }

  /// Whether the resource of a metadata document is the one at this URL: the same origin, and its path begins this one's
  /// (RFC 9728 §3.3).
  public func belongs(to resource: String) -> Bool {
    guard ResourceIndicator.isValid(resource), hasOrigin(of: resource), let other = URI(resource),
      other.query == nil || other.query == uri.query
    else { return false }
    let path = other.path.hasSuffix("/") ? String(other.path.dropLast()) : other.path
    return path.isEmpty || uri.path == path || uri.path.hasPrefix(path + "/")
  }
}
