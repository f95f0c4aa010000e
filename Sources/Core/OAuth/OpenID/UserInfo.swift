public import FoundationEssentials

/// The claims from the UserInfo endpoint (OpenID Connect Core §5.3).
public struct UserInfo: Sendable, Equatable {
  public var subject: String
  public var name: String?
  public var preferredUsername: String?
  public var email: String?
  /// The whole response, a JSON object.
  public var claims: Data

  /// The request with a bearer token (RFC 6750 §2.1), or with a token and its proof if it is bound to a key (RFC 9449 §7).
  public static func httpRequest(
    to endpoint: URL, accessToken: Secret, proof key: DPoPKey? = nil
  ) -> HTTPRequest {
    // Exposed to be sent.
    let credentials = "\(key == nil ? "Bearer" : "DPoP") \(accessToken.exposed)"
    return HTTPRequest(
      purpose: .userinfo, method: "GET", url: endpoint,
      headers: [.init("Accept", "application/json, application/jwt"), .init("Authorization", credentials)]
    ).proving(key, accessToken: accessToken)
  }

  /// Parses the response, which must be about the ID token's subject (OpenID Connect Core §5.3.4).
  ///
  /// - Parameter subject: the ID token's `sub`; nil if there was no ID token.
  public static func parse(_ response: HTTPResponse, subject: String?) throws(ResponseError) -> UserInfo {
    let members = try response.successfulObject()
    let info: UserInfo
    do throws(WrongMember) {
      info = try UserInfo(members, response.body)
    } catch {
      throw response.nonConforming(error)
    }
    try info.check(subject: subject)
    return info
  }

  /// The signed response, if the provider signs it (OpenID Connect Core §5.3.2); nil if the response is JSON or
  /// invalid.
  public static func compact(_ response: HTTPResponse) -> Secret? {
    guard response.status == 200, response.mediaType == "application/jwt",
      let text = String(validating: response.body, as: UTF8.self)
    else { return nil }
    return Secret(text.trimmed)
  }

  /// Parses a signed response (OpenID Connect Core §5.3.2). Always verifies the signature; checks `iss`, `aud` and
  /// times if present, and the subject like ``parse(_:subject:)``.
  ///
  /// After ``UserInfoError/token(_:)`` with `unknownKey`, fetch the keys again once and parse again.
  public static func parse(
    signed compact: Secret, checks: JWTChecks, keys: JWKSet, subject: String?
  ) throws(UserInfoError) -> UserInfo {
    let info: UserInfo
    do throws(JWTError) {
      let token = try SignedJWT.parse(compact)
      try token.verify(try token.registeredClaims(), checks, keys: keys)
      do throws(WrongMember) {
        info = try UserInfo(token.claims, token.payload)
      } catch {
        throw .malformed("\(error.name) is not \(error.wanted)")
      }
    } catch {
      throw .token(error)
    }
    do throws(ResponseError) {
      try info.check(subject: subject)
    } catch {
      throw .response(error)
    }
    return info
  }

  /// The user's claims from a provider without OpenID Connect, in the same format.
  ///
  /// - Parameter claims: a JSON object, as received.
  public init(subject: String, name: String? = nil, username: String? = nil, email: String? = nil, claims: Data) {
    self.subject = subject
    self.name = name
    preferredUsername = username
    self.email = email
    self.claims = claims
  }

  private init(_ members: [String: JSON], _ claims: Data) throws(WrongMember) {
    subject = try members.requiredText("sub")
    // Optional claims of the wrong type are ignored: they are descriptive and do not identify the user.
    func optional(_ name: String) -> String? { try? members.text(name) }
    name = optional("name")
    preferredUsername = optional("preferred_username")
    email = optional("email")
    self.claims = claims
  }

  private func check(subject expected: String?) throws(ResponseError) {
    guard let expected, expected != subject else { return }
    throw .subjectMismatch(expected: expected.printable(limit: 255), found: subject.printable(limit: 255))
  }
}

extension UserInfo: Redacted {
  /// Claims are personal data and must not be logged.
  public var description: String { "user information" }
}

/// Why a signed UserInfo response was rejected.
public enum UserInfoError: Error, Sendable, Equatable, CustomStringConvertible {
  case token(JWTError)
  case response(ResponseError)

  public var description: String {
    switch self {
    case .token(let error): error.description(of: "the signed user information")
    case .response(let error): error.description
    }
  }
}
