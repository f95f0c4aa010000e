/// The origin of an account's grant, as written to the socket and the store.
public enum GrantKind: String, Sendable, Codable, CaseIterable {
  /// The user signed in (RFC 6749 §4.1).
  case authorizationCode = "authorization_code"
  /// The user confirmed a code on another device (RFC 8628).
  case deviceCode = "device_code"
  /// A refresh token was imported.
  case imported = "import"
  /// An import into an account with a known user, before the provider has confirmed that user: callers get no token of
  /// it.
  case unprovenImport = "unproven_import"
  /// The client itself is authorised (RFC 6749 §4.4).
  case clientCredentials = "client_credentials"
  /// A signed assertion is exchanged for tokens (RFC 7523 §2.1).
  case jwtBearer = "jwt_bearer"
  /// Another account's token is exchanged for one (RFC 8693).
  case tokenExchange = "token_exchange"
  /// The user's name and password (RFC 6749 §4.3), only if enabled for the provider.
  case password
  /// The user signed in, and the browser returned the token (RFC 6749 §4.2), only if enabled for the provider.
  case implicit

  /// A new token can always be obtained without a refresh token or a user.
  public var isUnattended: Bool {
    switch self {
    case .authorizationCode, .deviceCode, .imported, .unprovenImport, .password, .implicit: false
    case .clientCredentials, .jwtBearer, .tokenExchange: true
    }
  }
}
