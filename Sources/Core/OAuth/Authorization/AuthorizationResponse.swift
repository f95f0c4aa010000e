/// The authorization response from the user agent (RFC 6749 §4.1.2, RFC 9207). It is parsed before its login is known;
/// ``code(for:)`` then checks whether it belongs to a login and may be used.
public struct AuthorizationResponse: Sendable {
  public var state: Secret?
  public var code: Secret?
  public var error: OAuthError?
  /// `iss`, exactly as received.
  public var issuer: String?
  /// Whether the query or the fragment contains a token.
  public var hasUnexpectedTokens: Bool
  /// `response`: the whole response as a signed JWT, for ``JARM``.
  public var response: Secret?
  /// All other parameters, the first value of each name. They may contain credentials.
  public var others: [String: Secret]

  /// Maximum lengths, in bytes.
  static let longestURL = 64 << 10
  static let longestState = 2048
  static let longestIssuer = 2048
  static let longestCode = 16 << 10

  private static let single: Set<String> = ["code", "state", "error", "iss", "response"]
  private static let tokens: Set<String> = ["access_token", "id_token"]

  /// Parses the whole URL, or the target of a request to the listener. The fragment is read only for unexpected tokens.
  public static func parse(_ url: String) throws(CallbackError) -> AuthorizationResponse {
    guard url.utf8.count <= longestURL else { throw .tooLarge }
    // By bytes: a combining mark after a "#" or "?" makes another Character of it.
    let halves = url.utf8.split(separator: UInt8(ascii: "#"), maxSplits: 1, omittingEmptySubsequences: false)
    let query = halves[0].drop { $0 != UInt8(ascii: "?") }.dropFirst()
    var values: [String: String] = [:]
    for (parameter, isExact) in FormEncoding.decodeLeniently(Substring(query)) {
      // Only these parameters decide the result. A description in another encoding must not hide its error.
      if !isExact, single.contains(parameter.name) { throw .unreadable }
      let known = values[parameter.name] != nil
      if known, single.contains(parameter.name) { throw .duplicateParameter(parameter.name) }
      if !known { values[parameter.name] = parameter.value }
    }
    let fragment = halves.count == 2 ? FormEncoding.decodeLeniently(Substring(halves[1])) : []
    return try AuthorizationResponse(values, fragmentNames: Set(fragment.map(\.parameter.name)))
  }

  init(_ values: [String: String], fragmentNames: Set<String> = []) throws(CallbackError) {
    func read(_ name: String, _ limit: Int) throws(CallbackError) -> String? {
      guard let value = values[name] else { return nil }
      guard value.utf8.count <= limit else { throw .tooLarge }
      return value.isEmpty ? nil : value
    }
    state = try read("state", Self.longestState).map(Secret.init)
    code = try read("code", Self.longestCode).map(Secret.init)
    response = try read("response", Self.longestURL).map(Secret.init)
    // An empty `iss` is wrong, not missing.
    issuer = values["iss"]
    _ = try read("iss", Self.longestIssuer)
    error = try read("error", Self.longestURL).map {
      OAuthError(
        code: OAuthErrorCode(rawValue: $0), description: values["error_description"], uri: values["error_uri"])
    }
    hasUnexpectedTokens = !Self.tokens.isDisjoint(with: fragmentNames.union(values.keys))
    let known = Self.single.union(["error_description", "error_uri"])
    others = values.filter { !known.contains($0.key) }.mapValues(Secret.init)
  }

  /// The values that the login's request expects in the response.
  public struct Expectation: Sendable {
    public var state: Secret
    /// The issuer that the request was sent to; nil if the provider has none.
    public var issuer: String?
    /// Whether the metadata promises `iss` in each response (RFC 9207 §3).
    public var issuerPromised: Bool
    public var issuerRule: IssuerRule

    public init(state: Secret, issuer: String?, issuerPromised: Bool, issuerRule: IssuerRule = .exact) {
      self.state = state
      self.issuer = issuer
      self.issuerPromised = issuerPromised
      self.issuerRule = issuerRule
    }
  }

  /// The code, if this response belongs to the login. The order matters: a forged error must not cancel a login, so
  /// issuer and state are checked first (RFC 9207 §2.4, RFC 9700 §4.7).
  ///
  /// - Parameter codeFirst: accept a code even if there is also an error, against RFC 6749 §4.1.2.1.
  public func code(for expected: Expectation, codeFirst: Bool = false) throws(CallbackError) -> Secret {
    try check(for: expected)
    if let error, !codeFirst || code == nil { throw .denied(error) }
    if hasUnexpectedTokens { throw .unexpectedToken }
    guard let code else { throw .neitherCodeNorError }
    return code
  }

  /// Checks that this response comes from the expected issuer and belongs to the login.
  func check(for expected: Expectation) throws(CallbackError) {
    try checkIssuer(expected)
    guard let state else { throw .missingState }
    guard state == expected.state else { throw .wrongState }
  }

  private func checkIssuer(_ expected: Expectation) throws(CallbackError) {
    guard let issuer else {
      // Servers that promise `iss` omit it from errors. Without a code or token a mix-up is harmless, and the state
      // shows that the error belongs to the login.
      let isOnlyError = error != nil && code == nil && !hasUnexpectedTokens
      if expected.issuerPromised, !isOnlyError { throw .missingIssuer }
      return
    }
    guard let wanted = expected.issuer else { return }
    guard expected.issuerRule.acceptsMessage(issuer, expected: wanted, tenant: nil) else {
      throw .wrongIssuer(issuer.printable(limit: 512))
    }
  }
}

extension AuthorizationResponse: Redacted {
  public var description: String {
    error.map { "authorization response: \($0.code)" } ?? "authorization response (\(code == nil ? "no code" : "code"))"
  }
}
