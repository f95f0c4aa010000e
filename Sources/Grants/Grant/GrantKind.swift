/// How an account's grant is come by; as the socket and the store write it.
public enum GrantKind: String, Sendable, Codable, CaseIterable {
  /// A person signed in (RFC 6749 §4.1).
  case authorizationCode = "authorization_code"
  /// A person confirmed a code on another device (RFC 8628).
  case deviceCode = "device_code"
  /// A refresh token from elsewhere was taken over.
  case imported = "import"
  /// The same into an account whose person is known, before the provider has named that person: no token of it is handed
  /// out.
  case unprovenImport = "unproven_import"
  /// The client itself is authorised (RFC 6749 §4.4).
  case clientCredentials = "client_credentials"
  /// A signed assertion is traded for tokens (RFC 7523 §2.1).
  case jwtBearer = "jwt_bearer"
  /// Another account's token is traded for one (RFC 8693).
  case tokenExchange = "token_exchange"
  /// Name and password of a person (RFC 6749 §4.3), where the provider allows it by name.
  case password
  /// A person signed in, and the token came by the browser (RFC 6749 §4.2), where the provider allows it by name.
  case implicit

  /// A new token can be had at any time without a refresh token and without a person.
  public var isUnattended: Bool {
    switch self {
    case .authorizationCode, .deviceCode, .imported, .unprovenImport, .password, .implicit: false
    case .clientCredentials, .jwtBearer, .tokenExchange: true
    }
  }
}
