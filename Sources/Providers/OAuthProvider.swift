import Foundation
public import Grants
public import OAuth

/// An OpenID Connect or OAuth 2.0 authorization server, as its settings say.
public struct OAuthProvider: Provider {
  public let settings: ProviderSettings
  public let about: ProviderAbout

  public var name: ProviderName { settings.name }

  public init(_ settings: ProviderSettings) {
    self.settings = settings
    about = ProviderAbout(settings)
  }

  // MARK: Metadata

  public func discovery() -> HTTPRequest? {
    guard let style = settings.discovery, let issuer = settings.issuer else { return nil }
    return issuer.discoveryRequest(style)
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
    return metadata
  }

  public func keysRequest(_ metadata: ServerMetadata) throws(ProviderFailure) -> HTTPRequest? {
    guard about.usesIDTokens else { return nil }
    return HTTPRequest(
      purpose: .keys, method: "GET", url: try endpoint(.keys, metadata),
      headers: [.init("Accept", "application/json")])
  }

  // MARK: Authorization

  public func authorization(
    _ request: LoginRequest, metadata: ServerMetadata
  ) throws(ProviderFailure) -> AuthorizationPlace {
    guard !metadata.requirePushedAuthorizationRequests else {
      throw .misconfigured(
        message: "the provider demands pushed authorization requests (RFC 9126), which this version does not send", nil)
    }
    let parameters = settings.authorizationParameters.merging(request.parameters) { _, asked in asked }
    let message = AuthorizationRequest(
      clientID: settings.clientID, redirectURI: request.redirectURI, scopes: request.scopes,
      scopeSeparator: settings.scopeSeparator, state: request.state, nonce: request.nonce,
      challenge: request.verifier?.challenge, resources: request.resource.map { [$0] } ?? [],
      prompt: request.prompt ?? settings.prompt, loginHint: request.loginHint,
      extra: parameters.sorted { $0.key < $1.key }.map { Parameter($0.key, $0.value) })
    let endpoint = try endpoint(.authorization, metadata)
    do throws(AuthorizationRequestError) {
      let url = try message.url(at: endpoint)
      return AuthorizationPlace(url: url, warnings: warnings(request, metadata))
    } catch {
      throw .invalid(message: error.description, nil)
    }
  }

  private func warnings(_ request: LoginRequest, _ metadata: ServerMetadata) -> [String] {
    var warnings: [String] = []
    let prompt = request.prompt ?? settings.prompt
    if request.scopes.contains("offline_access"), !(prompt ?? "").split(separator: " ").contains("consent"),
      settings.kind == .oidc
    {
      warnings.append(
        "offline_access is asked without prompt=consent: some providers then give no refresh token "
          + "(OpenID Connect Core §11)")
    }
    if request.verifier != nil, let methods = metadata.codeChallengeMethodsSupported, !methods.contains("S256") {
      warnings.append("the provider's metadata do not name PKCE with S256; it is used all the same")
    }
    return warnings
  }

  public func code(
    from callback: String, login: SavedLogin, metadata: ServerMetadata
  ) throws(CallbackError) -> Secret {
    let response = try AuthorizationResponse.parse(callback)
    return try response.code(
      for: .init(
        state: login.state, issuer: metadata.issuer.isEmpty ? nil : metadata.issuer,
        issuerPromised: metadata.authorizationResponseIssParameterSupported, issuerRule: settings.issuerRule))
  }

  // MARK: Tokens

  public func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<Issued> {
    let endpoint: URL
    let redirectURI: RedirectURI
    do throws(ProviderFailure) {
      endpoint = try self.endpoint(.token, metadata)
    } catch {
      return .failed(error)
    }
    do throws(RedirectURIError) {
      redirectURI = try RedirectURI(login.redirectURI)
    } catch {
      return .failed(.invalid(message: error.description, nil))
    }
    var request = TokenRequest.code(
      code, redirectURI: redirectURI, verifier: login.verifier.flatMap(CodeVerifier.init(rawValue:)),
      resources: login.resource.map { [$0] } ?? [])
    request.extraParameters = settings.tokenParameters.asParameters
    request.extraHeaders = settings.tokenHeaders.asHeaders
    return .send(http(request, to: endpoint)) { response, now in
      read(response) { tokens in
        checkLogin(tokens, login: login, code: code, metadata: metadata, at: now)
      }
    }
  }

  public func refresh(_ grant: SavedGrant, token: Secret, metadata: ServerMetadata) -> Step<Issued> {
    let endpoint: URL
    do throws(ProviderFailure) {
      endpoint =
        if let text = settings.endpoints.refresh { try url(text, "refresh_endpoint") } else {
          try self.endpoint(.token, metadata)
        }
    } catch {
      return .failed(error)
    }
    var request = TokenRequest.refresh(token, resources: grant.resource.map { [$0] } ?? [])
    request.extraParameters = (settings.tokenParameters.merging(settings.refreshParameters) { $1 }).asParameters
    request.extraHeaders = settings.tokenHeaders.asHeaders
    return .send(http(request, to: endpoint)) { response, _ in
      read(response) { tokens in
        checkRefresh(tokens, grant: grant, metadata: metadata, secondTry: false)
      }
    }
  }

  private func http(_ request: TokenRequest, to endpoint: URL) -> HTTPRequest {
    request.httpRequest(
      to: endpoint, clientID: settings.clientID, client: settings.client, format: settings.bodyFormat,
      scopeSeparator: settings.scopeSeparator)
  }

  private func read(_ response: HTTPResponse, then: (TokenResponse) -> Step<Issued>) -> Step<Issued> {
    do throws(ResponseError) {
      return then(try TokenResponse.parse(response, quirks: settings.response))
    } catch {
      return .failed(classify(error))
    }
  }

  // MARK: Revocation

  public func revocation(of token: Secret, hint: String, metadata: ServerMetadata) -> HTTPRequest? {
    guard let endpoint = metadata.revocationEndpoint else { return nil }
    return RevocationRequest(token: token, hint: RevocationRequest.Hint(rawValue: hint))
      .httpRequest(to: endpoint, clientID: settings.clientID, client: settings.client, format: settings.bodyFormat)
  }

  public func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome {
    RevocationRequest(token: Secret(""), hint: nil).outcome(of: response)
  }

  // MARK: Endpoints

  func endpoint(_ endpoint: Endpoint, _ metadata: ServerMetadata) throws(ProviderFailure) -> URL {
    do throws(EndpointError) {
      return try metadata.endpoint(endpoint)
    } catch {
      throw .misconfigured(message: error.description, nil)
    }
  }

  private func url(_ text: String, _ key: String) throws(ProviderFailure) -> URL {
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
      usesIDTokens: settings.kind == .oidc && settings.scopes.contains("openid"), usesPKCE: settings.pkce,
      prompt: settings.prompt)
  }
}

extension [String: String] {
  fileprivate var asParameters: [Parameter] { sorted { $0.key < $1.key }.map { Parameter($0.key, $0.value) } }
  fileprivate var asHeaders: [HTTPRequest.Header] { sorted { $0.key < $1.key }.map { .init($0.key, $0.value) } }
}
