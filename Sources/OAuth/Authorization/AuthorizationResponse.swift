/// What the user agent brought back (RFC 6749 §4.1.2, RFC 9207). Read before anything is known of the login; which login
/// it belongs to, and whether it may be used, is asked of it afterwards with ``code(for:)``.
public struct AuthorizationResponse: Sendable {
  public var state: Secret?
  public var code: Secret?
  public var error: OAuthError?
  /// `iss`, exactly as it came.
  public var issuer: String?
  /// Whether a token came along, in the query or in the fragment.
  public var hasUnexpectedTokens: Bool
  /// `response`: the whole response as a signed JWT, which ``JARM`` reads.
  public var response: Secret?
  /// All other parameters, the first of each name. They may hold credentials.
  public var others: [String: Secret]

  /// Longest texts, in bytes.
  static let longestURL = 64 << 10
  static let longestState = 2048
  static let longestIssuer = 2048
  static let longestCode = 16 << 10

  private static let single: Set<String> = ["code", "state", "error", "iss", "response"]
  private static let tokens: Set<String> = ["access_token", "id_token"]

  /// Reads the whole URL, or the target of a request to the listener. The fragment is read for unexpected tokens alone.
  public static func parse(_ url: String) throws(CallbackError) -> AuthorizationResponse {
    guard url.utf8.count <= longestURL else { throw .tooLarge }
    // By bytes: a combining mark behind a "#" or "?" makes another Character of it.
    let halves = url.utf8.split(separator: UInt8(ascii: "#"), maxSplits: 1, omittingEmptySubsequences: false)
    let query = halves[0].drop { $0 != UInt8(ascii: "?") }.dropFirst()
    var values: [String: String] = [:]
    for (parameter, isExact) in FormEncoding.decodeLeniently(Substring(query)) {
      // Only these decide anything. A description in another encoding must not hide the error that it describes.
      if !isExact, single.contains(parameter.name) { throw .unreadable }
      let known = values[parameter.name] != nil
      if known, single.contains(parameter.name) { throw .duplicateParameter(parameter.name) }
      if !known { values[parameter.name] = parameter.value }
    }
    let fragment = halves.count == 2 ? FormEncoding.decodeLeniently(Substring(halves[1])) : []
    return try AuthorizationResponse(values, fragmentNames: Set(fragment.map(\.parameter.name)))
  }

  init(_ values: [String: String], fragmentNames: Set<String> = []) throws(CallbackError) {
    func take(_ name: String, _ limit: Int) throws(CallbackError) -> String? {
      guard let value = values[name] else { return nil }
      guard value.utf8.count <= limit else { throw .tooLarge }
      return value.isEmpty ? nil : value
    }
    state = try take("state", Self.longestState).map(Secret.init)
    code = try take("code", Self.longestCode).map(Secret.init)
    response = try take("response", Self.longestURL).map(Secret.init)
    // An empty `iss` is one that is wrong, not one that is missing.
    issuer = values["iss"]
    _ = try take("iss", Self.longestIssuer)
    error = try take("error", Self.longestURL).map {
      OAuthError(
        code: OAuthErrorCode(rawValue: $0), description: values["error_description"], uri: values["error_uri"])
    }
    hasUnexpectedTokens = !Self.tokens.isDisjoint(with: fragmentNames.union(values.keys))
    let known = Self.single.union(["error_description", "error_uri"])
    others = values.filter { !known.contains($0.key) }.mapValues(Secret.init)
  }

  /// What the login that was asked for expects.
  public struct Expectation: Sendable {
    public var state: Secret
    /// The issuer that was asked; nil where the provider has none.
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

  /// The code, if this response answers that login. The order matters: a forged error must not cancel a login, so issuer
  /// and state come first (RFC 9207 §2.4, RFC 9700 §4.7).
  ///
  /// - Parameter codeFirst: a code counts also where there is an error beside it, against RFC 6749 §4.1.2.1.
  public func code(for expected: Expectation, codeFirst: Bool = false) throws(CallbackError) -> Secret {
    try check(for: expected)
    if let error, !codeFirst || code == nil { throw .denied(error) }
    if hasUnexpectedTokens { throw .unexpectedToken }
    guard let code else { throw .neitherCodeNorError }
    return code
  }

  /// That this response is from the issuer that was asked, and belongs to that login.
  func check(for expected: Expectation) throws(CallbackError) {
    try checkIssuer(expected)
    guard let state else { throw .missingState }
    guard state == expected.state else { throw .wrongState }
  }

  private func checkIssuer(_ expected: Expectation) throws(CallbackError) {
    guard let issuer else {
      // Servers that promise `iss` leave it out of errors. Without a code or token nothing can be mixed up, and the state
      // shows that the error is the login's.
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

extension AuthorizationResponse: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String {
    error.map { "authorization response: \($0.code)" } ?? "authorization response (\(code == nil ? "no code" : "code"))"
  }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}
