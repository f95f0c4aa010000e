public import FoundationEssentials

/// The deviations of a provider's token responses from RFC 6749 §5.1. Each must be configured.
public struct TokenResponseQuirks: Sendable, Codable, Equatable {
  /// Also accepts `application/x-www-form-urlencoded` responses.
  public var acceptsForm: Bool
  /// The separator of scopes in a string: `" "`, or `","`, which may be combined with spaces.
  public var scopeSeparator: String
  /// Unknown members to keep unchanged (`instance_url`, `realmId`).
  public var keepMembers: [String]
  /// The lifetime of tokens if the provider does not specify it.
  public var fixedLifetime: Duration?
  /// The unit of the provider's lifetimes.
  public var lifetimeUnit: LifetimeUnit
  /// The path to the object with the token (`["authed_user"]`); empty: the top-level object.
  public var path: [String]
  /// The type of tokens if the provider does not specify it.
  public var tokenType: String?
  /// The provider's names for a bearer token in addition to `Bearer` (`bot`, `user`), case-insensitive.
  public var bearerNames: [String]
  /// A member that is `false` in an error response, regardless of the status (`ok`).
  public var successMember: String?
  /// Dotted paths to an error's code in addition to `error` (`error.type`, `errcode`): the first text or nonzero number
  /// is used.
  public var errorMembers: [String]
  /// Dotted paths to an error's description in addition to `error_description`.
  public var errorDescriptionMembers: [String]

  public init(
    acceptsForm: Bool = false, scopeSeparator: String = " ", keepMembers: [String] = [],
    fixedLifetime: Duration? = nil, lifetimeUnit: LifetimeUnit = .seconds, path: [String] = [],
    tokenType: String? = nil, bearerNames: [String] = [], successMember: String? = nil, errorMembers: [String] = [],
    errorDescriptionMembers: [String] = []
  ) {
    self.acceptsForm = acceptsForm
    self.scopeSeparator = scopeSeparator
    self.keepMembers = keepMembers
    self.fixedLifetime = fixedLifetime
    self.lifetimeUnit = lifetimeUnit
    self.path = path
    self.tokenType = tokenType
    self.bearerNames = bearerNames
    self.successMember = successMember
    self.errorMembers = errorMembers
    self.errorDescriptionMembers = errorDescriptionMembers
  }

  /// The error in a response, in OAuth's format or the provider's own.
  func error(in members: [String: JSON]) -> OAuthError? {
    let description = Self.text(at: errorDescriptionMembers, in: members)
    if let error = OAuthError(members: members) {
      return OAuthError(code: error.code, description: error.description ?? description, uri: error.uri)
    }
    if let code = Self.text(at: errorMembers, in: members) {
      let own = (try? members.text("error_description")) ?? nil
      return OAuthError(code: OAuthErrorCode(rawValue: code), description: own ?? description)
    }
    guard let successMember, members[successMember] == .bool(false) else { return nil }
    return OAuthError(code: OAuthErrorCode(rawValue: "\(successMember) is false"), description: description)
  }

  private static func text(at paths: [String], in members: [String: JSON]) -> String? {
    for path in paths {
      var value: JSON? = .object(members)
      for name in path.split(separator: ".") { value = value?.dictionary?[String(name)] }
      switch value {
      case .string(let text) where !text.isEmpty: return text
      case .number(let text) where Double(text) != 0: return text
      default: continue
      }
    }
    return nil
  }
}

/// The unit of a lifetime in a message; RFC 6749 uses seconds.
public enum LifetimeUnit: String, Sendable, Codable, CaseIterable {
  case seconds, milliseconds
}

/// Lifetimes in messages.
enum Lifetime {
  /// The maximum lifetime. A longer one is a mistake and would overflow date calculations.
  static let longest = Duration.seconds(10 * 365 * 86_400)

  static func duration(_ number: Double, unit: LifetimeUnit) -> Duration {
    let milliseconds = unit == .seconds ? number * 1000 : number
    guard milliseconds < Double(longest.milliseconds) else { return longest }
    return .milliseconds(Int64(max(milliseconds, 0)))
  }
}

/// A successful token response (RFC 6749 §5.1).
public struct TokenResponse: Sendable, Equatable {
  public var accessToken: Secret
  /// `Bearer` or `DPoP`, regardless of the received case.
  public var tokenType: String
  /// `expires_in`; nil: unknown, not zero.
  public var expiresIn: Duration?
  /// The access token's own expiry, if it is a JWT and `expires_in` is absent. Not verified.
  public var claimedExpiry: Timestamp?
  /// The lifetime in the settings, if `expires_in` is absent.
  public var configuredLifetime: Duration?
  /// The time after which the provider recommends a refresh (Microsoft).
  public var refreshIn: Duration?
  /// Nil if the response has none: then the old one stays valid.
  public var refreshToken: Secret?
  public var refreshTokenExpiresIn: Duration?
  /// Nil if the provider does not specify it: then the requested scopes were granted.
  public var scope: [String]?
  public var idToken: Secret?
  /// The token's type (RFC 8693 §2.2.1); required in a token exchange, nil otherwise.
  public var issuedTokenType: String?
  /// A JSON object with the received members of ``TokenResponseQuirks/keepMembers``.
  public var extra: Data
  /// Ignored deviations from the specification, for users. They contain no secret.
  public private(set) var oddities: [String] = []

