public import FoundationEssentials

/// How a provider's token responses differ from RFC 6749 §5.1. Each difference is allowed by name only.
public struct TokenResponseQuirks: Sendable, Codable, Equatable {
  /// Takes `application/x-www-form-urlencoded` answers as well.
  public var acceptsForm: Bool
  /// Between scopes in a string: `" "`, or `","`, which then also counts with spaces.
  public var scopeSeparator: String
  /// Unknown members to keep as they are (`instance_url`, `realmId`).
  public var keepMembers: [String]
  /// How long tokens live where the provider does not say.
  public var fixedLifetime: Duration?
  /// What the provider's lifetimes are counted in.
  public var lifetimeUnit: LifetimeUnit
  /// The members to descend through to the token (`["authed_user"]`); empty for the object itself.
  public var path: [String]
  /// The type of tokens where the provider does not say.
  public var tokenType: String?
  /// What the provider calls a bearer token besides `Bearer` (`bot`, `user`), in any case.
  public var bearerNames: [String]
  /// A member that is `false` in a refusal, whatever the status says (`ok`).
  public var successMember: String?
  /// Where an error's code may be besides `error`, as dotted paths (`error.type`, `errcode`): the first that holds a text
  /// or a number, but not zero.
  public var errorMembers: [String]
  /// Where its description may be besides `error_description`, as dotted paths.
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

  /// What an answer refuses with, in OAuth's words or in the provider's own.
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
      for name in path.split(separator: ".") { value = value?.members?[String(name)] }
      switch value {
      case .string(let text) where !text.isEmpty: return text
      case .number(let text) where Double(text) != 0: return text
      default: continue
      }
    }
    return nil
  }
}

/// What a lifetime on the wire is counted in; RFC 6749 says seconds.
public enum LifetimeUnit: String, Sendable, Codable, CaseIterable {
  case seconds, milliseconds
}

/// Lifetimes from the wire.
enum Lifetime {
  /// The longest that is believed. Anything beyond is a mistake, and would overflow sums with dates.
  static let longest = Duration.seconds(10 * 365 * 86_400)

  static func duration(_ number: Double, unit: LifetimeUnit) -> Duration {
    let milliseconds = unit == .seconds ? number * 1000 : number
    guard milliseconds < Double(longest.milliseconds) else { return longest }
    return .milliseconds(Int64(max(milliseconds, 0)))
  }
}

/// What the token endpoint granted (RFC 6749 §5.1).
public struct TokenResponse: Sendable, Equatable {
  public var accessToken: Secret
  /// `Bearer` or `DPoP`, whatever case it came in.
  public var tokenType: String
  /// `expires_in`; nil: unknown, not zero.
  public var expiresIn: Duration?
  /// The access token's own end, if it is a JWT and `expires_in` is absent. Not verified.
  public var claimedExpiry: Timestamp?
  /// The lifetime in the settings, if `expires_in` is absent.
  public var configuredLifetime: Duration?
  /// When the provider would like a refresh (Microsoft).
  public var refreshIn: Duration?
  /// Nil where none came: then the old one stays good.
  public var refreshToken: Secret?
  public var refreshTokenExpiresIn: Duration?
  /// Nil where the provider does not say: then it granted what was asked.
  public var scope: [String]?
  public var idToken: Secret?
  /// What kind of token it is (RFC 8693 §2.2.1); nil outside a token exchange, where it must be there.
  public var issuedTokenType: String?
  /// A JSON object of the members that ``TokenResponseQuirks/keepMembers`` names, as far as they came.
  public var extra: Data
  /// What was outside the specification and passed over, for people. No secret is in it.
  public private(set) var oddities: [String] = []

  /// What a provider that speaks no OAuth gave, in the same terms.
  ///
  /// - Parameter extra: a JSON object that is kept with the grant.
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

  /// What is reported if nothing tells how long the access tokens of a provider live.
  public static let unknownLifetime =
    "no `expires_in`: the token is refreshed within an hour; `access_token_lifetime` in the provider's section sets its lifetime"
  private static let tokenTypes = ["bearer": "Bearer", "dpop": "DPoP"]
  /// What an exchange may give is no access token, and has no type of use (RFC 8693 §2.2.1).
  private static let exchangedTokenTypes = tokenTypes.merging(["n_a": "N_A"]) { old, _ in old }

  /// Reads a token response: a success with a JSON object, and no `error` in it. Of what else it has, what does no harm is
  /// passed over (``oddities``): a refusal would lose a refresh token that cannot be had again.
  public static func parse(
    _ response: HTTPResponse, quirks: TokenResponseQuirks
  ) throws(ResponseError) -> TokenResponse {
    try parse(response, quirks: quirks, types: tokenTypes)
  }

  /// Reads the answer to a token exchange (RFC 8693 §2.2.1): `issued_token_type` must be there, and `token_type` may be
  /// `N_A`.
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
      // Whatever the error is, a grant that was just given a token has not ended.
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
      guard let members = inner[name]?.members else { throw response.nonConforming("there is no object \(name) in it") }
      inner = members
    }
    do throws(WrongMember) {
      var tokens = try TokenResponse(inner, outer: outer, quirks: quirks, types: types)
      tokens.oddities += repeated.map { "“\($0.printable(limit: 64))” is there twice: the last one counts" }
      return tokens
    } catch {
      throw response.nonConforming(error)
    }
  }

  private static func hasToken(_ outer: [String: JSON], _ quirks: TokenResponseQuirks) -> Bool {
    let members = quirks.path.reduce(outer) { $0[$1]?.members ?? $0 }
    return ["access_token", "refresh_token"].contains { name in
      if case .string(let text) = members[name] { !text.isEmpty } else { false }
    }
  }

  /// The members of an answer, and the names of those that are there twice; nil: it is no object.
  static func members(
    of response: HTTPResponse, quirks: TokenResponseQuirks
  ) -> (members: [String: JSON], repeated: [String])? {
    guard quirks.acceptsForm, response.mediaType == "application/x-www-form-urlencoded" else {
      guard let (value, repeated) = JSON.lenient(response.body), let members = value.members else { return nil }
      return (members, repeated)
    }
    guard response.body.count <= JSON.maximumBytes,
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
    extra = Data(JSON.object(kept).serialized.utf8)
  }

  /// The parameters of a fragment (RFC 6749 §4.2.2), all of them text. A refresh token has no business there.
  init(fragment values: [String: String], quirks: TokenResponseQuirks) throws(WrongMember) {
    let members = values.mapValues(JSON.string)
    try self.init(members, outer: members, quirks: quirks, types: Self.tokenTypes)
    refreshToken = nil
  }

  /// What is read where it can be; else it is absent, and said to be odd.
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

  /// One that is not known is refused: nobody knows how to use such a token (RFC 6749 §7.1). One that is missing is
  /// Bearer, unless it says what kind of token an exchange gave.
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

  /// A lifetime outside the specification. What cannot be read is passed over: a rotated refresh token that came along
  /// must not be lost for it.
  private static func hint(_ name: String, _ members: [String: JSON], _ quirks: TokenResponseQuirks) -> Duration? {
    guard let number = try? members.number(name, orText: true), number >= 0 else { return nil }
    return Lifetime.duration(number, unit: quirks.lifetimeUnit)
  }

  /// Keycloak writes `refresh_expires_in`, and 0 for a refresh token that does not end.
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

extension TokenResponse: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "token response (\(tokenType))" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}
