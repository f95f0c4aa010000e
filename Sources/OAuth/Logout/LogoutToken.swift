public import FoundationEssentials

/// A provider's word that a person's session is over (OpenID Connect Back-Channel Logout §2.4).
public struct LogoutToken: Sendable, Equatable {
  public typealias Checks = JWTChecks

  public let issuer: String
  /// Who is logged out; nil where ``sessionID`` says which session instead.
  public let subject: String?
  /// `sid`: the session that is over; nil: all of the subject's.
  public let sessionID: String?
  /// `jti`. Whoever takes the token remembers it until ``expiresAt`` and the tolerance are over, and takes it once (§2.6).
  public let identifier: String
  public let issuedAt: Timestamp
  public let expiresAt: Timestamp

  private let jwt: SignedJWT
  private let registered: RegisteredClaims

  static let event = "http://schemas.openid.net/event/backchannel-logout"
  /// The types of header that are taken; servers older than the final text say `JWT` or nothing.
  private static let types: Set<String> = ["logout+jwt", "application/logout+jwt", "jwt"]

  /// The largest form that is read, in bytes.
  public static let maximumFormBytes = 128 << 10

  /// Reads the request's form, which has `logout_token` once (§2.5).
  public static func parse(form: Data) throws(LogoutTokenError) -> LogoutToken {
    guard form.count <= maximumFormBytes, let text = String(validating: form, as: UTF8.self),
      let parameters = FormEncoding.decode(text)
    else { throw .noToken }
    let found = parameters.filter { $0.name == "logout_token" }
    guard found.count == 1, !found[0].value.isEmpty else { throw .noToken }
    return try parse(Secret(found[0].value))
  }

  /// Reads the token, which proves its form alone; ``verify(_:keys:)`` proves the rest.
  public static func parse(_ compact: Secret) throws(LogoutTokenError) -> LogoutToken {
    let jwt: SignedJWT
    let registered: RegisteredClaims
    do throws(JWTError) {
      jwt = try SignedJWT.parse(compact)
      registered = try jwt.registeredClaims(requiring: "iss", "aud", "iat", "exp", "jti", "events")
    } catch {
      throw .token(error)
    }
    if let type = jwt.type, !types.contains(type.lowercased()) { throw .wrongType(type.printable(limit: 64)) }
    // An ID token must not pass for a logout token, even with a claim that is null (§2.6).
    guard jwt.claims["nonce"] == nil else { throw .nonce }
    guard case .object(let events)? = jwt.claims["events"], case .object? = events[event] else { throw .noEvent }
    let token: LogoutToken
    do throws(WrongMember) {
      token = try LogoutToken(jwt, registered)
    } catch {
      throw .token(.malformed("\(error.name) is not \(error.wanted)"))
    }
    guard token.subject != nil || token.sessionID != nil else { throw .neitherSubjectNorSession }
    return token
  }

  private init(_ jwt: SignedJWT, _ registered: RegisteredClaims) throws(WrongMember) {
    self.jwt = jwt
    self.registered = registered
    let claims = jwt.claims
    issuer = try claims.requiredText("iss")
    identifier = try claims.requiredText("jti")
    issuedAt = try claims.requiredDate("iat")
    expiresAt = try claims.requiredDate("exp")
    subject = try claims.text("sub").flatMap { $0.isEmpty ? nil : $0 }
    sessionID = try claims.text("sid").flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Proves that the provider made it for this client, and lately (§2.6). That it comes for the first time is for whoever
  /// remembers the ``identifier``.
  ///
  /// After ``LogoutTokenError/token(_:)`` with `unknownKey`, fetch the keys again once and verify again.
  public func verify(_ checks: Checks, keys: JWKSet) throws(LogoutTokenError) {
    do throws(JWTError) {
      try jwt.verify(registered, checks, keys: keys)
    } catch {
      throw .token(error)
    }
  }
}

extension LogoutToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "logout token" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Why a logout token is not taken (OpenID Connect Back-Channel Logout §2.6): the request is answered with 400.
public enum LogoutTokenError: Error, Sendable, Equatable {
  /// The form has none, or two.
  case noToken
  case token(JWTError)
  case wrongType(String)
  case noEvent
  case neitherSubjectNorSession
  case nonce
}

extension LogoutTokenError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .noToken: "the request has no logout_token, or two of them"
    case .token(let error): error.description(of: "the logout token")
    case .wrongType(let type): "the logout token says that it is of type “\(type)”, not logout+jwt"
    case .noEvent: "the token has no event \(LogoutToken.event): it is no logout token"
    case .neitherSubjectNorSession: "the logout token names neither a subject (sub) nor a session (sid)"
    case .nonce: "the token has a nonce: it is an ID token, not a logout token"
    }
  }
}
