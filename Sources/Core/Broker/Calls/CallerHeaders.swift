/// Headers of a caller's request that do not reach the provider's API. The one list for `request.send` and `/forward`.
/// All names are in lower case, with hyphens. An underscore is equal to a hyphen: servers that pass headers as
/// variables (CGI, WSGI) do not tell them apart.
public enum CallerHeaders {
  /// They belong to the connection (RFC 9110 §7.6.1).
  public static let ofConnection = [
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect", "host",
    "content-length", "http2-settings",
  ]
  public static let credentials = ["authorization", "proxy-authorization", "cookie", "cookie2", "dpop"]

  public static let refused =
    ofConnection + credentials + [
      // An answer is searched for the token, which a compressed or partial one may hide.
      "accept-encoding", "range", "if-range",
      // A server may take the request for another one than was allowed.
      "x-http-method-override", "x-http-method", "x-method-override", "x-forwarded-method", "x-original-method",
      "x-original-url", "x-original-uri", "x-rewrite-url", "x-rewrite-uri", "x-forwarded-uri", "x-forwarded-path",
    ]
  private static let names = Set(refused)

  public static func isRefused(_ name: String) -> Bool { names.contains(folded(name)) }

  /// The name in the form of the lists.
  public static func folded(_ name: String) -> String { name.lowercased().replacing("_", with: "-") }
}
