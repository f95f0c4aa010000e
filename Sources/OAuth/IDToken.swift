public import Foundation

/// Who signed in (OpenID Connect Core §2). Reading one proves its form alone; ``verify(_:keys:)`` proves the rest.
public struct IDToken: Sendable, Equatable {
  /// The token as it came.
  public let raw: Secret

  // Header (RFC 7515 §4.1).
  public let algorithm: String
  public let kid: String?

  // Claims.
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
  public let sid: String?
  /// Microsoft Entra's `tid`.
  public let tenant: String?
  /// All claims, a JSON object.
  public let claims: Data

  let accessTokenHash: String?
  let codeHash: String?
  let signature: Data

  /// The largest token that is read, in bytes. Groups and roles make them grow.
  public static let maximumBytes = 64 << 10

  /// Seconds since 1970 that a NumericDate may have: year 1 to year 9999.
  private static let dates: ClosedRange<Double> = -62_135_596_800...253_402_300_799

  /// Reads the compact form (RFC 7515 §7.1): three segments, each claim of its own type.
  public static func parse(_ compact: Secret) throws(IDTokenError) -> IDToken {
    // Exposed to be read.
    let text = compact.exposed
    guard text.utf8.count <= maximumBytes else { throw .tooLarge }
    let segments = text.split(separator: ".", omittingEmptySubsequences: false)
    guard segments.count == 3 else {
      throw .malformed(
        segments.count == 5
          ? "it is encrypted, which is not supported" : "it has not three segments but \(segments.count)")
    }
    guard let header = decodeBase64URL(segments[0]).flatMap({ JSON($0) })?.members else {
      throw .malformed("its header is not a JSON object")
    }
    guard let payload = decodeBase64URL(segments[1]), let claims = JSON(payload)?.members else {
      throw .malformed("its claims are not a JSON object")
    }
    guard let signature = decodeBase64URL(segments[2]) else { throw .malformed("its signature is not base64url") }
    guard header["crit"] == nil else { throw .criticalHeader }
    do throws(WrongMember) {
      let token = try IDToken(compact, header: header, claims: claims, payload: payload, signature: signature)
      if token.algorithm.lowercased() != "none" { return token }
    } catch {
      throw .malformed("\(error.name) is not \(error.wanted)")
    }
    throw .unsigned
  }

  private init(
    _ compact: Secret, header: [String: JSON], claims: [String: JSON], payload: Data, signature: Data
  ) throws(WrongMember) {
    raw = compact
    self.signature = signature
    self.claims = payload
    algorithm = try header.requiredText("alg")
    kid = try header.text("kid")
    issuer = try claims.requiredText("iss")
    subject = try claims.requiredText("sub")
    audience = try Self.audience(claims)
    authorizedParty = try claims.text("azp")
    expiresAt = try Self.requiredDate("exp", claims)
    issuedAt = try Self.requiredDate("iat", claims)
    notBefore = try Self.date("nbf", claims)
    authTime = try Self.date("auth_time", claims)
    nonce = try claims.text("nonce")
    accessTokenHash = try claims.text("at_hash")
    codeHash = try claims.text("c_hash")
    // Optional claims of a wrong type are passed over: they decorate, and identify nobody.
    func optional(_ name: String) -> String? { try? claims.text(name) }
    email = optional("email")
    name = optional("name")
    preferredUsername = optional("preferred_username")
    sid = optional("sid")
    tenant = optional("tid")
  }

  private static func audience(_ claims: [String: JSON]) throws(WrongMember) -> [String] {
    let names: [String]
    if case .array = claims["aud"] {
      names = try claims.texts("aud") ?? []
    } else {
      names = [try claims.requiredText("aud")]
    }
    guard !names.isEmpty else { throw WrongMember(name: "aud", wanted: "a string or an array of strings") }
    return names
  }

  private static func date(_ name: String, _ claims: [String: JSON]) throws(WrongMember) -> Timestamp? {
    guard let seconds = try claims.number(name) else { return nil }
    guard dates.contains(seconds) else { throw WrongMember(name: name, wanted: "a date") }
    return Timestamp(milliseconds: Int64(seconds * 1000))
  }

  private static func requiredDate(_ name: String, _ claims: [String: JSON]) throws(WrongMember) -> Timestamp {
    guard let date = try date(name, claims) else { throw WrongMember(name: name, wanted: "a number") }
    return date
  }
}

extension IDToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "ID token" }
  public var debugDescription: String { description }
  /// Claims are about a person, and stay out of logs.
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}
