public import FoundationEssentials
public import OAuth

/// How one authorization server is spoken to, without I/O: a request out, a response in. The broker sends, waits and
/// remembers; what is said is decided here.
public protocol Provider: Sendable {
  var name: ProviderName { get }

  var description: ProviderDescription { get }
  var authorizationTraits: AuthorizationTraits { get }
  var tokenTraits: TokenTraits { get }
  var refreshTraits: RefreshTraits { get }
  var revocationTraits: RevocationTraits { get }
  var logoutTraits: LogoutTraits { get }
  var apiTraits: APITraits { get }
  /// Whether a scope is among those that were granted, which providers may call by other names.
  func isGranted(_ scope: String, in granted: [String]) -> Bool
  /// What a person is told where the metadata name no endpoint for what was asked.
  func objection(to endpoint: Endpoint, _ error: EndpointError) -> Objection

  /// The request that fetches the server's metadata (RFC 8414, OpenID Connect Discovery); nil: they are configured.
  func discovery() -> HTTPRequest?
  /// The request for a second metadata document, which may have endpoints that the first one lacks; nil: there is none, or
  /// nothing is missing.
  func supplement(to metadata: ServerMetadata) -> HTTPRequest?
  /// The metadata in force, from the answer to ``discovery()``, or from the settings alone where there is none.
  func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata
  /// The request that fetches the server's signing keys; nil where there are none.
  func keysRequest(_ metadata: ServerMetadata) throws(ProviderFailure) -> HTTPRequest?

  /// Where a person signs in (RFC 6749 §4.1.1); the request itself may go ahead by the back channel (RFC 9126).
  func authorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationPlace>
  /// What an address that came back means for a login of this provider that waits. Whoever sent it may be a stranger.
  func claim(_ callback: ReturnedAddress, login: SavedLogin) -> CallbackClaim
  /// What the browser brought back, once every check holds (RFC 6749 §4.1.2, §4.2.2, RFC 9207, JARM).
  func answer(
    to callback: ReturnedAddress, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<LoginAnswer, CallbackError>>
  /// Goes on with a login after the person has done what it asked for.
  func resume(_ login: SavedLogin, with input: LoginInput, metadata: ServerMetadata) -> Step<LoginAnswer>

  /// Trades a person's name and password for tokens (RFC 6749 §4.3).
  func exchange(
    username: String, password: Secret, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Issued>

  /// Asks for a code that a person confirms on another device (RFC 8628 §3.1).
  func deviceAuthorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<DevicePlace>
  /// Asks whether the person has confirmed it (RFC 8628 §3.4).
  func poll(_ device: DeviceLogin, login: SavedLogin, metadata: ServerMetadata) -> Step<DeviceAnswer>

  /// Trades the code for tokens (RFC 6749 §4.1.3).
  func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<LoginAnswer>
  /// Refreshes one of the grant's access tokens (RFC 6749 §6).
  func refresh(
    _ grant: SavedGrant, token: Secret, key: SavedToken.Key, metadata: ServerMetadata
  ) -> Step<RefreshAnswer>
  /// Requests an access token without a person (RFC 6749 §4.4, RFC 7523 §2.1, RFC 8693 §2.1).
  ///
  /// - Parameters:
  ///   - subject: the other account's access token, where the source trades one.
  ///   - actor: the acting account's access token.
  func issue(
    _ source: GrantSource, to grant: SavedGrant, key: SavedToken.Key, subject: Secret?, actor: Secret?,
    metadata: ServerMetadata
  ) -> Step<Issued>
  /// Trades a token for another (RFC 8693 §2.1).
  func exchange(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse>
  /// What the provider says of a token (RFC 7662 §2).
  func introspection(of token: Secret, hint: String, metadata: ServerMetadata) -> Step<IntrospectionResponse>
  /// What the provider says of the person (OpenID Connect Core §5.3).
  func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo>
  /// The user's sessions at the provider.
  func sessions(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<[ProviderSession]>
  /// Ends one of them; false: there was none of that name.
  func endSession(
    _ id: String, of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata
  ) -> Step<Bool>
  /// The same request with the token in it (RFC 6750 §2.1, RFC 9449 §7).
  func authorized(_ request: HTTPRequest, by token: SavedToken, of grant: SavedGrant) -> HTTPRequest
  /// What a resource server of the provider says of the token that it was sent (RFC 6750 §3.1).
  func verdict(on response: HTTPResponse) -> ResourceVerdict

  /// Where a browser ends the person's session at the provider (OpenID Connect RP-Initiated Logout §2); nil: nowhere.
  ///
  /// - Parameter returnTo: where the browser comes back with the state; nil: nowhere.
  func endSession(
    of grant: SavedGrant, returnTo: RedirectURI?, state: Secret, metadata: ServerMetadata
  ) -> URL?
  /// Whom the provider signed out, once every check holds (OpenID Connect Back-Channel Logout §2.6).
  func logout(_ token: LogoutToken, metadata: ServerMetadata) -> Step<LogoutToken>

  /// What a revocation of the grant's tokens needs besides them, since the grant is forgotten by then.
  ///
  /// - Parameter reach: how far a logout goes, where the provider knows of that (`THIS_DEVICE`, …).
  func revocationContext(of grant: SavedGrant, reach: String?) -> [String: String]
  /// The request that revokes a token (RFC 7009); nil: the server cannot.
  func revocation(
    of token: Secret, hint: String, context: [String: String], metadata: ServerMetadata
  ) -> HTTPRequest?
  func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome
  /// An access token to revoke in place of the token, where the provider takes no other; nil: the token itself is
  /// revoked.
  func tokenToRevoke(
    for token: Secret, hint: String, metadata: ServerMetadata
  ) -> Step<TokenResponse>?

  /// How far this machine's clock may be off before ID tokens are refused.
  var clockTolerance: Duration { get }
  /// Judges the settings by themselves.
  func examineSettings() -> Finding
  /// What a check asks for: ``discovery()``, or what else tells that the server is there and right; nil: nothing.
  func probe() -> HTTPRequest?
  /// Judges an answer to ``probe()`` (nil where that is), and what settings and metadata say of each other.
  func examine(_ response: HTTPResponse?) -> Examination
  /// Judges whether the server's keys can verify the ID tokens that the settings allow.
  func examine(_ keys: JWKSet, metadata: ServerMetadata) -> Finding
}
