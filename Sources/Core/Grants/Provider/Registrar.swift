public import OAuth

/// Creates providers from issuers by registering a client (RFC 7591). The implementation belongs to the Providers
/// module.
public protocol Registrar: Sendable {
  /// The issuer without a client, one candidate for each metadata location, in the order to try.
  ///
  /// - Parameter authorities: certificate authorities in PEM, in addition to the system's.
  func candidates(issuer: Issuer, name: ProviderName, authorities: String?) -> [any Provider]
  /// The issuer without a client, with metadata at a known location.
  ///
  /// - Parameter reach: the nearest addresses that requests may go to; nil: all.
  func candidate(_ issuer: Issuer, _ style: DiscoveryStyle, name: ProviderName, reach: AddressScope?) -> any Provider
  /// Registers a client.
  func registration(
    _ asked: RegistrationRequest, at candidate: any Provider, metadata: ServerMetadata
  ) -> Step<SavedRegistration>
  /// The registration of a client that was registered by hand, without a request. Fails if the method is unknown or does
  /// not fit the secret.
  func registration(
    of client: GivenClient, _ asked: RegistrationRequest, at candidate: any Provider, metadata: ServerMetadata,
    now: Timestamp
  ) throws(ProviderFailure) -> SavedRegistration
  /// Finds the client authentication that the token endpoint accepts, by requests that carry no token of a user. Nil: no
  /// method is accepted.
  func authentication(of registration: SavedRegistration, metadata: ServerMetadata) -> Step<SavedRegistration?>
  /// The provider of a registration; nil if a newer version stored it.
  func provider(_ registration: SavedRegistration) -> (any Provider)?
  /// The provider of a registration that has the client and the settings of another provider, and a resource of its own;
  /// nil: this kind of provider has no such clients.
  func provider(_ registration: SavedRegistration, over base: any Provider) -> (any Provider)?
  /// The request that removes the client (RFC 7592 §2.3); nil: the issuer does not support it.
  func removal(of registration: SavedRegistration) -> HTTPRequest?
  /// Whether the response to ``removal(of:)`` means that the client no longer exists.
  func isRemoved(_ response: HTTPResponse) -> Bool
}

/// A client that was registered by hand.
public struct GivenClient: Sendable {
  public var id: String
  /// Nil: a public client.
  public var secret: Secret?

  public init(id: String, secret: Secret?) {
    self.id = id
    self.secret = secret
  }
}

/// The data of a client registration.
public struct RegistrationRequest: Sendable {
  public var provider: ProviderName
  public var clientName: String
  /// Nil: the OpenID Connect scopes that the issuer supports.
  public var scopes: [String]?
  /// The broker's own redirect URI, without a port and with its current port.
  public var redirectURIs: [String]
  /// Nil: the broker's own redirect URI.
  public var fixedRedirectURI: String?
  public var initialAccessToken: Secret?
  /// In the format of the configuration; nil: the safest one that the issuer supports.
  public var authMethod: String?
  public var options = SavedRegistration.Options()

  public init(
    provider: ProviderName, clientName: String, scopes: [String]?, redirectURIs: [String], fixedRedirectURI: String?,
    initialAccessToken: Secret?
  ) {
    self.provider = provider
    self.clientName = clientName
    self.scopes = scopes
    self.redirectURIs = redirectURIs
    self.fixedRedirectURI = fixedRedirectURI
    self.initialAccessToken = initialAccessToken
  }
}
