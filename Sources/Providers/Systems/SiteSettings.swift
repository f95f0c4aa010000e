public import FoundationEssentials
public import Grants
public import OAuth

/// What is configured of a sign-in system that speaks no OAuth, of whatever kind.
public struct SiteSettings: Sendable, Equatable {
  public var name: ProviderName
  /// The shipped template, if any.
  public var profile: String?
  public var displayName: String
  /// Where the system is: what all its paths begin with. https, or http to this machine.
  public var baseURL: URL
  /// Where the system sends the browser back to. It knows that from its own configuration.
  public var redirect: ProviderSettings.Redirect
  /// What an authorised call may be relative to; nil: to the system itself.
  public var apiBase: URL?
  /// Further places of authorised calls.
  public var apiOrigins: [URL] = []
  /// Authorities to trust besides the system's, and a certificate of our own.
  public var tls: TLSChoice?
  public var allowInsecureHTTP = false
  /// How long a person may take to sign in, or to do what is asked for then.
  public var loginLifetime: Duration = .seconds(600)

  public init(name: ProviderName, displayName: String, baseURL: URL, redirect: ProviderSettings.Redirect) {
    self.name = name
    self.displayName = displayName
    self.baseURL = baseURL
    self.redirect = redirect
  }

  /// An address within the system.
  ///
  /// - Parameter segments: of the path, behind that of the base; escaped here.
  func url(_ segments: [String], query: [Parameter] = []) -> URL {
    let base = baseURL.absoluteString
    var text = base.hasSuffix("/") ? String(base.dropLast()) : base
    for segment in segments { text += "/" + Self.escape(segment) }
    if !query.isEmpty {
      text += "?" + query.map { "\(Self.escape($0.name))=\(Self.escape($0.value))" }.joined(separator: "&")
    }
    return URL(string: text, encodingInvalidCharacters: false) ?? baseURL
  }

  /// All but the unreserved characters (RFC 3986 §2.3), so that nothing ends the segment.
  private static func escape(_ text: String) -> String {
    text.utf8.map { byte in
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: String(Unicode.Scalar(byte))
      case _ where "-._~".utf8.contains(byte): String(Unicode.Scalar(byte))
      default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
      }
    }.joined()
  }

  /// Whether a browser, or a request, may be sent there.
  func isSafe(_ text: String) -> Bool { Endpoint.url(text, allowInsecureHTTP: allowInsecureHTTP) != nil }
}

// What such systems have in common: sessions that no program can renew, and nothing of OAuth.
extension SiteSettings {
  /// - Parameter client: by what name the system knows this client.
  func description(kind: String, client: String) -> ProviderDescription {
    ProviderDescription(
      kind: kind, profile: profile, displayName: displayName, issuer: nil, clientID: client,
      server: baseURL.absoluteString)
  }

  var authorization: AuthorizationTraits {
    AuthorizationTraits(redirect: .init(redirect), usesPKCE: false, lifetime: loginLifetime)
  }

  /// - Parameter standard: what calls are relative to, where that is not configured.
  func api(standard: URL) -> APITraits {
    APITraits(base: apiBase ?? standard, origins: [baseURL] + apiOrigins)
  }
}

extension LoginRequest {
  /// What was asked for that such systems do not know: nobody shall believe that it was honoured.
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
