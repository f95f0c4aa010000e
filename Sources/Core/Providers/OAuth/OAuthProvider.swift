import FoundationEssentials
public import Grants
public import OAuth

/// A configured OpenID Connect or OAuth 2.0 authorization server.
public struct OAuthProvider: Provider {
  public let settings: ProviderSettings
  public let description: ProviderDescription
  public let authorizationTraits: AuthorizationTraits
  public let tokenTraits: TokenTraits
  public let refreshTraits: RefreshTraits
  public let revocationTraits: RevocationTraits
  public let logoutTraits: LogoutTraits
  public let apiTraits: APITraits

  public var name: ProviderName { settings.name }
  public var reach: AddressScope? { settings.server.reach }

  public init(_ settings: ProviderSettings) {
    var settings = settings
    if let member = settings.signIn.identityMember, !settings.token.response.keepMembers.contains(member) {
      settings.token.response.keepMembers.append(member)
    }
    self.settings = settings
    description = ProviderDescription(
      kind: settings.server.kind.rawValue, profile: settings.profile, displayName: settings.displayName,
      issuer: settings.server.issuer?.rawValue, clientID: settings.client.id, server: settings.tokenServer)
    authorizationTraits = AuthorizationTraits(settings)
    tokenTraits = TokenTraits(settings)
    refreshTraits = RefreshTraits(
      rotation: settings.refresh.rotation, lifetime: settings.refresh.tokenLifetime,
      isSliding: settings.refresh.prolongsTokens,
      narrowing: settings.refresh.narrowing)
    revocationTraits = RevocationTraits(
      scope: settings.logout.revocation == .bearer ? .client : .token, endsReplaced: settings.logout.revokesReplaced)
    var logout = LogoutTraits()
    logout.acceptsLogoutTokens = settings.logout.backchannel
    logout.redirectURI = settings.logout.postLogoutRedirectURI.flatMap(RedirectURI.init(rawValue:))
    logoutTraits = logout
    var api = APITraits(base: settings.api.base, origins: settings.api.origins)
    api.reach = settings.api.reach
    apiTraits = api
  }

  // MARK: Metadata

  public func discovery() -> HTTPRequest? {
    guard let style = settings.server.discovery, let issuer = settings.server.issuer else { return nil }
    var request = issuer.discoveryRequest(style)
    if let url = settings.server.discoveryURL { request.url = url }
    return secured(request)
  }

  public var registration: ProviderRegistration? {
    guard settings.client.isRegistered, let issuer = settings.server.issuer else { return nil }
    return ProviderRegistration(issuer: issuer, isPublic: settings.client.credential == .none)
  }

  public var metadataHint: String {
    let other = settings.server.discovery == .oauth ? "openid" : "oauth"
    if let issuer = settings.server.issuer?.rawValue, let cut = issuer.firstRange(of: "/.well-known/") {
      return
        "Set `issuer = \"\(issuer[..<cut.lowerBound])\"` in \(section): the issuer is the URL before `/.well-known/`."
    }
    return
      "Set `discovery = \"\(other)\"`, or `authorization_endpoint` and `token_endpoint`, in \(section); or correct "
      + "`issuer` there."
  }

  /// The RFC 8414 document for an OpenID provider whose own metadata lack one of these endpoints.
  public func supplement(to metadata: ServerMetadata) -> HTTPRequest? {
    guard settings.profile == nil || settings.profile == "oidc", settings.server.discovery?.isOpenID == true,
      settings.server.discoveryURL == nil, let issuer = settings.server.issuer,
      metadata.endpoints[.revocation] == nil || metadata.endpoints[.introspection] == nil
        || metadata.endpoints[.registration] == nil
    else { return nil }
    return secured(issuer.discoveryRequest(.oauth))
  }

  public func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata {
    var metadata: ServerMetadata
    if let response, let issuer = settings.server.issuer {
      do throws(ResponseError) {
        metadata = try ServerMetadata.parse(
          response, expected: issuer, issuerRule: settings.server.issuerRule,
          allowInsecureHTTP: settings.server.allowInsecureHTTP)
      } catch {
        throw .discovery(error, at: discovery()?.url)
      }
    } else {
      metadata = ServerMetadata(issuer: settings.server.issuer?.rawValue ?? "")
    }
    for endpoint in Endpoint.allCases {
      if let text = settings.server.endpoints[endpoint] {
        metadata.endpoints[endpoint] = try url(text, endpoint.rawValue)
      }
    }
    return metadata
  }

