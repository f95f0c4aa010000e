import Foundation
public import Grants
public import OAuth

/// An OpenID Connect or OAuth 2.0 authorization server, as its settings say.
public struct OAuthProvider: Provider {
  public let settings: ProviderSettings
  public let about: ProviderAbout

  public var name: ProviderName { settings.name }

  public init(_ settings: ProviderSettings) {
    var settings = settings
    if let member = settings.signIn.identityMember, !settings.response.keepMembers.contains(member) {
      settings.response.keepMembers.append(member)
    }
    self.settings = settings
    about = ProviderAbout(settings)
  }

  // MARK: Metadata

  public func discovery() -> HTTPRequest? {
    guard let style = settings.discovery, let issuer = settings.issuer else { return nil }
    return secured(issuer.discoveryRequest(style))
  }

  public func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata {
    var metadata: ServerMetadata
    if let response, let issuer = settings.issuer {
      do throws(ResponseError) {
        metadata = try ServerMetadata.parse(
          response, expected: issuer, issuerRule: settings.issuerRule, allowInsecureHTTP: settings.allowInsecureHTTP)
      } catch {
        throw .discovery(error)
      }
    } else {
      metadata = ServerMetadata(issuer: settings.issuer?.rawValue ?? "")
    }
    let endpoints = settings.endpoints
    if let text = endpoints.authorization { metadata.authorizationEndpoint = try url(text, "authorization_endpoint") }
    if let text = endpoints.token { metadata.tokenEndpoint = try url(text, "token_endpoint") }
    if let text = endpoints.keys { metadata.jwksURI = try url(text, "jwks_uri") }
    if let text = endpoints.userinfo { metadata.userinfoEndpoint = try url(text, "userinfo_endpoint") }
    if let text = endpoints.revocation { metadata.revocationEndpoint = try url(text, "revocation_endpoint") }
    if let text = endpoints.introspection { metadata.introspectionEndpoint = try url(text, "introspection_endpoint") }
    if let text = endpoints.endSession { metadata.endSessionEndpoint = try url(text, "end_session_endpoint") }
    if let text = endpoints.pushedAuthorizationRequest {
      metadata.pushedAuthorizationRequestEndpoint = try url(text, "pushed_authorization_request_endpoint")
    }
    if let text = endpoints.deviceAuthorization {
      metadata.deviceAuthorizationEndpoint = try url(text, "device_authorization_endpoint")
    }
    if let text = endpoints.registration { metadata.registrationEndpoint = try url(text, "registration_endpoint") }
    return metadata
  }

  public func keysRequest(_ metadata: ServerMetadata) throws(ProviderFailure) -> HTTPRequest? {
    // Signed answers and logout tokens are verified by them too.
    guard about.usesIDTokens || usesJARM || about.takesLogouts else { return nil }
    return secured(
      HTTPRequest(
        purpose: .keys, method: "GET", url: try endpoint(.keys, metadata),
        headers: [.init("Accept", "application/json")]))
  }

  /// With the authorities and the certificate that the settings name.
  func secured(_ request: HTTPRequest) -> HTTPRequest {
    var request = request
    request.tls = settings.tls
    return request
  }

  // MARK: Endpoints

  func endpoint(_ endpoint: Endpoint, _ metadata: ServerMetadata) throws(ProviderFailure) -> URL {
    // RFC 8705 §5: where connections are proven by certificates, endpoints may be elsewhere.
    if usesCertificate, let alias = metadata.mtlsEndpointAliases[endpoint] { return alias }
    do throws(EndpointError) {
      return try metadata.endpoint(endpoint)
    } catch {
      throw .misconfigured(message: error.description, nil)
    }
  }

  func url(_ text: String, _ key: String) throws(ProviderFailure) -> URL {
    guard let url = Endpoint.url(text, allowInsecureHTTP: settings.allowInsecureHTTP) else {
      throw .misconfigured(
        message: "\(key) “\(text)” of provider \(name) is no https URL (allow_insecure_http permits http)", nil)
    }
    return url
  }
}

extension ProviderAbout {
  init(_ settings: ProviderSettings) {
    let redirect: RedirectChoice =
      switch settings.redirect {
      case .loopback(let host, let path): .loopback(host: host.rawValue, path: path)
      case .fixed(let uri): .fixed(uri)
      }
    self.init(
      kind: settings.kind.rawValue, profile: settings.profile, displayName: settings.displayName,
      issuer: settings.issuer?.rawValue, clientID: settings.clientID, scopes: settings.scopes,
      resource: settings.resource, rotation: settings.rotation, refreshTokenLifetime: settings.refreshTokenLifetime,
      loginLifetime: settings.loginLifetime, redirect: redirect,
      usesIDTokens: settings.kind == .oidc && settings.scopes.contains("openid"),
      usesPKCE: settings.pkce && !settings.signIn.isImplicit, prompt: settings.prompt)
    usesDPoP = settings.dpop
    takesPasswords = settings.allowPassword
    takesLogouts = settings.backchannelLogout
    postLogoutRedirect = settings.postLogoutRedirectURI.flatMap(RedirectURI.init(rawValue:))
    usesCertificate = settings.client == .mutualTLS
    maxAge = settings.maxAge
    namesPerson = settings.signIn.identityMember != nil
    narrowsTokens = settings.narrowsTokens
    prolongsRefreshTokens = settings.prolongsRefreshTokens
    isOneLoginAtATime = settings.signIn.isOneAtATime
    answersInFragment = settings.signIn.isImplicit
    exchangesCodes = settings.signIn.exchangesCodes
    apps = settings.signIn.apps.map(\.name)
    takesPrefill = settings.signIn.prefill != nil
    apiBase = settings.api.base
    apiOrigins = Set(([settings.api.base].compactMap(\.self) + settings.api.origins).map(\.origin))
    revokesByAccessToken = settings.revocation == .bearer
    revokesReplaced = settings.revokesReplaced
  }
}

extension URL {
  fileprivate var origin: String { HTTPRequest(purpose: .resource, method: "GET", url: self).origin }
}

extension [String: String] {
  var asParameters: [Parameter] { sorted { $0.key < $1.key }.map { Parameter($0.key, $0.value) } }
  var asHeaders: [HTTPRequest.Header] { sorted { $0.key < $1.key }.map { .init($0.key, $0.value) } }
}
