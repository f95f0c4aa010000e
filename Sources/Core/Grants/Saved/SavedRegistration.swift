public import FoundationEssentials
public import OAuth

/// A client that was registered at run time (RFC 7591) or entered by a user, and its provider.
public struct SavedRegistration: Sendable, Equatable {
  public var provider: ProviderName
  public var issuer: Issuer
  /// The location of the metadata.
  public var discovery: DiscoveryStyle
  public var clientID: String
  public var clientSecret: Secret?
  /// `token_endpoint_auth_method` as registered, or as the token endpoint accepts it; in the format of the configuration.
  public var authMethod: String
  public var scopes: [String]
  /// As registered, if it is not the broker's own redirect URI.
  public var redirectURI: String?
  /// The registration access token (RFC 7592 §3); nil: the registration cannot be managed.
  public var managementToken: Secret?
  public var managementURL: URL?
  public var secretExpiresAt: Timestamp?
  public var createdAt: Timestamp
  public var options = Options()
  /// Registered by hand: the broker sent no registration request, and cannot delete the client.
  public var isByHand = false

  /// Settings of the provider that the caller chose at the registration.
  public struct Options: Sendable, Equatable, Codable {
    /// The resource that tokens are for (RFC 8707).
    public var resource: String?
    /// The base URL of authorised calls.
    public var apiBase: URL? {
      get { apiBaseText.flatMap { URL(string: $0) } }
      set { apiBaseText = newValue?.absoluteString }
    }
    private var apiBaseText: String?
    /// Certificate authorities in PEM, in addition to the system's.
    public var authorities: String?
    /// The URL of the resource, as the user named it.
    public var url: String?
    /// The nearest addresses that requests may go to; nil: all.
    public var reach: AddressScope?
    /// The same for authorised calls; nil: those of `reach`.
    public var apiReach: AddressScope?
    /// The name of the provider whose client this one uses; nil: it has its own.
    public var base: String?

    private enum CodingKeys: String, CodingKey {
      case resource, authorities, url, reach, apiReach, base
      case apiBaseText = "apiBase"
    }

    public init(resource: String? = nil, apiBase: URL? = nil, authorities: String? = nil) {
      self.resource = resource
      self.apiBase = apiBase
      self.authorities = authorities
    }
  }

  public init(
    provider: ProviderName, issuer: Issuer, discovery: DiscoveryStyle, clientID: String, clientSecret: Secret?,
    authMethod: String, scopes: [String], redirectURI: String?, managementToken: Secret?, managementURL: URL?,
    secretExpiresAt: Timestamp?, createdAt: Timestamp, options: Options = Options()
  ) {
    self.provider = provider
    self.issuer = issuer
    self.discovery = discovery
    self.clientID = clientID
    self.clientSecret = clientSecret
    self.authMethod = authMethod
    self.scopes = scopes
    self.redirectURI = redirectURI
    self.managementToken = managementToken
    self.managementURL = managementURL
    self.secretExpiresAt = secretExpiresAt
    self.createdAt = createdAt
    self.options = options
  }
}
