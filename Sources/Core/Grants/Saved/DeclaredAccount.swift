public import OAuth

/// An unattended account, declared in the configuration.
public struct DeclaredAccount: Sendable, Equatable {
  public var name: AccountName
  public var provider: ProviderName
  public var source: GrantSource
  /// Nil: the provider's scopes.
  public var scopes: [String]?
  /// Nil: the provider's resource (RFC 8707).
  public var resource: String?
  /// Nil: the provider's audience.
  public var audience: String?

  public init(
    name: AccountName, provider: ProviderName, source: GrantSource, scopes: [String]? = nil, resource: String? = nil,
    audience: String? = nil
  ) {
    self.audience = audience
    self.name = name
    self.provider = provider
    self.source = source
    self.scopes = scopes
    self.resource = resource
  }
}

/// The source of a declared account's tokens.
public enum GrantSource: Sendable, Equatable {
  /// The client's own authentication (RFC 6749 §4.4).
  case clientCredentials
  /// A signed assertion (RFC 7523 §2.1).
  case jwtBearer(JWTBearerSource)
  /// Another account's access token (RFC 8693 §2.1).
  case exchange(ExchangeSource)

  public var kind: GrantKind {
    switch self {
    case .clientCredentials: .clientCredentials
    case .jwtBearer: .jwtBearer
    case .exchange: .tokenExchange
    }
  }
}

/// A service account: a key, and the claims of its assertions (RFC 7523 §3).
public struct JWTBearerSource: Sendable, Equatable {
  public var key: SigningKey
  public var issuer: String
  /// The subject; nil: the issuer.
  public var subject: String?
  /// Nil: the token endpoint.
  public var audience: String?
  public var lifetime: Duration
  /// Scopes are part of the assertion, as Google requires, not of the request.
  public var scopeInAssertion: Bool

  public init(
    key: SigningKey, issuer: String, subject: String? = nil, audience: String? = nil,
    lifetime: Duration = .seconds(3600), scopeInAssertion: Bool = false
  ) {
    self.key = key
    self.issuer = issuer
    self.subject = subject
    self.audience = audience
    self.lifetime = lifetime
    self.scopeInAssertion = scopeInAssertion
  }
}

/// The parameters of a token exchange (RFC 8693 §2.1).
public struct ExchangeSource: Sendable, Equatable {
  /// The account whose access token is the subject token.
  public var from: AccountName
  /// The account whose access token is the actor token.
  public var actor: AccountName?
  public var audience: String?
  public var requestedTokenType: String?

  public init(
    from: AccountName, actor: AccountName? = nil, audience: String? = nil, requestedTokenType: String? = nil
  ) {
    self.from = from
    self.actor = actor
    self.audience = audience
    self.requestedTokenType = requestedTokenType
  }
}
