public import Grants
public import OAuth

/// A provider as configured: the authorization server, our client registration there, and its quirks.
/// Its client secret is already read from its file or credential.
public struct ProviderSettings: Sendable, Equatable {
  public enum Kind: String, Sendable, CaseIterable {
    /// OpenID Connect: discovery and ID tokens.
    case oidc
    /// Plain OAuth 2.0: configured endpoints, or discovery by RFC 8414.
    case oauth2
  }

  public var name: ProviderName
  public var kind: Kind
  /// The shipped template, if any.
  public var profile: String?
  public var displayName: String
  public var issuer: Issuer?
  public var issuerRule: IssuerRule = .exact
  /// Whether endpoints come from the issuer's metadata; those in ``endpoints`` win.
  public var discovery: DiscoveryStyle?
  public var endpoints = Endpoints()
  public var clientID: String
  public var client: ClientAuthentication = .none
  public var scopes: [String] = []
  public var scopeSeparator: String = " "
  /// The resource asked for by default (RFC 8707).
  public var resource: String?
  public var redirect: Redirect = .loopback(host: .v4, path: "/callback")
  public var pkce = true
  public var prompt: String?
  public var authorizationParameters: [String: String] = [:]
  public var tokenParameters: [String: String] = [:]
  public var refreshParameters: [String: String] = [:]
  public var tokenHeaders: [String: String] = [:]
  public var bodyFormat: BodyFormat = .form
  public var response = TokenResponseQuirks()
  public var rotation: Rotation = .strict
  /// Error codes of the token endpoint that end a grant, beside `invalid_grant`.
  public var permanentErrors: [String] = []
  public var refreshTokenLifetime: Duration?
  public var idToken = IDTokenSettings()
  public var allowInsecureHTTP = false
  /// How long a person may take to sign in.
  public var loginLifetime: Duration = .seconds(600)

  public init(name: ProviderName, kind: Kind, displayName: String, clientID: String) {
    self.name = name
    self.kind = kind
    self.displayName = displayName
    self.clientID = clientID
  }

  /// Endpoints set by hand; text, so that a bad one is an error that names its key.
  public struct Endpoints: Sendable, Equatable {
    public var authorization: String?
    public var token: String?
    /// Where refreshes go, if not to `token`.
    public var refresh: String?
    public var keys: String?
    public var userinfo: String?
    public var revocation: String?

    public init() {}
  }

  public enum Redirect: Sendable, Equatable {
    /// The broker's own callback endpoint on whatever port it has (RFC 8252 §7.3).
    case loopback(host: LoopbackHost, path: String)
    /// Exactly this string, as registered. A loopback one with a port fixes the callback endpoint's port.
    case fixed(RedirectURI)
  }

  public enum LoopbackHost: String, Sendable, CaseIterable {
    case v4 = "127.0.0.1"
    case v6 = "[::1]"
    case localhost
  }

  public struct IDTokenSettings: Sendable, Equatable {
    /// Empty: what the metadata say, else RS256.
    public var algorithms: [String] = []
    public var tolerance: Duration = .seconds(30)
    /// Audiences allowed beside the client, where `azp` is the client.
    public var trustedAudiences: [String] = []

    public init() {}
  }
}
