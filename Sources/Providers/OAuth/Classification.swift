import Grants
import OAuth

extension OAuthProvider {
  /// The codes that end a grant at any provider (RFC 6749 §5.2), or say that only a person can go on (OpenID Connect
  /// Core §3.1.2.6); settings add a provider's own.
  static let permanentCodes: Set<OAuthErrorCode> = [
    .invalidGrant, .interactionRequired, .loginRequired, .consentRequired, .accountSelectionRequired,
  ]
  /// The codes that say our registration or settings are wrong: they stop the provider, not each account.
  static let configurationCodes: Set<OAuthErrorCode> = [
    .invalidClient, .unauthorizedClient, .unsupportedGrantType, .invalidScope, .invalidTarget,
  ]
  /// The codes that pass: of a server that wants another nonce in each proof (RFC 9449 §8), and of one that is out of order;
  /// `ratelimited` is Slack's, with status 200.
  static let passingCodes: Set<OAuthErrorCode> = [
    .temporarilyUnavailable, .serverError, .slowDown, .useDPoPNonce, OAuthErrorCode(rawValue: "ratelimited"),
  ]

  /// What a failed token response means for the grant. Nothing but a permanent code ends one, and a refusal of one request
  /// is no outage.
  func classify(_ error: ResponseError) -> ProviderFailure {
    switch error {
    case .oauth(let oauth, let status, let retryAfter):
      let text = error.description
      let isTemporary = settings.temporaryErrors.contains { $0.matches(oauth) || $0.matches(status: status) }
      if isTemporary || status == 429 || status == 408 || Self.passingCodes.contains(oauth.code) {
        return .tryLater(message: text, oauth, retryAfter: retryAfter)
      }
      if settings.permanentErrors.contains(where: { $0.matches(oauth) }) {
        return .ended(.refused, message: text, oauth)
      }
      if Self.permanentCodes.contains(oauth.code) { return .ended(.refused, message: text, oauth) }
      if Self.configurationCodes.contains(oauth.code) { return .misconfigured(message: text, oauth) }
      return .requestRefused(message: text, oauth, retryAfter: retryAfter)
    case .nonConforming(let status, let mediaType, _, let retryAfter):
      if status == 429 || settings.temporaryErrors.contains(where: { $0.matches(status: status) }) {
        return .tryLater(message: error.description, nil, retryAfter: retryAfter)
      }
      if Self.isRefusal(status: status, mediaType: mediaType) {
        return settings.permanentErrors.contains { $0.matches(status: status) }
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

  /// Whether an answer without a code was meant as a refusal. A page for people is a proxy's or an outage's, whatever its
  /// status, and a status that may pass is none either.
  static func isRefusal(status: Int, mediaType: String) -> Bool {
    (400..<500).contains(status) && status != 408 && status != 429 && mediaType != "text/html"
  }
}

/// What `permanent_errors` and `temporary_errors` name. Some providers have one code for many things, which only the
/// description tells apart (Zoom: `invalid_request`).
public enum ErrorPattern: Sendable, Equatable {
  /// `http_403`.
  case status(Int)
  /// An error code, or a part of the description without regard to case.
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
  /// What failed metadata mean: a wrong issuer or address needs an admin; all else passes. A refusal does too: a server
  /// that is starting, or a gateway before it, answers with 404 or 403, while the token endpoint may work.
  static func discovery(_ error: ResponseError) -> ProviderFailure {
    switch error {
    case .issuerMismatch: .misconfigured(message: error.description, nil)
    case .redirect(let status):
      .misconfigured(
        message: "the metadata URL redirects (HTTP \(status)) to another origin or more than three times, which is not "
          + "followed: set discovery_url to the final URL", nil)
    case .oauth(let oauth, _, let retryAfter): .tryLater(message: error.description, oauth, retryAfter: retryAfter)
    case .nonConforming(let status, let mediaType, _, let retryAfter):
      // A page is no metadata either, whatever its status.
      OAuthProvider.isRefusal(status: status, mediaType: mediaType) || (200..<300).contains(status)
        ? .requestRefused(
          message: "no metadata at the issuer's well-known address: \(error.description)", nil, retryAfter: retryAfter)
        : .unclear(message: error.description, retryAfter: retryAfter)
    case .subjectMismatch: .invalid(message: error.description, nil)
    }
  }
}
