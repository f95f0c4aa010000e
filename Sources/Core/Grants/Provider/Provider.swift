public import FoundationEssentials
public import OAuth

/// The protocol of one authorization server, without I/O: requests out, responses in. The broker sends, waits and
/// stores.
public protocol Provider: Sendable {
  var name: ProviderName { get }

  var description: ProviderDescription { get }
  /// The nearest addresses that its requests may go to; nil: all.
  var reach: AddressScope? { get }
  /// Nil: the provider has a section in the configuration.
  var registration: ProviderRegistration? { get }
  var authorizationTraits: AuthorizationTraits { get }
  var tokenTraits: TokenTraits { get }
  var refreshTraits: RefreshTraits { get }
  var revocationTraits: RevocationTraits { get }
  var logoutTraits: LogoutTraits { get }
  var apiTraits: APITraits { get }
  /// Whether a scope is among the granted ones, which providers may list under other names.
  func isGranted(_ scope: String, in granted: [String]) -> Bool
  /// The error for users if the metadata lack the endpoint for the request.
  func objection(to endpoint: Endpoint, _ error: EndpointError) -> Objection

  /// The next step if the server has no metadata: a sentence.
  var metadataHint: String { get }

  /// The request that fetches the server's metadata (RFC 8414, OpenID Connect Discovery); nil: they are configured.
  func discovery() -> HTTPRequest?
  /// The request for a second metadata document with endpoints that the first one lacks; nil: there is none, or no
  /// endpoint is missing.
  func supplement(to metadata: ServerMetadata) -> HTTPRequest?
  /// The metadata to use: from the response to ``discovery()``, or only from the settings if there is none.
  func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata
  /// The request that fetches the server's signing keys; nil if there are none.
  func keysRequest(_ metadata: ServerMetadata) throws(ProviderFailure) -> HTTPRequest?

  /// The URL at which the user signs in (RFC 6749 §4.1.1); the request itself may be pushed first (RFC 9126).
  func authorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationPlace>
  /// Sends the same request without a user, by the back channel or as a browser without cookies would.
  func probe(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationFinding>
  /// The meaning of a callback URL for a pending login of this provider. The sender is untrusted.
  func claim(_ callback: ReturnedAddress, login: SavedLogin) -> CallbackClaim
  /// The result of the browser's callback, after all checks (RFC 6749 §4.1.2, §4.2.2, RFC 9207, JARM).
  func answer(
    to callback: ReturnedAddress, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<LoginAnswer, CallbackError>>
  /// Continues a login after the user completed the required action.
  func resume(_ login: SavedLogin, with input: LoginInput, metadata: ServerMetadata) -> Step<LoginAnswer>

  /// Exchanges the user's name and password for tokens (RFC 6749 §4.3).
  func exchange(
    username: String, password: Secret, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Issued>

  /// Requests a code that the user confirms on another device (RFC 8628 §3.1).
  func deviceAuthorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<DevicePlace>
  /// Polls whether the user has confirmed it (RFC 8628 §3.4).
  func poll(_ device: DeviceLogin, login: SavedLogin, metadata: ServerMetadata) -> Step<DeviceAnswer>

  /// Exchanges the code for tokens (RFC 6749 §4.1.3).
  func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<LoginAnswer>
  /// Refreshes one of the grant's access tokens (RFC 6749 §6).
  func refresh(
    _ grant: SavedGrant, token: Secret, key: SavedToken.Key, metadata: ServerMetadata
  ) -> Step<RefreshAnswer>
  /// Requests an access token without a user (RFC 6749 §4.4, RFC 7523 §2.1, RFC 8693 §2.1).
  ///
  /// - Parameters:
  ///   - subject: the other account's access token, if the source exchanges one.
  ///   - actor: the acting account's access token.
  func issue(
    _ source: GrantSource, to grant: SavedGrant, key: SavedToken.Key, subject: Secret?, actor: Secret?,
    metadata: ServerMetadata
  ) -> Step<Issued>
  /// Exchanges a token for another (RFC 8693 §2.1).
  func exchange(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse>
  /// Exchanges a token for an ID token for another audience, and verifies it (RFC 8693 §2.1).
  func exchangeForIDToken(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse>
  /// Introspects a token (RFC 7662 §2).
  func introspection(of token: Secret, hint: String, metadata: ServerMetadata) -> Step<IntrospectionResponse>
  /// Fetches the user's claims (OpenID Connect Core §5.3).
  func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo>
  /// The user's sessions at the provider.
  func sessions(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<[ProviderSession]>
  /// Ends one of the sessions; false: no session has that ID.
  func endSession(
    _ id: String, of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata
  ) -> Step<Bool>
  /// Adds the token to a request (RFC 6750 §2.1, RFC 9449 §7).
  func authorized(_ request: HTTPRequest, by token: SavedToken, of grant: SavedGrant) -> HTTPRequest
  /// The meaning of a resource server's response for the token that was sent (RFC 6750 §3.1).
  func verdict(on response: HTTPResponse) -> ResourceVerdict

  /// The URL at which a browser ends the user's session (OpenID Connect RP-Initiated Logout §2); nil: unsupported.
  ///
  /// - Parameter returnTo: the URL that the browser returns to with the state; nil: none.
  func endSession(
    of grant: SavedGrant, returnTo: RedirectURI?, state: Secret, metadata: ServerMetadata
  ) -> URL?
  /// The verified logout token, after all checks (OpenID Connect Back-Channel Logout §2.6).
  func logout(_ token: LogoutToken, metadata: ServerMetadata) -> Step<LogoutToken>

  /// The data that a revocation needs in addition to the tokens, since the grant has been removed by then.
  ///
  /// - Parameter reach: the scope of a logout, if the provider supports one (`THIS_DEVICE`, …).
  func revocationContext(of grant: SavedGrant, reach: String?) -> [String: String]
  /// The request that revokes a token (RFC 7009); nil: unsupported.
  func revocation(
    of token: Secret, hint: String, context: [String: String], metadata: ServerMetadata
  ) -> HTTPRequest?
  func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome
  /// An access token to revoke instead of this token, if the provider accepts only access tokens; nil: revoke the token
  /// itself.
  func tokenToRevoke(
    for token: Secret, hint: String, metadata: ServerMetadata
  ) -> Step<TokenResponse>?

  /// The maximum error of this machine's clock before ID tokens are refused.
  var clockTolerance: Duration { get }
  /// Checks only the settings.
  func examineSettings() -> Finding
  /// The request of a check: ``discovery()``, or another one that shows that the server works; nil: none.
  func probe() -> HTTPRequest?
  /// Checks the response to ``probe()`` (nil if that is nil), and compares settings and metadata.
  func examine(_ response: HTTPResponse?) -> Examination
  /// Checks whether the server's keys can verify the ID tokens that the settings allow.
  func examine(_ keys: JWKSet, metadata: ServerMetadata) -> Finding
}
