public import FoundationEssentials
public import Grants
public import OAuth

/// The settings that all sign-in systems without OAuth have in common.
public struct SiteSettings: Sendable, Equatable {
  public var name: ProviderName
  /// The shipped template, if any.
  public var profile: String?
  public var displayName: String
  /// The base URL of all paths. https, or http for this machine.
  public var baseURL: URL
  /// The URL that the browser returns to. The system has it in its own configuration.
  public var redirect: ProviderSettings.Redirect
  /// The base URL of relative authorised calls; nil: the system's base URL.
  public var apiBase: URL?
  /// Additional origins for authorised calls.
  public var apiOrigins: [URL] = []
  /// Certificate authorities in addition to the system's, and a client certificate.
  public var tls: TLSChoice?
  public var allowInsecureHTTP = false
  /// The time limit for a sign-in and for any required registration.
  public var loginLifetime: Duration = .seconds(600)

  public init(name: ProviderName, displayName: String, baseURL: URL, redirect: ProviderSettings.Redirect) {
    self.name = name
    self.displayName = displayName
    self.baseURL = baseURL
    self.redirect = redirect
  }

  /// A URL within the system.
  ///
  /// - Parameter segments: path segments, appended to the base path and escaped here.
  func url(_ segments: [String], query: [Parameter] = []) -> URL {
    let base = baseURL.absoluteString
    var text = base.hasSuffix("/") ? String(base.dropLast()) : base
    for segment in segments { text += "/" + Self.escape(segment) }
    if !query.isEmpty {
      text += "?" + query.map { "\(Self.escape($0.name))=\(Self.escape($0.value))" }.joined(separator: "&")
    }
    return URL(string: text, encodingInvalidCharacters: false) ?? baseURL
  }

  /// Escapes all but the unreserved characters (RFC 3986 §2.3), so that no character ends the segment.
  private static func escape(_ text: String) -> String {
    text.utf8.map { byte in
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: String(Unicode.Scalar(byte))
      case _ where "-._~".utf8.contains(byte): String(Unicode.Scalar(byte))
      default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
      }
    }.joined()
  }

  /// Whether the URL is allowed for a browser or a request.
  func isSafe(_ text: String) -> Bool { Endpoint.url(text, allowInsecureHTTP: allowInsecureHTTP) != nil }
}

// Common to these systems: sessions that no program can renew, and no OAuth.
extension SiteSettings {
  /// - Parameter client: the system's name for this client.
  func description(kind: String, client: String) -> ProviderDescription {
    ProviderDescription(
      kind: kind, profile: profile, displayName: displayName, issuer: nil, clientID: client,
      server: baseURL.absoluteString)
  }

  var authorization: AuthorizationTraits {
    AuthorizationTraits(redirect: .init(redirect), usesPKCE: false, lifetime: loginLifetime)
  }

  /// - Parameter standard: the base URL of calls, if none is configured.
  func api(standard: URL) -> APITraits {
    APITraits(base: apiBase ?? standard, origins: [baseURL] + apiOrigins)
  }
}

extension LoginRequest {
  /// Warns of requested options that such systems do not support, so that the user does not rely on them.
  func warnings(of kind: String) -> [String] {
    let asked = [
      ("scopes", !scopes.isEmpty), ("resource", resource != nil), ("prompt", prompt != nil),
      ("login_hint", loginHint != nil), ("params", !parameters.isEmpty),
    ]
    let ignored = asked.filter(\.1).map(\.0)
    guard !ignored.isEmpty else { return [] }
    return ["left out, since providers of kind \(kind) know no such thing: \(ignored.joined(separator: ", "))"]
  }
}
