import Grants
import OAuth

extension OAuthProvider {
  /// The codes that end a grant at any provider (RFC 6749 §5.2); settings add a provider's own.
  static let permanentCodes: Set<OAuthErrorCode> = [.invalidGrant]
  /// The codes that say our registration or settings are wrong: they stop the provider, not each account.
  static let configurationCodes: Set<OAuthErrorCode> = [
    .invalidClient, .unauthorizedClient, .unsupportedGrantType, .invalidScope, .invalidTarget,
  ]
  /// The codes that pass.
  static let passingCodes: Set<OAuthErrorCode> = [.temporarilyUnavailable, .serverError, .slowDown]

  /// What a failed token response means for the grant. Nothing but a permanent code ends one.
  func classify(_ error: ResponseError) -> ProviderFailure {
    switch error {
    case .oauth(let oauth, let status, let retryAfter):
      let text = error.description
      if status == 429 || status == 408 || Self.passingCodes.contains(oauth.code) {
        return .tryLater(message: text, oauth, retryAfter: retryAfter)
      }
      if isPermanent(oauth.code.rawValue) { return .ended(.refused, message: text, oauth) }
      if Self.permanentCodes.contains(oauth.code) { return .ended(.refused, message: text, oauth) }
      if Self.configurationCodes.contains(oauth.code) { return .misconfigured(message: text, oauth) }
      return .tryLater(message: text, oauth, retryAfter: retryAfter)
    case .nonConforming(let status, _, _, let retryAfter):
      if isPermanent("http_\(status)") { return .ended(.refused, message: error.description, nil) }
      if status == 429 { return .tryLater(message: error.description, nil, retryAfter: retryAfter) }
      return .unclear(message: error.description, retryAfter: retryAfter)
    case .redirect:
      return .unclear(message: error.description, retryAfter: nil)
    case .issuerMismatch, .subjectMismatch:
      return .invalid(message: error.description, nil)
    }
  }

  /// Whether the settings name this code, or this status of an answer without one (`http_400`), as one that ends a grant.
  private func isPermanent(_ code: String) -> Bool {
    settings.permanentErrors.contains(code)
  }
}

extension ProviderFailure {
  /// What failed metadata mean: a wrong issuer needs an admin; all else passes.
  static func discovery(_ error: ResponseError) -> ProviderFailure {
    switch error {
    case .issuerMismatch, .redirect: .misconfigured(message: error.description, nil)
    case .oauth(let oauth, _, let retryAfter): .tryLater(message: error.description, oauth, retryAfter: retryAfter)
    case .nonConforming(let status, _, _, let retryAfter):
      (400..<500).contains(status) && status != 429 && status != 408
        ? .misconfigured(message: "no metadata at the issuer's well-known address: \(error.description)", nil)
        : .unclear(message: error.description, retryAfter: retryAfter)
    case .subjectMismatch: .invalid(message: error.description, nil)
    }
  }
}
