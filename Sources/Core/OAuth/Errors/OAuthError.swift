/// An error code of an authorization server. An open set: providers add codes.
public struct OAuthErrorCode: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
  public let rawValue: String

  public init(rawValue: String) {
    self.rawValue = rawValue
  }

  public var description: String { rawValue }
}

extension OAuthErrorCode {
  // RFC 6749 §4.1.2.1 and §5.2
  public static let invalidClient = Self(rawValue: "invalid_client")
  public static let invalidGrant = Self(rawValue: "invalid_grant")
  public static let unauthorizedClient = Self(rawValue: "unauthorized_client")
  public static let unsupportedGrantType = Self(rawValue: "unsupported_grant_type")
  public static let unsupportedResponseType = Self(rawValue: "unsupported_response_type")
  public static let invalidScope = Self(rawValue: "invalid_scope")
  public static let accessDenied = Self(rawValue: "access_denied")
  public static let serverError = Self(rawValue: "server_error")
  public static let temporarilyUnavailable = Self(rawValue: "temporarily_unavailable")
  // RFC 7009 §2.2.1
  public static let unsupportedTokenType = Self(rawValue: "unsupported_token_type")
  // RFC 8628 §3.5
  public static let authorizationPending = Self(rawValue: "authorization_pending")
  public static let slowDown = Self(rawValue: "slow_down")
  public static let expiredToken = Self(rawValue: "expired_token")
  // RFC 8707 §2
  public static let invalidTarget = Self(rawValue: "invalid_target")
  // RFC 9449 §8
  public static let useDPoPNonce = Self(rawValue: "use_dpop_nonce")
  // RFC 7591 §3.2.2
  public static let invalidClientMetadata = Self(rawValue: "invalid_client_metadata")
  // OpenID Connect Core §3.1.2.6
  public static let interactionRequired = Self(rawValue: "interaction_required")
  public static let loginRequired = Self(rawValue: "login_required")
  public static let accountSelectionRequired = Self(rawValue: "account_selection_required")
  public static let consentRequired = Self(rawValue: "consent_required")
}

/// An error response of an authorization server (RFC 6749 §4.1.2.1, §5.2). Its initializer limits the length of the
/// texts and escapes control characters: they are safe for logs and terminals, not for HTML.
public struct OAuthError: Error, Sendable, Equatable, Codable {
  /// Maximum lengths, in Unicode scalars.
  public static let limits = (code: 128, description: 512, uri: 512)

  public let code: OAuthErrorCode
  /// `error_description`: meant for developers, but shown to users.
  public let description: String?
  /// `error_uri`: a page about the error.
  public let uri: String?

  public init(code: OAuthErrorCode, description: String? = nil, uri: String? = nil) {
    self.code = OAuthErrorCode(rawValue: code.rawValue.printable(limit: Self.limits.code))
    self.description = description.flatMap { $0.isEmpty ? nil : $0.asSentence(limit: Self.limits.description) }
    self.uri = uri.flatMap { $0.isEmpty ? nil : $0.printable(limit: Self.limits.uri) }
  }

  /// Code and description in one line.
  public var summary: String {
    description.map { "\(code): \($0)" } ?? code.rawValue
  }

  /// The same with one full stop at its end.
  var sentence: String { summary.last.map { ".!?".contains($0) } == true ? summary : "\(summary)." }

  /// Nil if the untrusted JSON has no usable `error` member.
  init?(members: [String: JSON]) {
    guard case .string(let code) = members["error"], !code.isEmpty else { return nil }
    let description = try? members.text("error_description")
    let uri = try? members.text("error_uri")
    self.init(code: OAuthErrorCode(rawValue: code), description: description, uri: uri)
  }

  private enum CodingKeys: String, CodingKey {
    case code = "error"
    case description = "error_description"
    case uri = "error_uri"
  }
}
