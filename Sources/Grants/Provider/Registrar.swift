public import OAuth

/// Makes providers of issuers by registering a client there (RFC 7591); how, is for the room that speaks to providers.
public protocol Registrar: Sendable {
  /// The issuer without a client, for each way in which its metadata may be had, in the order to try.
  func candidates(issuer: String, name: ProviderName) throws(ProviderFailure) -> [any Provider]
  /// Registers a client.
  func registration(
    _ asked: RegistrationRequest, at candidate: any Provider, metadata: ServerMetadata
  ) -> Step<SavedRegistration>
  /// The provider that a registration makes; nil where it was kept by a version that knew more.
  func provider(_ registration: SavedRegistration) -> (any Provider)?
  /// The request that removes the client (RFC 7592 §2.3); nil: the issuer gave no way to.
  func removal(of registration: SavedRegistration) -> HTTPRequest?
  /// Whether the answer to ``removal(of:)`` says that the client is gone.
  func isRemoved(_ response: HTTPResponse) -> Bool
}

/// What a client is registered with.
public struct RegistrationRequest: Sendable {
  public var provider: ProviderName
  public var clientName: String
  /// Nil: what the issuer supports of OpenID Connect's.
  public var scopes: [String]?
  /// The broker's own endpoint, and how a port of its own is written.
  public var redirectURIs: [String]
  /// Nil: the broker's own.
  public var fixedRedirectURI: String?
  public var initialAccessToken: Secret?

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