  /// The result of a provider without OAuth, in the same format.
  ///
  /// - Parameter extra: a JSON object that is stored with the grant.
  public init(
    accessToken: Secret, tokenType: String, expiresIn: Duration? = nil, scope: [String]? = nil,
    extra: Data = Data("{}".utf8)
  ) {
    self.accessToken = accessToken
    self.tokenType = tokenType
    self.expiresIn = expiresIn
    self.scope = scope
    self.extra = extra
  }

  /// The warning if the lifetime of a provider's access tokens is unknown.
  public static let unknownLifetime =
    "no `expires_in`: the token is refreshed within an hour; `access_token_lifetime` in the provider's section sets its lifetime"
  private static let tokenTypes = ["bearer": "Bearer", "dpop": "DPoP"]
  /// An exchange may return another token than an access token, which has no token type (RFC 8693 §2.2.1).
  private static let exchangedTokenTypes = tokenTypes.merging(["n_a": "N_A"]) { old, _ in old }

  /// Parses a token response: a success with a JSON object without `error`. Harmless deviations are ignored
  /// (``oddities``): rejecting the response would lose the refresh token.
  public static func parse(
    _ response: HTTPResponse, quirks: TokenResponseQuirks
  ) throws(ResponseError) -> TokenResponse {
    try parse(response, quirks: quirks, types: tokenTypes)
  }

  /// Parses the response of a token exchange (RFC 8693 §2.2.1): `issued_token_type` is required, and `token_type` may
  /// be `N_A`.
  public static func parseExchange(
    _ response: HTTPResponse, quirks: TokenResponseQuirks
  ) throws(ResponseError) -> TokenResponse {
    let answer = try parse(response, quirks: quirks, types: exchangedTokenTypes)
    guard answer.issuedTokenType != nil else {
      throw response.nonConforming(WrongMember(name: "issued_token_type", wanted: "a non-empty string"))
    }
    return answer
  }

  private static func parse(
    _ response: HTTPResponse, quirks: TokenResponseQuirks, types: [String: String]
  ) throws(ResponseError) -> TokenResponse {
    guard !(300..<400).contains(response.status) else { throw .redirect(status: response.status) }
    let read = members(of: response, quirks: quirks)
    let refusal = (read?.members).flatMap(quirks.error)
    guard (200..<300).contains(response.status) else { throw response.refusal(refusal) }
    guard let (outer, repeated) = read else {
      throw response.nonConforming("the body is not a JSON object of at most 1 MiB")
    }
    if let error = refusal {
      // Regardless of the error, a grant that was just given a token has not ended.
      guard !hasToken(outer, quirks) else {
        throw response.nonConforming("it has a token and the error \(error.code.rawValue.printable(limit: 64)) in it")
      }
      throw .oauth(error, status: response.status, retryAfter: response.retryAfter)
    }
    if let error = outer["error"], error != .null, error != .string("") {
      throw response.nonConforming("it says \(response.status) and has an error in it")
    }
    var inner = outer
    for name in quirks.path {
      guard let members = inner[name]?.dictionary else {
        throw response.nonConforming("there is no object \(name) in it")
      }
      inner = members
    }
    do throws(WrongMember) {
      var tokens = try TokenResponse(inner, outer: outer, quirks: quirks, types: types)
      tokens.oddities += repeated.map { "“\($0.printable(limit: 64))” occurs twice: the last one is used" }
      return tokens
    } catch {
      throw response.nonConforming(error)
    }
  }

  private static func hasToken(_ outer: [String: JSON], _ quirks: TokenResponseQuirks) -> Bool {
    let members = quirks.path.reduce(outer) { $0[$1]?.dictionary ?? $0 }
    return ["access_token", "refresh_token"].contains { name in
      if case .string(let text) = members[name] { !text.isEmpty } else { false }
    }
  }

  /// The members of a response and the names of repeated ones; nil: the response is not an object.
  static func members(
    of response: HTTPResponse, quirks: TokenResponseQuirks
  ) -> (members: [String: JSON], repeated: [String])? {
    guard quirks.acceptsForm, response.mediaType == "application/x-www-form-urlencoded" else {
      guard let (value, repeated) = JSON.lenient(response.body), let members = value.dictionary else { return nil }
      return (members, repeated)
    }
    guard response.body.count <= JSON.messageOptions.bytes,
      let text = String(validating: response.body, as: UTF8.self),
      let parameters = FormEncoding.decode(text)
    else { return nil }
    var members: [String: JSON] = [:]
    for parameter in parameters where members.updateValue(.string(parameter.value), forKey: parameter.name) != nil {
      return nil
    }
    return (members, [])
  }

