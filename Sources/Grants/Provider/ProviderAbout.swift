public import Foundation
public import OAuth

/// What a provider is, for people, and what the engine must know of it.
public struct ProviderAbout: Sendable, Equatable {
  public var kind: String
  public var profile: String?
  public var displayName: String
  public var issuer: String?
  public var clientID: String
  public var scopes: [String]
  public var resource: String?
  public var rotation: Rotation
  public var refreshTokenLifetime: Duration?
  /// It begins anew at each use, also where the refresh token stays the same.
  public var prolongsRefreshTokens = false
  public var loginLifetime: Duration
  public var redirect: RedirectChoice
  public var usesIDTokens: Bool
  public var usesPKCE: Bool
  public var prompt: String?
  /// A refresh may ask for fewer scopes or another resource (RFC 6749 §6, RFC 8707 §2.2).
  public var narrowsTokens = true
  /// Tokens are bound to a key of the account (RFC 9449).
  public var usesDPoP = false
  /// Takes a person's password (RFC 6749 §4.3).
  public var takesPasswords = false
  /// Connections are proven by a certificate of the client's (RFC 8705).
  public var usesCertificate = false
  /// Takes the provider's word that a session has ended (OpenID Connect Back-Channel Logout).
  public var takesLogouts = false
  /// Where the browser comes back after it signed out at the provider, as registered; a loopback one without a port stands
  /// for the port that the callback endpoint has.
  public var postLogoutRedirect: RedirectURI?
  /// `max_age` of each login's request, in seconds (OpenID Connect Core §3.1.2.1).
  public var maxAge: Int64?
  /// Nothing in a callback says of which login it is: one login waits at a time.
  public var isOneLoginAtATime = false
  /// Each login has a redirect URI of its own: the configured one with a secret behind its path.
  public var redirectsWithNonce = false
  /// It has the endpoints and answers of OAuth; else what they are named by means nothing here.
  public var speaksOAuth = true
  /// The answer comes in the fragment of the address (RFC 6749 §4.2.2), which no server sees.
  public var answersInFragment = false
  /// False: the authorization code itself is what a login is for, and nothing is stored.
  public var exchangesCodes = true
  /// Its tokens say who signed in, also without ID tokens: those that do not are another's.
  public var namesPerson = false
  /// The name of the cookie that a session goes by, where the provider gives a session instead of a token.
  public var sessionCookie: String?
  /// The applications on this machine that sign people in, in the order to try.
  public var apps: [String] = []
  /// What an authorised call may be relative to.
  public var apiBase: URL?
  /// Where authorised calls may go, as ``HTTPRequest/origin`` writes it.
  public var apiOrigins: Set<String> = []
  /// The identity providers that a login may name; nil: it names none.
  public var takesIdentityProvider = false
  /// Takes what is known of the person ahead of the login.
  public var takesPrefill = false
  /// It lists the person's sessions, and ends them one by one.
  public var listsSessions = false
  /// How far a logout may go, the standard first; empty: the provider does not ask.
  public var logoutReaches: [String] = []
  /// A revocation takes access tokens alone, and ends the whole grant (Dropbox).
  public var revokesByAccessToken = false
  /// A login revokes the refresh token that it replaces: a revocation ends that token's grant alone, and not what else the
  /// person gave this client. RFC 7009 §2.1 leaves that to the server, so it has to be known of the provider.
  public var revokesReplaced = false
  /// What a token is called where it is revoked.
  public var tokenHint: String { sessionCookie == nil ? "access_token" : "session" }

  public enum RedirectChoice: Sendable, Equatable {
    /// The broker's own endpoint, on the port it has.
    case loopback(host: String, path: String)
    case fixed(RedirectURI)
  }

  public init(
    kind: String, profile: String?, displayName: String, issuer: String?, clientID: String, scopes: [String],
    resource: String?, rotation: Rotation, refreshTokenLifetime: Duration?, loginLifetime: Duration,
    redirect: RedirectChoice, usesIDTokens: Bool, usesPKCE: Bool, prompt: String?
  ) {
    self.kind = kind
    self.profile = profile
    self.displayName = displayName
    self.issuer = issuer
    self.clientID = clientID
    self.scopes = scopes
    self.resource = resource
    self.rotation = rotation
    self.refreshTokenLifetime = refreshTokenLifetime
    self.loginLifetime = loginLifetime
    self.redirect = redirect
    self.usesIDTokens = usesIDTokens
    self.usesPKCE = usesPKCE
    self.prompt = prompt
  }
}
