public import OAuth

/// How the user authorizes the client at a provider (RFC 6749 §4, RFC 8252).
public struct AuthorizationTraits: Sendable, Equatable {
  public var redirect: Redirect
  public var correlation = Correlation.state
  public var responseType = ResponseType.code
  /// False: the authorization code itself is the result of a login, unless the caller requests otherwise; nothing is
  /// stored.
  public var exchangesCodes = true
  /// RFC 7636.
  public var usesPKCE: Bool
  /// `max_age` of each request, in seconds (OpenID Connect Core §3.1.2.1).
  public var maxAge: Int64?
  /// The time limit for the user.
  public var lifetime: Duration
  /// The resource owner password credentials grant (RFC 6749 §4.3).
  public var allowsPassword = false
  public var options = LoginOptions()
  /// The user's next step after the provider refused the login; nil: start again and allow the access.
  public var denialHint: String?

  /// The redirection endpoint (RFC 6749 §3.1.2).
  public enum Redirect: Sendable, Equatable {
    /// The broker's own endpoint, on its current port (RFC 8252 §7.3).
    case loopback(host: String, path: String)
    case fixed(RedirectURI)
  }

  /// How a callback is matched with its login.
  public enum Correlation: Sendable, Equatable {
    /// By `state` (RFC 6749 §4.1.1).
    case state
    /// By the redirect URI, which is unique for each login: the configured one with a secret appended to its path.
    case redirectURI
    /// The callback contains no login identifier, or the provider is configured this way: only one login can be
    /// pending.
    case singleLogin
  }

  /// RFC 6749 §3.1.1.
  public enum ResponseType: Sendable, Equatable {
    case code
    /// The tokens come in the fragment of the redirect URI, which no server receives (RFC 6749 §4.2.2).
    case token
  }

  public init(redirect: Redirect, usesPKCE: Bool, lifetime: Duration) {
    self.redirect = redirect
    self.usesPKCE = usesPKCE
    self.lifetime = lifetime
  }

  /// The kind of grant that a browser's login creates.
  public var grantKind: GrantKind {
    switch responseType {
    case .code: .authorizationCode
    case .token: .implicit
    }
  }

  /// Whether a login uses a code challenge. A caller that exchanges the code itself does not have the broker's verifier
  /// (RFC 7636 §4.5).
  public func makesChallenge(exchange: Bool?) -> Bool { usesPKCE && exchange ?? exchangesCodes }

  /// Checks a caller's options for one login.
  ///
  /// - Parameter exchange: whether the broker exchanges the code; nil: as configured.
  public func check(
    apps: [String]?, prefill: [String: String]?, identityProvider: String?, exchange: Bool?
  ) throws(Objection) {
    try options.check(apps: apps, prefill: prefill, identityProvider: identityProvider)
    if exchange == false, responseType == .token {
      throw Objection("exchange", "the provider gives tokens, and no code that others could exchange")
    }
  }
}

/// The options that a caller may choose for one login.
public struct LoginOptions: Sendable, Equatable {
  /// The applications on this machine that sign users in, in the order to try.
  public var apps: [String] = []
  /// Accepts user data before the login.
  public var takesPrefill = false
  /// The login may name the identity provider.
  public var takesIdentityProvider = false

  public init() {}

  func check(apps: [String]?, prefill: [String: String]?, identityProvider: String?) throws(Objection) {
    if let unknown = apps?.first(where: { !self.apps.contains($0) }) {
      throw Objection(
        "apps", "the provider has no application \(unknown.prefix(64).debugDescription)",
        hint: self.apps.isEmpty
          ? "It has none in its configuration." : "It has: \(self.apps.joined(separator: ", ")).")
    }
    if prefill?.isEmpty == false, !takesPrefill {
      throw Objection("prefill", "the provider takes nothing ahead; see `prefill` in its section")
    }
    if identityProvider != nil, !takesIdentityProvider {
      throw Objection("idp", "the provider signs people in itself")
    }
  }
}
