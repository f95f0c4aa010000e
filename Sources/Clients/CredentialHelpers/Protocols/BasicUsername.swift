/// The user name that a server requires next to a token, in Basic authentication (RFC 7617). Most accept any.
enum BasicUsername {
  static let standard = "oauth2"

  /// By host, or by the domain above it.
  private static let known = [
    ("bitbucket.org", "x-token-auth"), ("source.developers.google.com", "oauth2accesstoken"),
    ("pkg.dev", "oauth2accesstoken"), ("gcr.io", "oauth2accesstoken"),
  ]

  static func name(for place: ServerLocation?) -> String {
    guard let host = place?.host.description else { return standard }
    return known.first { host == $0.0 || host.hasSuffix("." + $0.0) }?.1 ?? standard
  }
}
