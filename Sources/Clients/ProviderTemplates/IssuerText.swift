/// An issuer as users enter it: with or without scheme, or the URL of its metadata.
public struct IssuerText: Equatable, Sendable {
  private static let wellKnown = "/.well-known/"
  private static let documents = ["openid-configuration", "oauth-authorization-server"]

  /// The issuers to try, in order: as entered, then with the other ending.
  public let candidates: [String]
  public let host: String

  /// Nil: the text is neither a URL nor a host.
  public init?(_ text: String) {
    var text = Self.trimmed(text)
    if text.hasPrefix("\u{FEFF}") { text.removeFirst() }
    if let end = text.firstIndex(where: { $0 == "?" || $0 == "#" }) { text = String(text[..<end]) }
    if !text.contains("://") {
      guard text.contains("."), !text.contains("@") else { return nil }
      text = "https://" + text
    }
    guard let scheme = text.firstRange(of: "://"), ["http", "https"].contains(text[..<scheme.lowerBound].lowercased())
    else { return nil }
    let rest = text[scheme.upperBound...]
    let authority = rest.prefix { $0 != "/" }
    let isPlain = rest.unicodeScalars.allSatisfy { $0.value > 0x20 && $0.value < 0x7F }
    guard !authority.isEmpty, !authority.contains("@"), isPlain else { return nil }
    let issuer = Self.withoutDocument(String(text))
    let other = issuer.hasSuffix("/") ? String(issuer.dropLast()) : issuer + "/"
    candidates = [issuer, other]
    host = Self.host(authority)
  }

  /// The issuer over https, without the port of plain http.
  public var withHTTPS: String {
    let rest = candidates[0].drop { $0 != "/" }.dropFirst(2)
    let authority = rest.prefix { $0 != "/" }
    let host = authority.hasSuffix(":80") ? authority.dropLast(3) : authority
    return "https://\(host)\(rest[authority.endIndex...])"
  }

  private static func trimmed(_ text: String) -> String {
    let start = text.drop { $0.isWhitespace }
    return String(start.prefix(start.count - start.reversed().prefix { $0.isWhitespace }.count))
  }

  /// OpenID Connect Discovery §4 appends the path to the issuer, RFC 8414 §3.1 puts it before the issuer's path.
  private static func withoutDocument(_ url: String) -> String {
    guard let mark = url.firstRange(of: wellKnown) else { return url }
    let tail = url[mark.upperBound...]
    guard let document = documents.first(where: { tail.hasPrefix($0) }) else { return url }
    let path = tail.dropFirst(document.count)
    return String(url[..<mark.lowerBound]) + path
  }

  private static func host(_ authority: Substring) -> String {
    if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") {
      return String(authority[authority.index(after: authority.startIndex)..<end])
    }
    return authority.prefix { $0 != ":" }.lowercased()
  }
}
