public import FoundationEssentials

/// A provider's notification that a user's session has ended (OpenID Connect Back-Channel Logout §2.4).
public struct LogoutToken: Sendable, Equatable {
  public typealias Checks = JWTChecks

  /// The user who is logged out; nil if only ``sessionID`` identifies the session.
  public let subject: String?
  /// `sid`: the ended session; nil: all sessions of the subject.
  public let sessionID: String?
  /// `jti`. The receiver remembers it until ``expiresAt`` plus the tolerance, and accepts each token once (§2.6).
  public let identifier: String
  public let expiresAt: Timestamp

  private let jwt: SignedJWT
  private let registered: RegisteredClaims

  static let event = "http://schemas.openid.net/event/backchannel-logout"
  /// The accepted header types; servers older than the final specification use `JWT` or none.
  private static let types: Set<String> = ["logout+jwt", "application/logout+jwt", "jwt"]

  /// The maximum size of the form, in bytes.
  public static let maximumFormBytes = 128 << 10

  /// Parses the form of the request, which contains `logout_token` once (§2.5).
  public static func parse(form: Data) throws(LogoutTokenError) -> LogoutToken {
    guard form.count <= maximumFormBytes, let text = String(validating: form, as: UTF8.self),
      let parameters = FormEncoding.decode(text)
    else { throw .noToken }
    let found = parameters.filter { $0.name == "logout_token" }
    guard found.count == 1, !found[0].value.isEmpty else { throw .noToken }
    return try parse(Secret(found[0].value))
  }

  /// Parses the token and checks only its format; ``verify(_:keys:)`` checks the rest.
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
    // An ID token must not be accepted as a logout token, even if its nonce is null (§2.6).
    guard jwt.claims["nonce"] == nil else { throw .nonce }
    guard case .object? = jwt.claims["events"]?[event] else { throw .noEvent }
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
    identifier = try claims.requiredText("jti")
    expiresAt = try claims.requiredDate("exp")
    subject = try claims.text("sub").flatMap { $0.isEmpty ? nil : $0 }
    sessionID = try claims.text("sid").flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Verifies that the provider recently issued the token for this client (§2.6). The caller must remember the
  /// ``identifier`` to reject repeated tokens.
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

extension LogoutToken: Redacted {
  public var description: String { "logout token" }
}

/// Why a logout token was rejected (OpenID Connect Back-Channel Logout §2.6): the response is 400.
public enum LogoutTokenError: Error, Sendable, Equatable {
  /// The form contains no token, or two.
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
    case .noEvent: "the token has no event \(LogoutToken.event): it is not a logout token"
    case .neitherSubjectNorSession: "the logout token names neither a subject (sub) nor a session (sid)"
    case .nonce: "the token has a nonce: it is an ID token, not a logout token"
    }
  }
}
