public import FoundationEssentials
public import OAuth

/// A client that was registered at run time (RFC 7591), and its provider.
public struct SavedRegistration: Sendable, Equatable {
  public var provider: ProviderName
  public var issuer: Issuer
  /// The location of the metadata.
  public var discovery: DiscoveryStyle
  public var clientID: String
  public var clientSecret: Secret?
  /// `token_endpoint_auth_method` as registered.
  public var authMethod: String
  public var scopes: [String]
  /// As registered, if it is not the broker's own redirect URI.
  public var redirectURI: String?
  /// The registration access token (RFC 7592 §3); nil: the registration cannot be managed.
  public var managementToken: Secret?
  public var managementURL: URL?
  public var secretExpiresAt: Timestamp?
  public var createdAt: Timestamp

  public init(
    provider: ProviderName, issuer: Issuer, discovery: DiscoveryStyle, clientID: String, clientSecret: Secret?,
    authMethod: String, scopes: [String], redirectURI: String?, managementToken: Secret?, managementURL: URL?,
    secretExpiresAt: Timestamp?, createdAt: Timestamp
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
  }
}
