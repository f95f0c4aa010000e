/// Names of headers in requests to a provider's API. Every check of a header runs through all of them: `CallerHeaders`,
/// `request.send`, `/forward` and its second attempt, and the headers of the configuration.
public enum RequestHeaders {
  /// They belong to the connection (RFC 9110 §7.6.1).
  public static let ofConnection = [
    "Connection", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Host",
    "Content-Length", "HTTP2-Settings",
  ]

  public static let credentials = ["Authorization", "Proxy-Authorization", "Cookie", "Cookie2", "DPoP"]

  /// A compressed or partial answer may hide the token.
  public static let ofEncoding = ["Accept-Encoding", "Range", "If-Range"]

  /// A server may take the request for another one than was allowed.
  public static let overrides = [
    "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Forwarded-Method", "X-Original-Method",
    "X-Original-URL", "X-Original-URI", "X-Rewrite-URL", "X-Rewrite-URI", "X-Forwarded-URI", "X-Forwarded-Path",
  ]

  /// A caller sets none of them, in any spelling.
  public static let refused = ofConnection + credentials + ofEncoding + overrides

  /// They come from the caller.
  public static let allowed = [
    "Accept", "Accept-Language", "Content-Type", "If-Match", "If-None-Match", "Last-Event-ID", "Mcp-Session-Id",
    "Prefer", "X-Request-ID", "X_Trace_Id", "X-Cookie", "Cookies", "Authorization-Hint", "TEs",
  ]

  /// In each case, and with underscores: servers that pass headers as variables (CGI, WSGI) do not distinguish them
  /// from hyphens.
  public static func spellings(of name: String) -> [String] {
    let lower = name.lowercased()
    let mixed = String(name.enumerated().map { Character($0 % 2 == 0 ? $1.lowercased() : $1.uppercased()) })
    let all = [name, lower, name.uppercased(), mixed]
    return all + all.map { String($0.map { $0 == "-" ? "_" : $0 }) }
  }
}
