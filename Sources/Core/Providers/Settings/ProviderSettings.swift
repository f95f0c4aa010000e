public import FoundationEssentials
public import Grants
public import OAuth

/// A provider as configured: the authorization server, our client registration, and its deviations.
/// Its secrets, keys and certificates are already read from their files or credentials.
public struct ProviderSettings: Sendable, Equatable {
  public enum Kind: String, Sendable, CaseIterable {
    /// OpenID Connect: discovery and ID tokens.
    case oidc
    /// Plain OAuth 2.0: configured endpoints, or discovery by RFC 8414.
    case oauth2
  }

  public var name: ProviderName
  /// The shipped template, if any.
  public var profile: String?
  public var displayName: String
  public var server: Server
  public var client: Client
  public var access = Access()
  public var authorization = Authorization()
  /// Deviations of the sign-in from the plain code flow in a browser.
  public var signIn = SignInSettings()
  public var token = Token()
  public var refresh = Refresh()
  public var logout = Logout()
  /// The destinations of authorised calls.
  public var api = APISettings()

  public init(name: ProviderName, kind: Kind, displayName: String, clientID: String) {
    self.name = name
    self.displayName = displayName
    server = Server(kind: kind)
    client = Client(id: clientID)
  }

  /// Deviations of the refresh response from the specification.
  public var refreshResponse: TokenResponseQuirks {
    var quirks = token.response
    quirks.path = refresh.path ?? token.response.path
    return quirks
  }

  /// The origin of the configured token endpoint, if any.
  var tokenServer: String? {
    server.endpoints[.token].map { text in
      URL(string: text).map { HTTPRequest(purpose: .token, method: "POST", url: $0).origin } ?? text
    }
  }
}

extension ProviderSettings {
  /// The authorization server.
  public struct Server: Sendable, Equatable {
    public var kind: Kind
    public var issuer: Issuer?
    public var issuerRule: IssuerRule = .exact
    /// Whether endpoints come from the issuer's metadata; values in ``endpoints`` take precedence.
    public var discovery: DiscoveryStyle?
    /// The URL of the metadata; nil: the issuer's well-known URL.
    public var discoveryURL: URL?
    /// Configured endpoints, as text, so that an error for an invalid one can name its key.
    public var endpoints: [Endpoint: String] = [:]
    /// The endpoint for refreshes, if it is not the one for tokens.
    public var refreshEndpoint: String?
    /// The nearest addresses that requests may go to, if a document of a server named the endpoints; nil: all.
    public var reach: AddressScope?
    /// Certificate authorities in addition to the system's, and the client's certificate (RFC 8705).
    public var tls: TLSChoice?
    public var allowInsecureHTTP = false
  }

  /// Our client, as the provider registered it.
  public struct Client: Sendable, Equatable {
    /// Empty if there is no client: a service account's assertion needs none (RFC 7521 §4.1).
    public var id: String
    public var credential: ClientCredential = .none
    /// The client secret if it authenticates the client by a signature: it is also the key of HS256 (OpenID Connect Core
    /// §10.1).
    public var secret: Secret?
    /// The broker registered the client (RFC 7591); false: the provider is in the configuration.
    public var isRegistered = false
    public var redirect: Redirect = .loopback(host: .v4, path: "/callback")
  }

  /// The access that a login requests.
  public struct Access: Sendable, Equatable {
    public var scopes: [String] = []
    /// Requested by default if the metadata list them (`scopes_supported`).
    public var optionalScopes: [String] = []
    public var scopeSeparator: String = " "
    /// The resource requested by default (RFC 8707).
    public var resource: String?
    /// The audience requested by default, and the parameter for it.
    public var audience: String?
    public var audienceParameter: TokenTraits.AudienceParameter?
  }

