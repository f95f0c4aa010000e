import Grants
import OAuth

// How tokens for fewer scopes or another resource are requested from this provider.
extension ProviderConnection {
  /// A refresh token that rotates is not used for a narrowed token, unless the settings vouch for the server: most
  /// servers bind the new refresh token to the narrowed scope, against RFC 6749 §6.
  func narrowing(of saved: SavedGrant) -> NarrowingMethod {
    let traits = provider.refreshTraits
    switch traits.narrowing {
    case .never: return .unavailable
    case .verified: return .refresh
    // No refresh token is presented.
    case .cautious where saved.kind.isUnattended: return .refresh
    case .cautious where traits.rotation == .none && history.narrowingResult.allowsRefresh: return .refresh
    // Without metadata, the attempt fetches them.
    case .cautious: return metadata.known.map { Self.supportsExchange($0.value) } ?? true ? .exchange : .unavailable
    }
  }

  static func supportsExchange(_ metadata: ServerMetadata) -> Bool {
    metadata.supported.grantTypes?.contains(TokenExchangeRequest.grantType) ?? false
  }

  /// Why the provider returns no narrowed token, for an error and `doctor`.
  var narrowingObstacle: String {
    switch provider.refreshTraits.narrowing {
    case .never: "provider \(provider.name) has narrow_tokens = false"
    case .cautious where provider.refreshTraits.rotation == .none: history.narrowingResult.description
    case .cautious, .verified:
      "provider \(provider.name) rotates refresh tokens and supports no token exchange, so a narrowed token could harm the "
        + "account"
    }
  }
}

/// The result of the first narrowed refresh at a provider that does not rotate refresh tokens.
enum NarrowingResult: String, Sendable, CustomStringConvertible {
  case unknown
  /// The account's own token and refresh token stayed valid, as far as the provider tells.
  case works
  /// The provider returned a token of all scopes.
  case ignored
  /// The answer had another refresh token, or the account's own token became invalid.
  case harmful

  var allowsRefresh: Bool {
    switch self {
    case .unknown, .works: true
    case .ignored, .harmful: false
    }
  }

  var description: String {
    switch self {
    case .unknown: "no narrowed token was requested yet"
    case .works: "the first narrowed refresh left the account's own token valid"
    case .ignored: "the provider ignores the scope of a refresh"
    case .harmful: "the first narrowed refresh changed the account's own tokens, so no other is sent"
    }
  }
}
