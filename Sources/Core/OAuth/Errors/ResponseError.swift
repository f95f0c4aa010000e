/// Why a provider's response could not be used. Texts never contain the body; other quotes are limited in length and
/// escaped.
public enum ResponseError: Error, Sendable, Equatable {
  /// An OAuth error response (RFC 6749 §5.2).
  case oauth(OAuthError, status: Int, retryAfter: Duration?)
  /// The response violates the specification: the HTML page of an outage, a missing member, another status.
  case nonConforming(status: Int, mediaType: String, reason: String, retryAfter: Duration?)
  /// The provider redirects the request. The redirect is not followed: the request contains secrets.
  case redirect(status: Int)
  /// The metadata names another issuer than the configuration (RFC 8414 §3.3).
  case issuerMismatch(expected: String, found: String)
  /// The UserInfo response is about another user than the ID token (OpenID Connect Core §5.3.4).
  case subjectMismatch(expected: String, found: String)

  /// The delay that the provider requests, at most a day.
  public var retryAfter: Duration? {
    switch self {
    case .oauth(_, _, let wait), .nonConforming(_, _, _, let wait): wait
    case .redirect, .issuerMismatch, .subjectMismatch: nil
    }
  }

  /// The HTTP status, if it is relevant.
  public var status: Int? {
    switch self {
    case .oauth(_, let status, _), .nonConforming(let status, _, _, _), .redirect(let status): status
    case .issuerMismatch, .subjectMismatch: nil
    }
  }
}

extension ResponseError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .oauth(let error, let status, _):
      return "the provider refused (HTTP \(status)): \(error.summary)" + (error.uri.map { "; see \($0)" } ?? "")
    case .nonConforming(let status, let mediaType, let reason, let wait):
      let wait = wait.map { "; it asks to be left alone for \($0.wholeSeconds) s" } ?? ""
      if status == 429 { return "the provider has had too many requests (HTTP 429)\(wait)" }
      if status >= 500 || status == 408 { return "the provider is unavailable (HTTP \(status))\(wait)" }
      let type = mediaType.isEmpty ? "no content type" : mediaType
      return "the provider's answer (HTTP \(status), \(type)) cannot be used: \(reason); check the endpoint's URL and "
        + "the provider's settings\(wait)"
    case .redirect(let status):
      return "the provider answered with a redirect (HTTP \(status)), which is not followed with secrets in hand: "
        + "put the final URL of the endpoint in the configuration"
    case .issuerMismatch(let expected, let found):
      let slash =
        found == expected + "/" ? "the trailing slash is missing" : "they must be identical to the last character"
      return "the configured issuer is “\(expected)”, the provider's is “\(found)”: \(slash)"
        + "; if you trust this provider, configure “\(found)”, and discovery_url if its metadata are elsewhere"
    case .subjectMismatch(let expected, let found):
      return "the user information is about subject “\(found)”, the ID token about “\(expected)”: it is not used; "
        + "sign in again, and report it to the provider if it stays so"
    }
  }
}

extension HTTPResponse {
  static let longestMediaType = 100

  func nonConforming(_ reason: String) -> ResponseError {
    .nonConforming(
      status: status, mediaType: mediaType.printable(limit: Self.longestMediaType), reason: reason,
      retryAfter: retryAfter)
  }

  func nonConforming(_ wrong: WrongMember) -> ResponseError {
    nonConforming("\(wrong.name) is not \(wrong.wanted)")
  }

  /// The JSON object of a successful response: 200, or one of the given statuses (RFC 6749 §5.1, RFC 8414 §3.2).
  /// Redirects and OAuth errors have separate error cases.
  func successfulObject(status wanted: Int...) throws(ResponseError) -> [String: JSON] {
    guard !(300..<400).contains(status) else { throw .redirect(status: status) }
    let members = JSON(message: body)?.dictionary
    if (wanted.isEmpty ? [200] : wanted).contains(status) {
      guard let members else { throw nonConforming("the body is not a JSON object of at most 1 MiB") }
      return members
    }
    throw refusal(members.flatMap(OAuthError.init(members:)))
  }

  /// The meaning of an unsuccessful response: an OAuth error if a 4xx response contains one. At 5xx the server is
  /// unavailable, and its content never ends a grant.
  func refusal(_ error: OAuthError?) -> ResponseError {
    if (400..<500).contains(status), let error {
      return .oauth(error, status: status, retryAfter: retryAfter)
    }
    return nonConforming("the body is not an OAuth error")
  }
}
