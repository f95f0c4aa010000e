import FoundationEssentials
public import Grants
public import OAuth

/// Registers clients at OpenID providers and OAuth servers (RFC 7591, OpenID Connect Registration).
public struct ClientRegistrar: Registrar {
  public init() {}

  public func candidates(issuer: Issuer, name: ProviderName, authorities: String?) -> [any Provider] {
    [DiscoveryStyle.openID, .oauth].map { style in
      OAuthProvider(
        Self.settings(
          name, issuer, style, clientID: "", scopes: [], SavedRegistration.Options(authorities: authorities)))
    }
  }

  public func candidate(
    _ issuer: Issuer, _ style: DiscoveryStyle, name: ProviderName, reach: AddressScope?
  ) -> any Provider {
    var options = SavedRegistration.Options()
    options.reach = reach
    return OAuthProvider(Self.settings(name, issuer, style, clientID: "", scopes: [], options))
  }

  public func registration(
    _ asked: RegistrationRequest, at candidate: any Provider, metadata: ServerMetadata
  ) -> Step<SavedRegistration> {
    guard let candidate = candidate as? OAuthProvider, let issuer = candidate.settings.server.issuer,
      let discovery = candidate.settings.server.discovery
    else { return .failed(.misconfigured(message: "this provider registers no clients", nil)) }
    let endpoint: URL
    do throws(ProviderFailure) {
      endpoint = try candidate.endpoint(.registration, metadata)
    } catch {
      return .failed(error)
    }
    return registration(asked, at: candidate, issuer, discovery, endpoint, metadata, Self.grantTypes(metadata))
  }

  private func registration(
    _ asked: RegistrationRequest, at candidate: OAuthProvider, _ issuer: Issuer, _ discovery: DiscoveryStyle,
    _ endpoint: URL, _ metadata: ServerMetadata, _ grantTypes: [String]
  ) -> Step<SavedRegistration> {
    let method = asked.authMethod ?? Self.authMethod(metadata)
    let scopes = asked.scopes ?? Self.scopes(metadata)
    let request = ClientRegistrationRequest(
      name: asked.clientName, redirectURIs: asked.fixedRedirectURI.map { [$0] } ?? asked.redirectURIs,
      grantTypes: grantTypes,
      authMethod: method == Self.rawBasic ? Self.basic : method, scopes: scopes,
      initialAccessToken: asked.initialAccessToken)
    return .send(candidate.secured(request.httpRequest(to: endpoint))) { response, now in
      do throws(ResponseError) {
        let client = try ClientRegistration.parse(response)
        // The server's choice takes precedence (RFC 7591 §3.2.1).
        let chosen = client.tokenEndpointAuthMethod ?? (client.clientSecret == nil ? "none" : method)
        let used = chosen == Self.basic && method == Self.rawBasic ? method : chosen
        let saved = SavedRegistration(
          provider: asked.provider, issuer: issuer, discovery: discovery, clientID: client.clientID,
          clientSecret: client.clientSecret, authMethod: used, scopes: scopes, redirectURI: asked.fixedRedirectURI,
          managementToken: client.management?.accessToken, managementURL: client.management?.url,
          secretExpiresAt: client.clientSecretExpiresAt, createdAt: now, options: asked.options)
        guard Self.credential(saved) != nil else {
          return .failed(
            .misconfigured(message: "the issuer registered the client with \(used), which it was not asked for", nil))
        }
        return .done(saved)
      } catch {
        let failure = candidate.refusedQuestion(error)
        // Some servers list the device grant and register no client with it.
        if failure.oauth?.code == .invalidClientMetadata, grantTypes.contains(Self.deviceGrant) {
          let others = grantTypes.filter { $0 != Self.deviceGrant }
          return registration(asked, at: candidate, issuer, discovery, endpoint, metadata, others)
        }
        return .failed(failure)
      }
    }
  }

