public import Foundation

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

  public init(
    acceptsForm: Bool = false, scopeSeparator: String = " ", keepMembers: [String] = [],
    fixedLifetime: Duration? = nil, lifetimeUnit: LifetimeUnit = .seconds, path: [String] = []
  ) {
    self.acceptsForm = acceptsForm
    self.scopeSeparator = scopeSeparator
    self.keepMembers = keepMembers
    self.fixedLifetime = fixedLifetime
    self.lifetimeUnit = lifetimeUnit
    self.path = path
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
  /// Nil where the provider does not say: unknown, not zero.
  public var expiresIn: Duration?
  /// When the provider would like a refresh (Microsoft).
  public var refreshIn: Duration?
  /// Nil where none came: then the old one stays good.
  public var refreshToken: Secret?
  public var refreshTokenExpiresIn: Duration?
  /// Nil where the provider does not say: then it granted what was asked.
  public var scope: [String]?
  public var idToken: Secret?
  /// A JSON object of the members that ``TokenResponseQuirks/keepMembers`` names, as far as they came.
  public var extra: Data

  private static let tokenTypes = ["bearer": "Bearer", "dpop": "DPoP"]

  /// Reads a token response: 200 with a JSON object, and no `error` in it, whatever the status says.
  public static func parse(
    _ response: HTTPResponse, quirks: TokenResponseQuirks
  ) throws(ResponseError) -> TokenResponse {
    guard !(300..<400).contains(response.status) else { throw .redirect(status: response.status) }
    let outer = members(of: response, quirks: quirks)
    guard response.status == 200 else { throw response.refusal(outer) }
    guard let outer else { throw response.nonConforming("the body is not a JSON object of at most 1 MiB") }
    if let error = OAuthError(members: outer) {
      throw .oauth(error, status: response.status, retryAfter: response.retryAfter)
    }
    if let error = outer["error"], error != .null, error != .string("") {
      throw response.nonConforming("it says 200 and has an error in it")
    }
    var inner = outer
    for name in quirks.path {
      guard let members = inner[name]?.members else { throw response.nonConforming("there is no object \(name) in it") }
      inner = members
    }
    do throws(WrongMember) {
      return try TokenResponse(inner, outer: outer, quirks: quirks)
    } catch {
      throw response.nonConforming(error)
    }
  }

  private static func members(of response: HTTPResponse, quirks: TokenResponseQuirks) -> [String: JSON]? {
    guard quirks.acceptsForm, response.mediaType == "application/x-www-form-urlencoded" else {
      return JSON(response.body)?.members
    }
    guard response.body.count <= JSON.maximumBytes,
      let text = String(validating: response.body, as: UTF8.self),
      let parameters = FormEncoding.decode(text)
    else { return nil }
    var members: [String: JSON] = [:]
    for parameter in parameters where members.updateValue(.string(parameter.value), forKey: parameter.name) != nil {
      return nil
    }
    return members
  }

  private init(
    _ members: [String: JSON], outer: [String: JSON], quirks: TokenResponseQuirks
  ) throws(WrongMember) {
    accessToken = Secret(try members.requiredText("access_token"))
    guard let type = Self.tokenTypes[try members.requiredText("token_type").lowercased()] else {
      throw WrongMember(name: "token_type", wanted: "one that is known (Bearer, DPoP)")
    }
    tokenType = type
    expiresIn = try Self.lifetime(members, quirks) ?? quirks.fixedLifetime
    refreshIn = Self.hint("refresh_in", members, quirks)
    refreshToken = try Self.optionalSecret("refresh_token", members)
    refreshTokenExpiresIn =
      Self.hint("refresh_token_expires_in", members, quirks) ?? Self.hint("x_refresh_token_expires_in", members, quirks)
    scope = try Self.scopes(members, separator: quirks.scopeSeparator)
    idToken = try Self.optionalSecret("id_token", members)
    let kept = outer.merging(members) { _, inner in inner }.filter { quirks.keepMembers.contains($0.key) }
    extra = Data(JSON.object(kept).serialized.utf8)
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
