/// The initial client response of a SASL mechanism that takes an access token, before its encoding in Base64.
public enum SASL: String, CaseIterable, Sendable {
  /// Google's and Microsoft's own mechanism.
  case xoauth2
  /// RFC 7628.
  case oauthbearer

  /// - Parameters:
  ///   - host: the server, and `port` its port (RFC 7628 §3.1); XOAUTH2 has neither.
  public func response(user: String, token: String, host: String? = nil, port: Int? = nil) throws(Malformed) -> [UInt8]
  {
    for text in [user, token, host ?? ""] where text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) {
      throw Malformed("a user, a host and a token have no control characters")
    }
    var parts: [String]
    switch self {
    case .xoauth2: parts = ["user=\(user)"]
    case .oauthbearer:
      // RFC 5801 §4: `=` and `,` of a saslname are escaped.
      let name = user.map { $0 == "=" ? "=3D" : $0 == "," ? "=2C" : String($0) }.joined()
      parts = ["n,a=\(name),"]
      if let host { parts.append("host=\(host)") }
      if let port { parts.append("port=\(port)") }
    }
    parts.append("auth=Bearer \(token)")
    return Array((parts.joined(separator: "\u{1}") + "\u{1}\u{1}").utf8)
  }
}
