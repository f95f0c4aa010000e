public import FoundationEssentials

/// An authorization server's issuer identifier (RFC 8414 §2), exactly as written: a trailing slash is significant.
public struct Issuer: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
  public let rawValue: String

  /// Parses an issuer from the configuration. Plain http is allowed only for this machine, unless `allowInsecureHTTP`.
  public init(_ text: String, allowInsecureHTTP: Bool) throws(IssuerError) {
    guard let uri = URI(text), let host = uri.host, !host.isEmpty, uri.user == nil,
      URL(string: text, encodingInvalidCharacters: false) != nil
    else { throw .notAURL(text.printable(limit: 512)) }
    guard uri.isSafe(allowInsecureHTTP: allowInsecureHTTP) else { throw .notHTTPS(text.printable(limit: 512)) }
    guard uri.query == nil, uri.fragment == nil else { throw .queryOrFragment(text.printable(limit: 512)) }
    rawValue = text
  }

  /// An issuer that was validated before, from the store: plain http is not checked again.
  public init?(rawValue: String) {
    guard let issuer = try? Issuer(rawValue, allowInsecureHTTP: true) else { return nil }
    self = issuer
  }

  public var description: String { rawValue }

  /// The URL of the metadata (OpenID Connect Discovery §4, RFC 8414 §3.1).
  public func discoveryURL(_ style: DiscoveryStyle) -> URL {
    let base = rawValue.hasSuffix("/") ? String(rawValue.dropLast()) : rawValue
    let text: String
    switch style {
    case .openID:
      text = base + "/.well-known/openid-configuration"
    case .oauth, .openIDInserted:
      let path = URI(base)?.path ?? ""
      let name = style == .oauth ? "oauth-authorization-server" : "openid-configuration"
      text = base.dropLast(path.count) + "/.well-known/\(name)" + path
    }
    guard let url = URL(string: text, encodingInvalidCharacters: false) else {
      preconditionFailure("an issuer is a URL, and so is its well-known address")
    }
    return url
  }

  /// The request for the metadata.
  public func discoveryRequest(_ style: DiscoveryStyle) -> HTTPRequest {
    HTTPRequest(
      purpose: .discovery, method: "GET", url: discoveryURL(style), headers: [.init("Accept", "application/json")])
  }
}

/// The position of the well-known path in the metadata URL.
public enum DiscoveryStyle: String, Sendable, Codable, CaseIterable {
  /// Appended to the issuer (OpenID Connect Discovery §4).
  case openID = "openid"
  /// Between host and path (RFC 8414 §3.1).
  case oauth
  /// The OpenID document between host and path (RFC 8414 §5).
  case openIDInserted = "openid_inserted"

  /// Whether the document is that of an OpenID provider.
  public var isOpenID: Bool {
    switch self {
    case .openID, .openIDInserted: true
    case .oauth: false
    }
  }
}

extension Issuer {
  /// The locations of the metadata for an issuer of unknown kind, in the order to try (RFC 8414 §5).
  public var discoveryStyles: [DiscoveryStyle] {
    let path = URI(rawValue)?.path ?? ""
    return path.isEmpty || path == "/" ? [.oauth, .openID] : [.oauth, .openIDInserted, .openID]
  }
}

public enum IssuerError: Error, Equatable, Sendable, CustomStringConvertible {
  case notAURL(String)
  case notHTTPS(String)
  case queryOrFragment(String)

  public var description: String {
    switch self {
    case .notAURL(let text):
      "the issuer “\(text)” is not a URL: write it as the provider does, such as https://login.example.com"
    case .notHTTPS(let text):
      "the issuer “\(text)” is not https"
    case .queryOrFragment(let text):
      "the issuer “\(text)” has a query or a fragment: remove everything from ? or # on (RFC 8414 §2)"
    }
  }

  /// The issuer with the scheme `https`; nil: its lack is not the error, or the text is more than a host and a path.
  public var withScheme: String? {
    guard case .notAURL(let text) = self, !text.contains("://") else { return nil }
    let isPlain = text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || ".-:/_".contains($0)) }
    return isPlain ? (try? Issuer("https://" + text, allowInsecureHTTP: false))?.rawValue : nil
  }

  /// The same issuer over https, without the port of plain http; nil: its scheme is not the error.
  public var withHTTPS: String? {
    guard case .notHTTPS(let text) = self, let scheme = text.firstRange(of: "://") else { return nil }
    let rest = text[scheme.upperBound...]
    let authority = rest.prefix { $0 != "/" }
    let host = authority.hasSuffix(":80") ? authority.dropLast(3) : authority
    return "https://\(host)\(rest[authority.endIndex...])"
  }
}

/// How an issuer in a document or a token may differ from the configured one. Named exceptions, never fuzzy matching.
public enum IssuerRule: String, Sendable, Codable, CaseIterable {
  /// String-identical (RFC 8414 §3.3, OpenID Connect Core §3.1.3.7).
  case exact
  /// Microsoft Entra's shared metadata says `{tenantid}` for the first path segment; a token has its `tid` there.
  case entraTenant = "entra_tenant"
  /// Google's ID tokens may say `accounts.google.com`, without the scheme.
  case google

  private static let tenant = "{tenantid}"

  /// Whether metadata with this issuer are valid for the configured one.
  func acceptsDocument(_ found: String, expected: String) -> Bool {
    if found == expected { return true }
    guard self == .entraTenant, let uri = URI(expected) else { return false }
    let segments = uri.path.split(separator: "/", omittingEmptySubsequences: false)
    guard segments.count >= 2, !segments[1].isEmpty else { return false }
    let origin = expected.dropLast(uri.path.count)
    let rest = segments.dropFirst(2).map { "/" + $0 }.joined()
    return found == origin + "/" + Self.tenant + rest
  }

  /// Whether a token or authorization response with this `iss` comes from the issuer of the metadata.
  ///
  /// - Parameter tenant: the token's `tid`; nil for an authorization response, which has none.
  func acceptsMessage(_ found: String, expected: String, tenant: String?) -> Bool {
    if found == expected { return !found.contains(Self.tenant) }
    switch self {
    case .exact: return false
    case .google: return expected == "https://accounts.google.com" && found == "accounts.google.com"
    case .entraTenant:
      let parts = expected.components(separatedBy: Self.tenant)
      guard parts.count == 2, found.hasPrefix(parts[0]), found.hasSuffix(parts[1]) else { return false }
      let named = tenant ?? String(found.dropFirst(parts[0].count).dropLast(parts[1].count))
      return UUID(uuidString: named) != nil && found == parts[0] + named + parts[1]
    }
  }
}
