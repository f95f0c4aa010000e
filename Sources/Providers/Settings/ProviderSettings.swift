public import FoundationEssentials
public import Grants
public import OAuth

/// A provider as configured: the authorization server, our client registration there, and its quirks.
/// Its secrets, keys and certificates are already read from their files or credentials.
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
  /// The URL of the metadata; nil: the issuer's well-known URL.
  public var discoveryURL: URL?
  public var endpoints = Endpoints()
  /// Empty where there is no client: a service account's assertion stands alone (RFC 7521 §4.1).
  public var clientID: String
  public var client: ClientCredential = .none
  /// The client secret where it proves the client by a signature: it is the key of HS256 too (OpenID Connect Core §10.1).
  public var clientSecret: Secret?
  /// Authorities to trust besides the system's, and the client's certificate (RFC 8705).
  public var tls: TLSChoice?
  public var scopes: [String] = []
  public var scopeSeparator: String = " "
  /// The resource asked for by default (RFC 8707).
  public var resource: String?
  public var redirect: Redirect = .loopback(host: .v4, path: "/callback")
  public var pkce = true
  /// Empty: none is sent, and on purpose; nobody is warned.
  public var prompt: String?
  /// How long ago a person may have signed in at the provider, in seconds (OpenID Connect Core §3.1.2.1).
  public var maxAge: Int64?
  public var acrValues: [String] = []
  public var uiLocales: [String] = []
  /// A JSON object: the claims that are asked for (OpenID Connect Core §5.5).
  public var claims: String?
  /// A JSON array: what is asked for in detail (RFC 9396 §2).
  public var authorizationDetails: String?
  /// Whether authorization requests go ahead by the back channel (RFC 9126).
  public var par = PushedRequests.whenRequired
  /// Signs authorization requests (RFC 9101); nil: they are not signed.
  public var requestObjectKey: SigningKey?
  /// How the callback is written, if not as a plain query: `jwt` or `query.jwt` (JARM §2.3).
  public var responseMode: String?
  /// Takes a person's password (RFC 6749 §4.3), which this provider gives no other way.
  public var allowPassword = false
  public var authorizationParameters: [String: String] = [:]
  public var deviceParameters: [String: String] = [:]
  public var tokenParameters: [String: String] = [:]
  public var refreshParameters: [String: String] = [:]
  public var revocationParameters: [String: String] = [:]
  /// For codes, refreshes and all other requests to the token endpoint.
  public var tokenHeaders: [String: String] = [:]
  /// For refreshes besides; they win over ``tokenHeaders``.
  public var refreshHeaders: [String: String] = [:]
  /// Binds tokens to a key of the account (RFC 9449).
  public var dpop = false
  public var bodyFormat: BodyFormat = .form
  public var response = TokenResponseQuirks()
  /// Where the token is in the answer to a refresh; nil: where it is in the others.
  public var refreshPath: [String]?
  public var rotation: Rotation = .strict
  /// What ends a grant beside `invalid_grant`: the token endpoint's codes or descriptions, or a status (`http_400`).
  public var permanentErrors: [ErrorPattern] = []
  public var temporaryErrors: [ErrorPattern] = []
  public var refreshTokenLifetime: Duration?
  /// It begins anew at each use, also where the refresh token stays the same.
  public var prolongsRefreshTokens = false
  /// Each refresh asks for the granted scopes: some servers return other ones if it does not.
  public var sendsScopeAtRefresh = false
  public var narrowing = RefreshTraits.Narrowing.cautious
  public var idToken = IDTokenSettings()
  public var revocation = RevocationStyle.rfc7009
  /// A login revokes the refresh token that it replaces: a revocation ends that token's grant alone.
  public var revokesReplaced = false
  /// Where the browser comes back after it signed out at the provider, as registered (RP-Initiated Logout §3.1).
  public var postLogoutRedirectURI: String?
  /// Takes the provider's word that a session has ended (Back-Channel Logout §2).
  public var backchannelLogout = false
  /// How people sign in, beyond the plain code in a browser.
  public var signIn = SignInSettings()
  /// Where authorised calls go.
  public var api = APISettings()
  public var allowInsecureHTTP = false
  /// How long a person may take to sign in.
  public var loginLifetime: Duration = .seconds(600)

  public init(name: ProviderName, kind: Kind, displayName: String, clientID: String) {
    self.name = name
    self.kind = kind
    self.displayName = displayName
    self.clientID = clientID
  }

  /// How the answer to a refresh differs from the specification.
  public var refreshResponse: TokenResponseQuirks {
    var quirks = response
    quirks.path = refreshPath ?? response.path
    return quirks
  }

  /// The origin of the token endpoint, where that is set by hand.
  var tokenServer: String? {
    endpoints.token.map { text in
      URL(string: text).map { HTTPRequest(purpose: .token, method: "POST", url: $0).origin } ?? text
    }
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
    public var introspection: String?
    public var endSession: String?
    public var pushedAuthorizationRequest: String?
    public var deviceAuthorization: String?
    public var registration: String?

    public init() {}
  }

  public enum PushedRequests: String, Sendable, CaseIterable {
    case never
    /// Where the metadata demand it.
    case whenRequired = "when_required"
    case always
  }

  public enum RevocationStyle: String, Sendable, CaseIterable {
    /// The token in the body, with the client's authentication (RFC 7009 §2.1).
    case rfc7009
    /// An empty body, and the access token in the header; it ends the whole grant.
    case bearer
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
