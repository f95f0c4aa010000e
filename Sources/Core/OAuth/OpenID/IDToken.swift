/// The identity of the user (OpenID Connect Core §2). Parsing checks only the format; ``verify(_:keys:)`` checks the
/// rest.
public struct IDToken: Sendable, Equatable {
  let jwt: SignedJWT

  /// The unchanged token.
  public var raw: Secret { jwt.raw }

  public let issuer: String
  public let subject: String
  public let audience: [String]
  public let authorizedParty: String?
  public let expiresAt: Timestamp
  public let issuedAt: Timestamp
  public let notBefore: Timestamp?
  public let authTime: Timestamp?
  public let nonce: String?
  public let email: String?
  public let name: String?
  public let preferredUsername: String?
  /// `sid`: the session at the provider (OpenID Connect Back-Channel Logout §2.1).
  public let sessionID: String?
  /// Microsoft Entra's `tid`.
  public let tenant: String?

  let accessTokenHash: String?
  let codeHash: String?

  /// Parses the compact form (RFC 7515 §7.1): three segments, each claim with its own type.
  public static func parse(_ compact: Secret) throws(IDTokenError) -> IDToken {
    // Exposed to be counted: a JWE has five segments, the first of which is a JSON object (RFC 7516 §7.1).
    guard !compact.exposed.hasPrefix("eyJ") || compact.exposed.utf8.count(where: { $0 == UInt8(ascii: ".") }) != 4
    else {
      throw .encrypted
    }
    let jwt: SignedJWT
    do throws(JWTError) {
      jwt = try SignedJWT.parse(compact)
    } catch {
      throw .token(error)
    }
    do throws(WrongMember) {
      return try IDToken(jwt)
    } catch {
      throw .token(.malformed("\(error.name) is not \(error.wanted)"))
    }
  }

  private init(_ jwt: SignedJWT) throws(WrongMember) {
    self.jwt = jwt
    let claims = jwt.claims
    issuer = try claims.requiredText("iss")
    subject = try claims.requiredText("sub")
    audience = try claims.audience()
    authorizedParty = try claims.text("azp")
    expiresAt = try claims.requiredDate("exp")
    issuedAt = try claims.requiredDate("iat")
    notBefore = try claims.date("nbf")
    authTime = try claims.date("auth_time")
    nonce = try claims.text("nonce")
    accessTokenHash = try claims.text("at_hash")
    codeHash = try claims.text("c_hash")
    // Optional claims of the wrong type are ignored: they are descriptive and do not identify the user.
    func optional(_ name: String) -> String? { try? claims.text(name) }
    email = optional("email")
    name = optional("name")
    preferredUsername = optional("preferred_username")
    sessionID = optional("sid")
    tenant = optional("tid")
  }
}

extension IDToken: Redacted {
  /// Claims are personal data and must not be logged.
  public var description: String { "ID token" }
}
