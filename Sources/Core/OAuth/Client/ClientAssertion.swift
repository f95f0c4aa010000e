/// Client authentication by a signed JWT (RFC 7523 §3): `private_key_jwt` with a private key, `client_secret_jwt` with
/// the client secret as the key (OpenID Connect Core §9).
public struct ClientAssertion: Sendable, Hashable {
  /// The audience of the assertion. Servers differ.
  public enum Audience: Sendable, Hashable {
    /// The token endpoint's URL, for requests to any endpoint (RFC 7523 §3, OpenID Connect Core §9).
    case tokenEndpoint
    /// The issuer, which newer servers require.
    case issuer
    /// The endpoint that the request is sent to.
    case endpoint
    case fixed(String)
  }

  /// The lifetime of an assertion. Each request gets a new one.
  public static let lifetime = Duration.seconds(60)
  static let type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

  public var key: SigningKey
  public var audience: Audience

  public init(key: SigningKey, audience: Audience) {
    self.key = key
    self.audience = audience
  }

  /// The assertion; `iss` and `sub` are the client (RFC 7523 §3).
  static func make(
    key: SigningKey, clientID: String, audience: String, identifier: String, at now: Timestamp
  ) throws(SigningKeyError) -> Secret {
    try key.sign(
      type: "JWT",
      claims: [
        "iss": .string(clientID), "sub": .string(clientID), "aud": .string(audience), "jti": .string(identifier),
        "iat": .number(String(now.seconds)), "exp": .number(String((now + lifetime).seconds)),
      ])
  }
}

/// The claims of a service account's assertion for a token (RFC 7523 §2.1, §3).
public struct GrantAssertionClaims: Sendable, Hashable {
  public var issuer: String
  /// The subject of the token; nil: the issuer, and the claim is omitted.
  public var subject: String?
  public var audience: String
  /// The lifetime of the assertion. Google accepts at most one hour.
  public var lifetime: Duration
  /// `scope` in the assertion, as Google requires.
  public var scope: String?
  /// Additional claims. They never replace the others.
  public var extra: [String: JSON]

  public init(
    issuer: String, subject: String? = nil, audience: String, lifetime: Duration = .seconds(3600),
    scope: String? = nil, extra: [String: JSON] = [:]
  ) {
    self.issuer = issuer
    self.subject = subject
    self.audience = audience
    self.lifetime = lifetime
    self.scope = scope
    self.extra = extra
  }

  func assertion(key: SigningKey, identifier: String, at now: Timestamp) throws(SigningKeyError) -> Secret {
    var claims = extra
    claims["iss"] = .string(issuer)
    if let subject { claims["sub"] = .string(subject) }
    claims["aud"] = .string(audience)
    claims["jti"] = .string(identifier)
    claims["iat"] = .number(String(now.seconds))
    claims["exp"] = .number(String((now + lifetime).seconds))
    if let scope { claims["scope"] = .string(scope) }
    return try key.sign(type: "JWT", claims: claims)
  }
}
