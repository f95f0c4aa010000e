public import FoundationEssentials
public import OAuth

// Defaults for features that most providers lack: the caller gets an error, and no request is sent.
extension Provider {
  public var reach: AddressScope? { nil }

  public var registration: ProviderRegistration? { nil }

  public var metadataHint: String { "Compare `issuer` in \(section) with the provider's documentation." }

  public func supplement(to metadata: ServerMetadata) -> HTTPRequest? { nil }

  public func isGranted(_ scope: String, in granted: [String]) -> Bool { granted.contains(scope) }

  public func objection(to endpoint: Endpoint, _ error: EndpointError) -> Objection {
    Objection("provider \(name) is of kind \(description.kind), which has no \(endpoint.rawValue)")
  }

  public func keysRequest(_ metadata: ServerMetadata) throws(ProviderFailure) -> HTTPRequest? { nil }

  public func exchange(
    username: String, password: Secret, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Issued> { .failed(lacks("sign-in by password")) }

  public func probe(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationFinding> {
    .failed(lacks("authorization request that can be tried without a user"))
  }

  public func deviceAuthorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<DevicePlace> {
    .failed(lacks("login on another device"))
  }
  public func poll(_ device: DeviceLogin, login: SavedLogin, metadata: ServerMetadata) -> Step<DeviceAnswer> {
    .failed(lacks("login on another device"))
  }

  public func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<LoginAnswer> {
    .failed(lacks("exchange of a code"))
  }
  public func resume(
    _ login: SavedLogin, with input: LoginInput, metadata: ServerMetadata
  ) -> Step<LoginAnswer> { .failed(lacks("more steps of a login")) }

  public func refresh(
    _ grant: SavedGrant, token: Secret, key: SavedToken.Key, metadata: ServerMetadata
  ) -> Step<RefreshAnswer> { .failed(lacks("refresh")) }
  public func issue(
    _ source: GrantSource, to grant: SavedGrant, key: SavedToken.Key, subject: Secret?, actor: Secret?,
    metadata: ServerMetadata
  ) -> Step<Issued> { .failed(lacks("token without a user")) }
  public func exchange(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse> { .failed(lacks("token exchange")) }
  public func exchangeForIDToken(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse> { .failed(lacks("token exchange")) }
  public func introspection(of token: Secret, hint: String, metadata: ServerMetadata) -> Step<IntrospectionResponse> {
    .failed(lacks("introspection"))
  }
  public func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo> {
    .failed(lacks("UserInfo"))
  }

  public func sessions(
    of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata
  ) -> Step<[ProviderSession]> { .failed(lacks("list of sessions")) }
  public func endSession(
    _ id: String, of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata
  ) -> Step<Bool> { .failed(lacks("end of a session")) }

  public func endSession(
    of grant: SavedGrant, returnTo: RedirectURI?, state: Secret, metadata: ServerMetadata
  ) -> URL? { nil }
  public func logout(_ token: LogoutToken, metadata: ServerMetadata) -> Step<LogoutToken> {
    .failed(lacks("back-channel logout"))
  }
  public func tokenToRevoke(
    for token: Secret, hint: String, metadata: ServerMetadata
  ) -> Step<TokenResponse>? { nil }
  public func revocationContext(of grant: SavedGrant, reach: String?) -> [String: String] { [:] }

  public func authorized(_ request: HTTPRequest, by token: SavedToken, of grant: SavedGrant) -> HTTPRequest {
    var request = request
    // Exposed to be sent.
    request.headers.append(.init("Authorization", "\(token.type) \(token.accessToken.exposed)"))
    return request
  }

  public func verdict(on response: HTTPResponse) -> ResourceVerdict {
    response.status == 401 ? .tokenRefused(message: "HTTP 401", nil) : .passed
  }

  private func lacks(_ what: String) -> ProviderFailure {
    .unsupported(message: "providers of kind \(description.kind) have no \(what)")
  }
}
