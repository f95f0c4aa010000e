/// How a client proves by a signed JWT who it is (RFC 7523 §3): `private_key_jwt` with a private key, `client_secret_jwt`
/// with its secret as the key (OpenID Connect Core §9).
public struct ClientAssertion: Sendable, Hashable {
  /// Whom the assertion is for. Servers differ.
  public enum Audience: Sendable, Hashable {
    /// The token endpoint's URL, whichever endpoint is asked (RFC 7523 §3, OpenID Connect Core §9).
    case tokenEndpoint
    /// The issuer, which newer servers demand.
    case issuer
    /// The endpoint that is asked, each its own.
    case endpoint
    case fixed(String)
  }

  /// How long an assertion is good for. It is made anew for each sending.
  public static let lifetime = Duration.seconds(60)
  static let type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

  public var key: SigningKey
  public var audience: Audience

  public init(key: SigningKey, audience: Audience) {
    self.key = key
    self.audience = audience
  }

  /// The assertion itself: `iss` and `sub` are the client (RFC 7523 §3).
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

/// What a service account asserts of itself to get a token (RFC 7523 §2.1, §3).
public struct GrantAssertionClaims: Sendable, Hashable {
  public var issuer: String
  /// For whom a token is asked; nil: for the issuer itself, and the claim is left out.
  public var subject: String?
  public var audience: String
  /// How long the assertion is good for. Google takes an hour at most.
  public var lifetime: Duration
  /// `scope` in the assertion, where Google wants it.
  public var scope: String?
  /// Further claims. They never replace the others.
  public var extra: [String: JSONValue]

  public init(
    issuer: String, subject: String? = nil, audience: String, lifetime: Duration = .seconds(3600),
    scope: String? = nil, extra: [String: JSONValue] = [:]
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
