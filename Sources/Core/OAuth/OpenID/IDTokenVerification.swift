import FoundationEssentials

extension IDToken {
  /// The expected values of the token.
  public struct Checks: Sendable {
    /// The issuer as the metadata writes it.
    public var issuer: String
    public var issuerRule: IssuerRule
    public var clientID: String
    /// Additional audiences that are allowed; empty: any, as long as `azp` is the client.
    public var trustedAudiences: [String]
    /// The token was issued by a token exchange for the audience ``clientID``: it has this authorized party, or none, and
    /// any nonce. Nil: it was issued to the client.
    public var exchangedFor: String?
    /// The nonce that was sent; nil if none was. After a refresh the nonce of the ``previous`` token is used.
    public var nonce: Secret?
    /// The allowed algorithms, from ``IDToken/algorithms(configured:metadata:)``; empty: RS256.
    public var algorithms: [String]
    /// The maximum difference of the two clocks.
    public var tolerance: Duration
    public var now: Timestamp
    /// The access token of the same response, for `at_hash`.
    public var accessToken: Secret?
    /// The code that was exchanged, for `c_hash`.
    public var code: Secret?
    /// The `max_age` that was sent.
    public var maxAge: Duration?
    /// After a refresh, the token of the login.
    public var previous: IDToken?
    /// The key of HS256, HS384 and HS512; nil refuses them.
    public var clientSecret: Secret?

    public init(
      issuer: String, issuerRule: IssuerRule = .exact, clientID: String, trustedAudiences: [String] = [],
      nonce: Secret?, algorithms: [String] = [], tolerance: Duration = .seconds(30), now: Timestamp,
      accessToken: Secret? = nil, code: Secret? = nil, maxAge: Duration? = nil, previous: IDToken? = nil,
      clientSecret: Secret? = nil
    ) {
      self.issuer = issuer
      self.issuerRule = issuerRule
      self.clientID = clientID
      self.trustedAudiences = trustedAudiences
      self.nonce = nonce
      self.algorithms = algorithms
      self.tolerance = tolerance
      self.now = now
      self.accessToken = accessToken
      self.code = code
      self.maxAge = maxAge
      self.previous = previous
      self.clientSecret = clientSecret
    }
  }

  /// The allowed algorithms: from the client's configuration, else the metadata, else RS256. Metadata never allow
  /// `none` or a symmetric algorithm: only the configuration can.
  public static func algorithms(configured: [String]?, metadata: [String]?) -> [String] {
    if let configured, !configured.isEmpty { return configured }
    let offered = (metadata ?? []).filter { name in
      SignatureAlgorithm(rawValue: name).map { !$0.isSymmetric } ?? false
    }
    return offered.isEmpty ? [SignatureAlgorithm.rs256.rawValue] : offered
  }

  /// Verifies that the provider issued this token for this client and login (OpenID Connect Core §3.1.3.7, §12.2).
  ///
  /// After `unknownKey`, fetch the keys again once and verify again.
  public func verify(_ checks: Checks, keys: JWKSet) throws(IDTokenError) {
    let algorithm: SignatureAlgorithm
    do throws(JWTError) {
      algorithm = try jwt.verifySignature(
        algorithms: checks.algorithms, clientSecret: checks.clientSecret, keys: keys)
    } catch {
      throw .token(error)
    }
    guard checks.issuerRule.acceptsMessage(issuer, expected: checks.issuer, tenant: tenant) else {
      throw .token(
        .wrongIssuer(expected: checks.issuer.printable(limit: 512), found: issuer.printable(limit: 512)))
    }
    try verifyAudience(checks)
    try verifyTimes(checks)
    try verifyNonce(checks)
    // Token and code are exposed to be hashed.
    try verifyHash(accessTokenHash, of: checks.accessToken, algorithm, otherwise: .wrongAccessTokenHash)
    try verifyHash(codeHash, of: checks.code, algorithm, otherwise: .wrongCodeHash)
    try verifyUnchanged(since: checks.previous)
  }

  private func verifyAudience(_ checks: Checks) throws(IDTokenError) {
    guard audience.contains(checks.clientID) else { throw .token(.wrongAudience) }
    if let client = checks.exchangedFor {
      guard authorizedParty.map({ $0 == client || $0 == checks.clientID }) ?? true else {
        throw .wrongAuthorizedParty(authorizedParty?.printable(limit: 255))
      }
      return
    }
    if audience.count > 1 || authorizedParty != nil, authorizedParty != checks.clientID {
      throw .wrongAuthorizedParty(authorizedParty?.printable(limit: 255))
    }
    guard !checks.trustedAudiences.isEmpty else { return }
    for name in audience where name != checks.clientID && !checks.trustedAudiences.contains(name) {
      throw .untrustedAudience(name.printable(limit: 255))
    }
  }

  private func verifyTimes(_ checks: Checks) throws(IDTokenError) {
    let now = checks.now
    guard expiresAt > now - checks.tolerance else { throw .token(.expired(by: now - expiresAt)) }
    if let notBefore, notBefore > now + checks.tolerance { throw .token(.notYetValid(by: notBefore - now)) }
    guard issuedAt <= now + checks.tolerance else { throw .token(.issuedInFuture(by: issuedAt - now)) }
    guard let maxAge = checks.maxAge else { return }
    guard let authTime else { throw .missingAuthTime }
    let limit = authTime + maxAge
    guard limit + checks.tolerance >= now else { throw .authenticatedTooLongAgo(by: now - limit) }
  }

  private func verifyNonce(_ checks: Checks) throws(IDTokenError) {
    guard checks.exchangedFor == nil else { return }
    if let previous = checks.previous {
      // A refreshed token should have no nonce; if it has one, it must be the login's (OpenID Connect Core §12.2).
      guard let nonce else { return }
      guard let original = previous.nonce else { throw .unexpectedNonce }
      guard constantTimeEqual(nonce, original) else { throw .wrongNonce }
      return
    }
    switch (checks.nonce, nonce) {
    case (nil, nil): return
    case (nil, .some): throw .unexpectedNonce
    case (.some, nil): throw .missingNonce
    case (let sent?, let found?):
      guard sent == Secret(found) else { throw .wrongNonce }
    }
  }

  private func verifyHash(
    _ claim: String?, of value: Secret?, _ algorithm: SignatureAlgorithm, otherwise error: IDTokenError
  ) throws(IDTokenError) {
    guard let claim, let value else { return }
    let data = Data(value.exposed.utf8)
    var digests = [algorithm.digest(data)]
    // No specification defines the hash for EdDSA: most servers use Ed25519's SHA-512, some SHA-256.
    if algorithm == .edDSA || algorithm == .ed25519 { digests.append(SignatureAlgorithm.rs256.digest(data)) }
    let halves = digests.map { base64URL($0.prefix($0.count / 2)) }
    guard halves.contains(where: { constantTimeEqual(claim, $0) }) else { throw error }
  }

  private func verifyUnchanged(since previous: IDToken?) throws(IDTokenError) {
    guard let previous else { return }
    if issuer != previous.issuer { throw .changed(claim: "iss") }
    if subject != previous.subject { throw .changed(claim: "sub") }
    if authorizedParty != previous.authorizedParty { throw .changed(claim: "azp") }
    if !Set(previous.audience).isSubset(of: audience) { throw .changed(claim: "aud") }
    if issuedAt < previous.issuedAt { throw .issuedBeforePrevious }
  }
}