  /// Authorization requests (RFC 6749 §4.1.1), and those of devices (RFC 8628 §3.1).
  public struct Authorization: Sendable, Equatable {
    public var pkce = true
    /// Empty: no prompt is sent, deliberately, and no warning is reported.
    public var prompt: String?
    /// The maximum age of the user's authentication at the provider, in seconds (OpenID Connect Core §3.1.2.1).
    public var maxAge: Int64?
    public var acrValues: [String] = []
    public var uiLocales: [String] = []
    /// A JSON object: the requested claims (OpenID Connect Core §5.5).
    public var claims: String?
    /// A JSON array: the authorization details to request (RFC 9396 §2).
    public var details: String?
    /// Whether authorization requests are pushed first (RFC 9126).
    public var par = PushedRequests.whenRequired
    /// Signs authorization requests (RFC 9101); nil: they are not signed.
    public var requestObjectKey: SigningKey?
    /// The encoding of the callback, if it is not a plain query: `jwt` or `query.jwt` (JARM §2.3).
    public var responseMode: String?
    public var parameters: [String: String] = [:]
    public var deviceParameters: [String: String] = [:]
  }

  /// Requests to the token endpoint, and its responses.
  public struct Token: Sendable, Equatable {
    public var parameters: [String: String] = [:]
    /// For codes, refreshes and all other requests to the token endpoint.
    public var headers: [String: String] = [:]
    public var bodyFormat: BodyFormat = .form
    /// Binds tokens to a key of the account (RFC 9449).
    public var dpop = false
    public var response = TokenResponseQuirks()
    public var idToken = IDTokenSettings()
    /// Allows sign-in with the user's password (RFC 6749 §4.3), if the provider offers no other way.
    public var allowsPassword = false
  }

  /// Refreshes (RFC 6749 §6).
  public struct Refresh: Sendable, Equatable {
    public var parameters: [String: String] = [:]
    /// Additional headers; they take precedence over ``Token/headers``.
    public var headers: [String: String] = [:]
    /// The path of the token in a refresh response; nil: the same as in other responses.
    public var path: [String]?
    public var rotation: Rotation = .strict
    /// Errors that end a grant in addition to `invalid_grant`: codes or descriptions from the token endpoint, or a status
    /// (`http_400`).
    public var permanentErrors: [ErrorPattern] = []
    public var temporaryErrors: [ErrorPattern] = []
    public var tokenLifetime: Duration?
    /// The lifetime restarts at each use, even if the refresh token stays the same.
    public var prolongsTokens = false
    /// Each refresh requests the granted scopes: without them some servers return other scopes.
    public var sendsScope = false
    public var narrowing = RefreshTraits.Narrowing.cautious
  }

  /// Revocation, and logout at the provider.
  public struct Logout: Sendable, Equatable {
    public var revocation = RevocationStyle.rfc7009
    public var revocationParameters: [String: String] = [:]
    /// A login revokes the refresh token that it replaces: a revocation ends only the grant of that token.
    public var revokesReplaced = false
    /// The registered URL that the browser returns to after logout at the provider (RP-Initiated Logout §3.1).
    public var postLogoutRedirectURI: String?
    /// Accepts logout tokens from the provider (Back-Channel Logout §2).
    public var backchannel = false
  }

  public enum PushedRequests: String, Sendable, CaseIterable {
    case never
    /// If the metadata require it.
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
    /// The broker's own callback endpoint, on any port (RFC 8252 §7.3).
    case loopback(host: LoopbackHost, path: String)
    /// Exactly this string, as registered. A loopback URL with a port fixes the callback endpoint's port.
    case fixed(RedirectURI)
  }

  public enum LoopbackHost: String, Sendable, CaseIterable {
    case v4 = "127.0.0.1"
    case v6 = "[::1]"
    case localhost
  }

  public struct IDTokenSettings: Sendable, Equatable {
    /// Empty: the algorithms in the metadata, else RS256.
    public var algorithms: [String] = []
    public var tolerance: Duration = .seconds(30)
    /// Audiences allowed in addition to the client if `azp` is the client.
    public var trustedAudiences: [String] = []
  }
}
