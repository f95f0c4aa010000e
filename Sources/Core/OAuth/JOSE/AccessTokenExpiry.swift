/// The expiry of an access token that is a JWT, from its `exp` (RFC 7519 §4.1.4, RFC 9068 §2.2). The signature is not
/// verified, since the token is for another audience: the time only decides when to refresh.
enum AccessTokenExpiry {
  /// Nil if the token is not a JWT or has no valid `exp`.
  static func of(_ token: Secret) -> Timestamp? {
    // Exposed to be read.
    let text = token.exposed
    guard text.utf8.count <= SignedJWT.maximumBytes else { return nil }
    let segments = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Substring.init)
    guard segments.count == 3, decodeBase64URL(segments[0]).flatMap({ JSON(message: $0) })?.dictionary?["alg"] != nil,
      let claims = decodeBase64URL(segments[1]).flatMap({ JSON(message: $0) })?.dictionary
    else { return nil }
    return (try? claims.date("exp")) ?? nil
  }
}