  private init(
    _ members: [String: JSON], outer: [String: JSON], quirks: TokenResponseQuirks, types: [String: String]
  ) throws(WrongMember) {
    var odd: [String] = []
    accessToken = Secret(try members.requiredText("access_token"))
    tokenType = try Self.type(members, quirks, types, &odd)
    let issued = Self.passing("is none", &odd) { () throws(WrongMember) in try members.text("issued_token_type") }
    issuedTokenType = issued?.isEmpty ?? true ? nil : issued
    let lifetime = Self.passing("taken as unknown", &odd) { () throws(WrongMember) in
      try Self.lifetime(members, quirks)
    }
    expiresIn = lifetime
    if lifetime == nil {
      claimedExpiry = AccessTokenExpiry.of(accessToken)
      configuredLifetime = quirks.fixedLifetime
    }
    refreshIn = Self.hint("refresh_in", members, quirks)
    refreshToken = Self.passing("the one before goes on", &odd) { () throws(WrongMember) in
      try Self.optionalSecret("refresh_token", members)
    }
    refreshTokenExpiresIn = Self.refreshTokenLifetime(members, quirks)
    scope = Self.passing("taken as what was asked for", &odd) { () throws(WrongMember) in
      try Self.scopes(members, separator: quirks.scopeSeparator)
    }
    idToken = Self.passing("taken as none", &odd) { () throws(WrongMember) in
      try Self.optionalSecret("id_token", members)
    }
    oddities = odd
    let kept = outer.merging(members) { _, inner in inner }.filter { quirks.keepMembers.contains($0.key) }
    extra = Data(JSON.object(kept).serialized(sorted: true))
  }

  /// The parameters of a fragment (RFC 6749 §4.2.2), all of them text. A refresh token in it is ignored.
  init(fragment values: [String: String], quirks: TokenResponseQuirks) throws(WrongMember) {
    let members = values.mapValues(JSON.string)
    try self.init(members, outer: members, quirks: quirks, types: Self.tokenTypes)
    refreshToken = nil
  }

  /// Reads a value; if that fails, the value is absent and reported as a deviation.
  private static func passing<Value>(
    _ consequence: String, _ odd: inout [String], _ read: () throws(WrongMember) -> Value?
  ) -> Value? {
    do throws(WrongMember) {
      return try read()
    } catch {
      odd.append("\(error.name) is not \(error.wanted): \(consequence)")
      return nil
    }
  }

  /// An unknown type is rejected: the broker cannot use such a token (RFC 6749 §7.1). A missing type is Bearer, unless
  /// the response contains the token type of an exchange.
  private static func type(
    _ members: [String: JSON], _ quirks: TokenResponseQuirks, _ types: [String: String], _ odd: inout [String]
  ) throws(WrongMember) -> String {
    let named: String
    if let text = try members.text("token_type"), !text.isEmpty {
      named = text
    } else if let assumed = quirks.tokenType {
      named = assumed
    } else {
      guard types == tokenTypes else { throw WrongMember(name: "token_type", wanted: "a non-empty string") }
      odd.append("token_type is missing: taken as Bearer (assumed_token_type says which it is)")
      named = "Bearer"
    }
    let isBearer = quirks.bearerNames.contains { $0.lowercased() == named.lowercased() }
    guard let type = isBearer ? "Bearer" : types[named.lowercased()] else {
      throw WrongMember(name: "token_type", wanted: "one that is known (Bearer, DPoP)")
    }
    return type
  }

  private static func optionalSecret(
    _ name: String, _ members: [String: JSON]
  ) throws(WrongMember) -> Secret? {
    guard let text = try members.text(name), !text.isEmpty else { return nil }
    return Secret(text)
  }

  private static func lifetime(
    _ members: [String: JSON], _ quirks: TokenResponseQuirks
  ) throws(WrongMember) -> Duration? {
    guard let number = try members.number("expires_in", orText: true) else { return nil }
    guard number >= 0 else { throw WrongMember(name: "expires_in", wanted: "zero or more") }
    return Lifetime.duration(number, unit: quirks.lifetimeUnit)
  }

  /// A nonstandard lifetime. An unreadable value is ignored: a rotated refresh token in the same response must not be
  /// lost.
  private static func hint(_ name: String, _ members: [String: JSON], _ quirks: TokenResponseQuirks) -> Duration? {
    guard let number = try? members.number(name, orText: true), number >= 0 else { return nil }
    return Lifetime.duration(number, unit: quirks.lifetimeUnit)
  }

  /// Keycloak uses `refresh_expires_in`, with 0 for a refresh token that does not expire.
  static func refreshTokenLifetime(_ members: [String: JSON], _ quirks: TokenResponseQuirks) -> Duration? {
    hint("refresh_token_expires_in", members, quirks) ?? hint("x_refresh_token_expires_in", members, quirks)
      ?? hint("refresh_expires_in", members, quirks).flatMap { $0 == .zero ? nil : $0 }
  }

  private static func scopes(_ members: [String: JSON], separator: String) throws(WrongMember) -> [String]? {
    if case .array = members["scope"] { return try members.texts("scope") }
    return try members.text("scope").map { text in
      text.split { $0 == " " || separator.contains($0) }.map(String.init)
    }
  }
}

extension TokenResponse: Redacted {
  public var description: String { "token response (\(tokenType))" }
}