  public func registration(
    of client: GivenClient, _ asked: RegistrationRequest, at candidate: any Provider, metadata: ServerMetadata,
    now: Timestamp
  ) throws(ProviderFailure) -> SavedRegistration {
    guard let candidate = candidate as? OAuthProvider, let issuer = candidate.settings.server.issuer,
      let discovery = candidate.settings.server.discovery
    else { throw .misconfigured(message: "this provider registers no clients", nil) }
    let method = asked.authMethod ?? (client.secret == nil ? "none" : Self.secretMethod(metadata))
    var saved = SavedRegistration(
      provider: asked.provider, issuer: issuer, discovery: discovery, clientID: client.id, clientSecret: client.secret,
      authMethod: method, scopes: asked.scopes ?? Self.scopes(metadata), redirectURI: asked.fixedRedirectURI,
      managementToken: nil, managementURL: nil, secretExpiresAt: nil, createdAt: now, options: asked.options)
    saved.isByHand = true
    guard Self.credential(saved) != nil, (method == "none") == (client.secret == nil) else {
      let wanted = client.secret == nil ? "needs a client secret" : "uses no client secret, but one was given"
      throw .invalid(message: "the authentication method \(method) \(wanted)", nil)
    }
    return saved
  }

  public func authentication(
    of registration: SavedRegistration, metadata: ServerMetadata
  ) -> Step<SavedRegistration?> {
    guard registration.clientSecret != nil else { return .done(registration) }
    let methods = [registration.authMethod] + Self.methods.filter { $0 != registration.authMethod }
    return authentication(of: registration, metadata, by: methods[...])
  }

  /// Tries one method after the other. The presented refresh token is made up: only the client's authentication matters.
  private func authentication(
    of registration: SavedRegistration, _ metadata: ServerMetadata, by methods: ArraySlice<String>
  ) -> Step<SavedRegistration?> {
    guard let method = methods.first else { return .done(nil) }
    var tried = registration
    tried.authMethod = method
    guard let credential = Self.credential(tried), let endpoint = metadata.endpoints[.token] else {
      return .done(registration)
    }
    var request = TokenRequest.refresh(Secret("grantd-tests-its-authentication")).httpRequest(
      to: endpoint, clientID: registration.clientID,
      client: credential.authentication(issuer: registration.issuer.rawValue, tokenEndpoint: endpoint))
    request.tls = Self.tls(registration.options)
    return .send(request) { [tried] response, _ in
      do throws(ResponseError) {
        _ = try TokenResponse.parse(response, quirks: TokenResponseQuirks())
        return .done(tried)
      } catch {
        var code: OAuthErrorCode?
        if case .oauth(let oauth, _, _) = error { code = oauth.code }
        if code == .invalidClient || code == nil && response.status == 401 {
          return authentication(of: registration, metadata, by: methods.dropFirst())
        }
        // Another answer, such as that of a server that is overloaded, does not show that this method is accepted.
        return .done(code == .invalidGrant || code == .unauthorizedClient ? tried : registration)
      }
    }
  }

  public func provider(_ registration: SavedRegistration) -> (any Provider)? {
    guard let credential = Self.credential(registration) else { return nil }
    var settings = Self.settings(
      registration.provider, registration.issuer, registration.discovery, clientID: registration.clientID,
      scopes: registration.scopes, registration.options)
    settings.client.credential = credential
    settings.client.isRegistered = true
    if let text = registration.redirectURI {
      guard let uri = try? RedirectURI(text) else { return nil }
      settings.client.redirect = .fixed(uri)
    }
    return OAuthProvider(settings)
  }

