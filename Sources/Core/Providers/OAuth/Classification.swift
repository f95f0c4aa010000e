import FoundationEssentials
import Grants
import OAuth

extension OAuthProvider {
  /// Error codes that end a grant at any provider (RFC 6749 §5.2) or that require user interaction (OpenID Connect Core
  /// §3.1.2.6). Settings add provider-specific codes.
  static let permanentCodes: Set<OAuthErrorCode> = [
    .invalidGrant, .interactionRequired, .loginRequired, .consentRequired, .accountSelectionRequired,
  ]
  /// Error codes that report wrong registration or settings. They stop the provider, not each account.
  static let configurationCodes: Set<OAuthErrorCode> = [
    .invalidClient, .unauthorizedClient, .unsupportedGrantType, .invalidScope, .invalidTarget,
  ]
  /// Temporary error codes: the server wants another nonce in each proof (RFC 9449 §8) or is unavailable.
  static let passingCodes: Set<OAuthErrorCode> = [.temporarilyUnavailable, .serverError, .useDPoPNonce]
  /// Error codes for too many requests. `ratelimited` is from Slack, with status 200.
  static let rateCodes: Set<OAuthErrorCode> = [.slowDown, OAuthErrorCode(rawValue: "ratelimited")]

  /// The effect of a failed token response on the grant. Only a permanent code ends a grant. A refusal of one request
  /// is not an outage.
  func classify(_ error: ResponseError) -> ProviderFailure {
    switch error {
    case .oauth(let oauth, let status, let retryAfter):
      let text = error.description
      if status == 429 || Self.rateCodes.contains(oauth.code) {
        return .rateLimited(message: text, oauth, retryAfter: retryAfter)
      }
      let isTemporary = settings.refresh.temporaryErrors.contains { $0.matches(oauth) || $0.matches(status: status) }
      if isTemporary || status == 408 || Self.passingCodes.contains(oauth.code) {
        return .tryLater(message: text, oauth, retryAfter: retryAfter)
      }
      if settings.refresh.permanentErrors.contains(where: { $0.matches(oauth) }) {
        return .ended(.refused, message: text, oauth)
      }
      if Self.permanentCodes.contains(oauth.code) { return .ended(.refused, message: text, oauth) }
      if Self.configurationCodes.contains(oauth.code) { return .misconfigured(message: text, oauth) }
      return .requestRefused(message: text, oauth, retryAfter: retryAfter)
    case .nonConforming(let status, let mediaType, _, let retryAfter):
      if status == 429 { return .rateLimited(message: error.description, nil, retryAfter: retryAfter) }
      if settings.refresh.temporaryErrors.contains(where: { $0.matches(status: status) }) {
        return .tryLater(message: error.description, nil, retryAfter: retryAfter)
      }
      if Self.isRefusal(status: status, mediaType: mediaType) {
        return settings.refresh.permanentErrors.contains { $0.matches(status: status) }
          ? .ended(.refused, message: error.description, nil)
          : .requestRefused(message: error.description, nil, retryAfter: retryAfter)
      }
      return .unclear(message: error.description, retryAfter: retryAfter)
    case .redirect:
      return .unclear(message: error.description, retryAfter: nil)
    case .issuerMismatch, .subjectMismatch:
      return .invalid(message: error.description, nil)
    }
  }

  /// Whether a response without an error code was meant as a refusal. HTML comes from a proxy or an outage, regardless
  /// of the status. Temporary statuses are not refusals either.
  static func isRefusal(status: Int, mediaType: String) -> Bool {
    (400..<500).contains(status) && status != 408 && status != 429 && mediaType != "text/html"
  }
}

/// An entry of `permanent_errors` or `temporary_errors`. Some providers use one code for many errors and distinguish
/// them only in the description (Zoom: `invalid_request`).
public enum ErrorPattern: Sendable, Equatable {
  /// `http_403`.
  case status(Int)
  /// An error code, or a part of the description (case-insensitive).
  case text(String)

  public init(_ text: String) {
    let digits = text.hasPrefix("http_") ? Int(text.dropFirst(5)) : nil
    self = digits.map { .status($0) } ?? .text(text)
  }

  func matches(_ error: OAuthError) -> Bool {
    guard case .text(let text) = self else { return false }
    return error.code.rawValue == text || error.description?.lowercased().contains(text.lowercased()) == true
  }

  func matches(status: Int) -> Bool { self == .status(status) }
}

extension ProviderFailure {
  /// The failure for a failed metadata request. A wrong issuer or URL needs an administrator; all other errors are
  /// temporary. A refusal is temporary too: a server that is starting, or its gateway, answers with 404 or 403 while
  /// the token endpoint may work.
  static func discovery(_ error: ResponseError, at url: URL?) -> ProviderFailure {
    switch error {
    case .issuerMismatch:
      .misconfigured(message: "\(url.map { "\($0.absoluteString): " } ?? "")\(error.description)", nil)
    case .redirect(let status):
      .misconfigured(
        message: "the metadata URL redirects (HTTP \(status)) to another origin or more than three times, which is not "
          + "followed: set discovery_url to the final URL", nil)
    case .oauth(let oauth, _, let retryAfter): .tryLater(message: error.description, oauth, retryAfter: retryAfter)
    case .nonConforming(let status, let mediaType, _, let retryAfter):
      // HTML is not metadata, regardless of the status; most pages for unknown paths are HTML.
      OAuthProvider.isRefusal(status: status, mediaType: mediaType) || status == 404 || (200..<300).contains(status)
        ? .requestRefused(
          message: "no metadata at \(url?.absoluteString ?? "the issuer")"
            + (status == 404 ? " (HTTP 404)" : ": \(error.description)"), nil, retryAfter: retryAfter)
        : .unclear(message: error.description, retryAfter: retryAfter)
    case .subjectMismatch: .invalid(message: error.description, nil)
    }
  }
}