  public func keysRequest(_ metadata: ServerMetadata) throws(ProviderFailure) -> HTTPRequest? {
    // The keys also verify signed responses and logout tokens.
    guard tokenTraits.usesIDTokens || usesJARM || logoutTraits.acceptsLogoutTokens else { return nil }
    return secured(
      HTTPRequest(
        purpose: .keys, method: "GET", url: try endpoint(.keys, metadata),
        headers: [.init("Accept", "application/json")]))
  }

  /// Adds the configured certificate authorities and client certificate.
  func secured(_ request: HTTPRequest) -> HTTPRequest {
    var request = request
    request.tls = settings.server.tls
    return request
  }

  // MARK: The server's names

  /// Google returns the long names of scopes that were requested by their short names.
  public func isGranted(_ scope: String, in granted: [String]) -> Bool {
    func short(_ scope: String) -> Substring {
      let prefix = "https://www.googleapis.com/auth/userinfo."
      return scope.hasPrefix(prefix) ? scope.dropFirst(prefix.count) : scope[...]
    }
    return granted.contains { short($0) == short(scope) }
  }

  public func objection(to endpoint: Endpoint, _ error: EndpointError) -> Objection {
    Objection(
      "provider \(name): \(error.description)",
      hint: "If the provider has it: set \(endpoint.rawValue) in \(section), then `grantctl reload`.")
  }

  // MARK: Endpoints

  func endpoint(_ endpoint: Endpoint, _ metadata: ServerMetadata) throws(ProviderFailure) -> URL {
    // With certificate authentication, endpoints may have other URLs (RFC 8705 §5).
    if usesCertificate, let alias = metadata.mtlsEndpointAliases[endpoint] { return alias }
    do throws(EndpointError) {
      return try metadata.endpoint(endpoint)
    } catch {
      throw .misconfigured(message: error.description, nil)
    }
  }

  func url(_ text: String, _ key: String) throws(ProviderFailure) -> URL {
    guard let url = Endpoint.url(text, allowInsecureHTTP: settings.server.allowInsecureHTTP) else {
      throw .misconfigured(
        message: "\(key) “\(text)” of provider \(name) is not an https URL (allow_insecure_http permits http)", nil)
    }
    return url
  }
}

extension AuthorizationTraits {
  fileprivate init(_ settings: ProviderSettings) {
    let signIn = settings.signIn
    self.init(
      redirect: Redirect(settings.client.redirect), usesPKCE: settings.authorization.pkce && !signIn.isImplicit,
      lifetime: settings.signIn.lifetime)
    correlation = signIn.isOneAtATime ? .singleLogin : .state
    responseType = signIn.isImplicit ? .token : .code
    exchangesCodes = signIn.exchangesCodes
    maxAge = settings.authorization.maxAge
    allowsPassword = settings.token.allowsPassword
    options.apps = signIn.native.apps.map(\.name)
    options.takesPrefill = signIn.prefill != nil
  }
}

extension AuthorizationTraits.Redirect {
  init(_ redirect: ProviderSettings.Redirect) {
    switch redirect {
    case .loopback(let host, let path): self = .loopback(host: host.rawValue, path: path)
    case .fixed(let uri): self = .fixed(uri)
    }
  }
}

extension TokenTraits {
  fileprivate init(_ settings: ProviderSettings) {
    self.init(
      scopes: settings.access.scopes, resource: settings.access.resource,
      usesIDTokens: settings.server.kind == .oidc && settings.access.scopes.contains("openid"))
    hasOpenID = settings.server.kind == .oidc
    optionalScopes = settings.access.optionalScopes
    audience = settings.access.audience
    audienceParameter = settings.access.audienceParameter
    namesPerson = settings.signIn.identityMember != nil
    binding = TokenBinding(usesDPoP: settings.token.dpop, usesCertificate: settings.client.credential == .mutualTLS)
  }
}

extension [String: String] {
  var asParameters: [Parameter] { sorted { $0.key < $1.key }.map { Parameter($0.key, $0.value) } }
  var asHeaders: [HTTPRequest.Header] { sorted { $0.key < $1.key }.map { .init($0.key, $0.value) } }
}