  public func provider(_ registration: SavedRegistration, over base: any Provider) -> (any Provider)? {
    guard let base = base as? OAuthProvider, base.settings.server.issuer == registration.issuer else { return nil }
    var settings = base.settings
    settings.name = registration.provider
    settings.client.isRegistered = true
    settings.displayName = registration.provider.rawValue
    (settings.access.scopes, settings.access.optionalScopes) = (registration.scopes, [])
    settings.access.resource = registration.options.resource
    settings.api = APISettings()
    settings.api.base = registration.options.apiBase
    settings.api.reach = registration.options.apiReach
    // They ask for rights or an audience at the base's servers: the token is for the resource, which another operator runs.
    (settings.authorization.parameters, settings.authorization.deviceParameters) = ([:], [:])
    (settings.token.parameters, settings.refresh.parameters) = ([:], [:])
    (settings.authorization.details, settings.authorization.claims) = (nil, nil)
    return OAuthProvider(settings)
  }

  public func removal(of registration: SavedRegistration) -> HTTPRequest? {
    guard let token = registration.managementToken, let url = registration.managementURL else { return nil }
    var request = ClientRegistration.Management(accessToken: token, url: url).deleteRequest()
    request.tls = Self.tls(registration.options)
    return request
  }

  public func isRemoved(_ response: HTTPResponse) -> Bool {
    (try? ClientRegistration.Management.isDeleted(response)) ?? false
  }

  // MARK: Requested metadata

  private static func settings(
    _ name: ProviderName, _ issuer: Issuer, _ discovery: DiscoveryStyle, clientID: String, scopes: [String],
    _ options: SavedRegistration.Options
  ) -> ProviderSettings {
    let kind: ProviderSettings.Kind = discovery.isOpenID ? .oidc : .oauth2
    var settings = ProviderSettings(
      name: name, kind: kind, displayName: name.rawValue, clientID: clientID)
    settings.server.issuer = issuer
    settings.server.discovery = discovery
    settings.access.scopes = scopes
    settings.access.resource = options.resource
    settings.api.base = options.apiBase
    settings.server.reach = options.reach
    settings.api.reach = options.apiReach
    settings.server.tls = tls(options)
    return settings
  }

  private static func tls(_ options: SavedRegistration.Options) -> TLSChoice? {
    options.authorities.map { TLSChoice(authorities: Data($0.utf8)) }
  }

  private static let basic = "client_secret_basic"
  private static let rawBasic = "client_secret_basic_raw"
  /// Methods that present a secret, in the order to try.
  private static let methods = ["client_secret_post", basic, rawBasic]

  /// Prefers a client without a secret: a native app cannot keep one confidential (RFC 8252 §8.4).
  private static func authMethod(_ metadata: ServerMetadata) -> String {
    let offered = metadata.supported.clientAuthentication ?? []
    return offered.contains("none") ? "none" : secretMethod(metadata)
  }

  /// Ids and secrets with special characters are read in one way only in a body.
  private static func secretMethod(_ metadata: ServerMetadata) -> String {
    let offered = metadata.supported.clientAuthentication ?? []
    return offered.contains("client_secret_post") ? "client_secret_post" : "client_secret_basic"
  }

  private static let deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

  /// The device grant too, if the server has it (RFC 8628) and does not list other grants only.
  private static func grantTypes(_ metadata: ServerMetadata) -> [String] {
    let isListed = metadata.supported.grantTypes?.contains(deviceGrant) ?? true
    return ["authorization_code", "refresh_token"]
      + (metadata.endpoints[.deviceAuthorization] != nil && isListed ? [deviceGrant] : [])
  }

  private static func scopes(_ metadata: ServerMetadata) -> [String] {
    let supported = metadata.supported.scopes ?? []
    return ["openid", "profile", "email", "offline_access"].filter(supported.contains)
  }

  private static func credential(_ registration: SavedRegistration) -> ClientCredential? {
    switch (registration.authMethod, registration.clientSecret) {
    case ("none", _): ClientCredential.none
    case (basic, let secret?): .basic(secret: secret, encoding: .formWithID)
    case (rawBasic, let secret?): .basic(secret: secret, encoding: .raw)
    case ("client_secret_post", let secret?): .post(secret: secret)
    default: nil
    }
  }
}
