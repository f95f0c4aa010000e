/// The expected values of a token that the provider signed (RFC 7519 §4.1).
public struct JWTChecks: Sendable {
  /// The issuer as the metadata writes it.
  public var issuer: String
  public var issuerRule: IssuerRule
  public var clientID: String
  /// The allowed algorithms, from ``IDToken/algorithms(configured:metadata:)``; empty: RS256.
  public var algorithms: [String]
  public var now: Timestamp
  /// The maximum difference of the two clocks.
  public var tolerance: Duration
  /// The key of HS256, HS384 and HS512; nil refuses them.
  public var clientSecret: Secret?

  public init(
    issuer: String, issuerRule: IssuerRule = .exact, clientID: String, algorithms: [String] = [], now: Timestamp,
    tolerance: Duration = .seconds(30), clientSecret: Secret? = nil
  ) {
    self.issuer = issuer
    self.issuerRule = issuerRule
    self.clientID = clientID
    self.algorithms = algorithms
    self.now = now
    self.tolerance = tolerance
    self.clientSecret = clientSecret
  }
}

/// The registered claims that all tokens share (RFC 7519 §4.1), each with its own type.
struct RegisteredClaims: Sendable, Equatable {
  let issuer: String?
  let audience: [String]?
  let expiresAt: Timestamp?
  let issuedAt: Timestamp?
  let notBefore: Timestamp?

  init(_ claims: [String: JSON]) throws(WrongMember) {
    issuer = try claims.text("iss")
    audience = claims["aud"] == nil ? nil : try claims.audience()
    expiresAt = try claims.date("exp")
    issuedAt = try claims.date("iat")
    notBefore = try claims.date("nbf")
  }
}

extension SignedJWT {
  /// Reads the registered claims; the named ones are required.
  func registeredClaims(requiring names: String...) throws(JWTError) -> RegisteredClaims {
    if let missing = names.first(where: { claims[$0] == nil || claims[$0] == .null }) {
      throw .malformed("it has no \(missing)")
    }
    do throws(WrongMember) {
      return try RegisteredClaims(claims)
    } catch {
      throw .malformed("\(error.name) is not \(error.wanted)")
    }
  }

  /// Verifies the signature, the issuer, the audience and the times. Absent claims are not checked.
  func verify(_ registered: RegisteredClaims, _ checks: JWTChecks, keys: JWKSet) throws(JWTError) {
    _ = try verifySignature(algorithms: checks.algorithms, clientSecret: checks.clientSecret, keys: keys)
    if let issuer = registered.issuer,
      !checks.issuerRule.acceptsMessage(issuer, expected: checks.issuer, tenant: try? claims.text("tid"))
    {
      throw .wrongIssuer(expected: checks.issuer.printable(limit: 512), found: issuer.printable(limit: 512))
    }
    if let audience = registered.audience, !audience.contains(checks.clientID) { throw .wrongAudience }
    let now = checks.now
    if let end = registered.expiresAt, end <= now - checks.tolerance { throw .expired(by: now - end) }
    if let start = registered.notBefore, start > now + checks.tolerance { throw .notYetValid(by: start - now) }
    if let made = registered.issuedAt, made > now + checks.tolerance { throw .issuedInFuture(by: made - now) }
  }
}

extension [String: JSON] {
  /// The valid NumericDate range in seconds since 1970: year 1 to year 9999.
  private static var dates: ClosedRange<Double> { -62_135_596_800...253_402_300_799 }

  /// `aud`: a string or a nonempty array of strings.
  func audience() throws(WrongMember) -> [String] {
    guard case .array? = self["aud"] else { return [try requiredText("aud")] }
    let names = try texts("aud") ?? []
    guard !names.isEmpty else { throw WrongMember(name: "aud", wanted: "a string or an array of strings") }
    return names
  }

  /// A NumericDate (RFC 7519 §2); nil if it is absent or null.
  func date(_ name: String) throws(WrongMember) -> Timestamp? {
    guard let seconds = try number(name) else { return nil }
    guard Self.dates.contains(seconds) else { throw WrongMember(name: name, wanted: "a date") }
    return Timestamp(milliseconds: Int64(seconds * 1000))
  }

  func requiredDate(_ name: String) throws(WrongMember) -> Timestamp {
    guard let date = try date(name) else { throw WrongMember(name: name, wanted: "a number") }
    return date
  }
}
