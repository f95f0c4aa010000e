/// Paths of requests to a provider's API. Every check of a path runs through all of them: `PlainPath`, `requests` of rules,
/// `request.send`, `/forward` and its cache.
public enum RequestPaths {
  /// A server may read them as other paths.
  public static let ambiguous = [
    // Steps upwards.
    "/../x", "/a/..", "/./x", "/a/../b", "/a/./b", "/repos/../admin",
    // In escapes.
    "/a/%2e%2e/b", "/a/%2e%2E/x", "/a/.%2E/admin", "/a%2f..%2fx", "/a/..%2fadmin",
    // In escapes of escapes.
    "/a/%252e%252e/b", "/a/%25%32%65%25%32%65/b", "/a/..%255cadmin", "/a/%25252525252e/b",
    // With another separator.
    "/a\\..\\b", "/a/\\..\\b", "/a/%5c../x", "/repos/%5c..%5cadmin",
    // With parameters and spaces.
    "/a/.%2e;x=1/b", "/a/..;x/b", "/a/..%20/b", "/a/.. /b", "/a/.%20",
    // In UTF-8 that is too long (RFC 3629 §3).
    "/a/%c0%ae%c0%ae/b", "/a/%C0%AE%C0%AE/b", "/a/%e0%80%ae./x", "/a/%E0%80%AE", "/a/%F0%80%80%AE",
    // In characters that some servers take for a dot or a separator.
    "/a/%ef%bc%8e%ef%bc%8e/b", "/a/%e2%80%a4./b", "/a/%e2%80%a4%e2%80%a4/x", "/a/..%e2%88%95b", "/a/..%ef%bc%8fx",
    "/a/%2e%2e%ef%bc%bcx", "/a/\u{FF0E}\u{FF0E}/b", "/a/\u{2024}\u{2024}/b", "/a/..\u{FF0F}b",
    // Control characters.
    "/a/%00", "/a/.%00./b", "/a/%0d%0a", "/a/%7f", "/a/\u{1}", "/a\tb", "/a/b\u{7F}",
  ]

  /// Some servers read `//` as `/`.
  public static let emptySteps = ["/a//b", "//", "//a", "/a/b//"]

  /// All servers read them in the same way, but they may change on their way: escapes, hidden names, other characters.
  public static let plain = [
    "/.hidden", "/a/.well-known/x", "/a/...", "/a/b%20c", "/a/b%2Fc", "/%e9", "/%C3%A4", "/caf%c3%a9/x", "/100%",
    "/a;b", "/a;v=1/b", "/a#b", "/a b", "/\u{E4}", "/a|b",
  ]

  /// They are sent unchanged.
  public static let verbatim = [
    "/", "/a", "/a/b", "/a/b/", "/a/b.json", "/a/b..c", "/v1.0/me", "/a/b+c,d(e)", "/users/me@example.com/~x",
    "/A-b_c/1:2",
  ]
}
