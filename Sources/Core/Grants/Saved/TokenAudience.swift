/// An audience that a token is requested for by name: by a request parameter, or by a token exchange (RFC 8693 §2.1).
public struct TokenAudience: Sendable, Hashable {
  /// The way of the request, and the kind of the token.
  public enum Form: String, Sendable {
    /// An access token, by the parameter `audience` of the token request.
    case parameter = "audience"
    /// An access token, by a token exchange.
    case exchange
    /// An ID token, by a token exchange.
    case idToken = "id_token"
  }

  public var name: String
  public var form: Form

  /// The maximum size of a name in bytes.
  public static let longestName = 1024

  public init(_ name: String, _ form: Form) {
    self.name = name
    self.form = form
  }

  /// Whether it is a name that fits: printable ASCII without spaces and quotes.
  public static func isValid(_ name: String) -> Bool {
    !name.isEmpty && name.utf8.count <= longestName
      && name.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
  }
}

/// A resource and an audience as one text, for the stores: `RESOURCE`, or `FORM AUDIENCE RESOURCE`. A resource is a URI,
/// which contains no space, so neither reads as the other.
public struct TokenTarget: Sendable, Equatable {
  public var resource: String
  public var audience: TokenAudience?

  public init(resource: String, audience: TokenAudience?) {
    self.resource = resource
    self.audience = audience
  }

  public init(text: String) {
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 3, let form = TokenAudience.Form(rawValue: String(parts[0])) else {
      self.init(resource: text, audience: nil)
      return
    }
    self.init(resource: String(parts[2]), audience: TokenAudience(String(parts[1]), form))
  }

  public var text: String {
    audience.map { "\($0.form.rawValue) \($0.name) \(resource)" } ?? resource
  }
}
