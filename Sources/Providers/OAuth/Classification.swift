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
      if status == 429 || status == 408 || Self.passingCodes.contains(oauth.code) {
        return .tryLater(message: text, oauth, retryAfter: retryAfter)
      }
      if isPermanent(oauth.code.rawValue) || isPermanent(oauth.description ?? "") {
        return .ended(.refused, message: text, oauth)
      }
      if Self.permanentCodes.contains(oauth.code) { return .ended(.refused, message: text, oauth) }
      if Self.configurationCodes.contains(oauth.code) { return .misconfigured(message: text, oauth) }
      return .requestRefused(message: text, oauth, retryAfter: retryAfter)
    case .nonConforming(let status, let mediaType, _, let retryAfter):
      if status == 429 { return .tryLater(message: error.description, nil, retryAfter: retryAfter) }
      if Self.isRefusal(status: status, mediaType: mediaType) {
        return isPermanent("http_\(status)")
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

  /// Whether the settings name this code, description or status (`http_400`) as one that ends a grant. Some providers have
  /// one code for many things (Zoom: `invalid_request`).
  private func isPermanent(_ words: String) -> Bool {
    settings.permanentErrors.contains(words)
  }
}

extension ProviderFailure {
  /// What failed metadata mean: a wrong issuer or address needs an admin; all else passes. A refusal does too: a server
  /// that is starting, or a gateway before it, answers with 404 or 403, while the token endpoint may work.
  static func discovery(_ error: ResponseError) -> ProviderFailure {
    switch error {
    case .issuerMismatch, .redirect: .misconfigured(message: error.description, nil)
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
