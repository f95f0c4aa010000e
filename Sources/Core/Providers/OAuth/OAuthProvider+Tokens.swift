import FoundationEssentials
public import Grants
public import OAuth

// Token requests: refresh, client credentials, token exchange.
extension OAuthProvider {
  public func refresh(
    _ grant: SavedGrant, token: Secret, key: SavedToken.Key, metadata: ServerMetadata
  ) -> Step<RefreshAnswer> {
    let endpoint: URL
    do throws(ProviderFailure) {
      endpoint = try refreshEndpoint(metadata)
    } catch {
      return .failed(error)
    }
    let wanted = settings.refresh.sendsScope && key.scope.isEmpty ? grant.grantedScopes : key.scopes
    let request = TokenRequest.refresh(token, scopes: wanted, resources: resources(grant, key))
    let message = http(request, to: endpoint, metadata, isRefresh: true, audience: key.audience?.name).proving(
      boundKey(grant.dpopKey))
    var quirks = settings.refreshResponse
    // The token of the login was bound, so a response without a token type is treated as bound.
    if grant.dpopKey != nil, quirks.tokenType == nil { quirks.tokenType = "DPoP" }
    return .send(message) { [quirks] response, now in
      do throws(ResponseError) {
        let tokens = try TokenResponse.parse(response, quirks: quirks)
        let checked = checkRefresh(tokens, grant: grant, metadata: metadata, at: now)
        return keeping(RotatedToken(tokens), checked)
      } catch {
        return keeping(RotatedToken(unusable: response, quirks: quirks), .failed(classify(error)))
      }
    }
  }

  /// Keeps a rotated refresh token regardless of the result of the checks: the provider accepts only the new one.
  private func keeping(_ rotated: RotatedToken?, _ checked: Step<Issued>) -> Step<RefreshAnswer> {
    checked.ending { end in
      switch end {
      case .success(let issued): .success(.issued(issued))
      case .failure(let failure): rotated.map { .success(.rotated($0, failure)) } ?? .failure(failure)
      }
    }
  }

  func refreshEndpoint(_ metadata: ServerMetadata) throws(ProviderFailure) -> URL {
    guard let text = settings.server.refreshEndpoint else { return try endpoint(.token, metadata) }
    return try url(text, "refresh_endpoint")
  }

  public func issue(
    _ source: GrantSource, to grant: SavedGrant, key: SavedToken.Key, subject: Secret?, actor: Secret?,
    metadata: ServerMetadata
  ) -> Step<Issued> {
    at(.token, metadata) { endpoint in
      issue(source, to: grant, key: key, subject: subject, actor: actor, at: endpoint, metadata)
    }
  }

  private func issue(
    _ source: GrantSource, to grant: SavedGrant, key: SavedToken.Key, subject: Secret?, actor: Secret?,
    at endpoint: URL, _ metadata: ServerMetadata
  ) -> Step<Issued> {
    let scopes = key.scope.isEmpty ? grant.requestedScopes : key.scopes
    let resources = resources(grant, key)
    @Sendable func bare(_ tokens: TokenResponse, _: Timestamp) -> Step<Issued> {
      .done(Issued(tokens: tokens, idToken: nil, identity: nil, warning: nil))
    }
    switch source {
    case .clientCredentials:
      let request = TokenRequest.clientCredentials(scopes: scopes, resources: resources)
      let audience = key.audience?.name ?? grant.audience
      return ask(request, at: endpoint, metadata, bound: grant.dpopKey, audience: audience, then: bare)
    case .jwtBearer(let account):
      let claims = GrantAssertionClaims(
        issuer: account.issuer, subject: account.subject, audience: account.audience ?? endpoint.absoluteString,
        lifetime: account.lifetime,
        scope: account.scopeInAssertion ? scopes.joined(separator: settings.access.scopeSeparator) : nil)
      let request = TokenRequest.jwtBearer(
        key: account.key, claims: claims, scopes: account.scopeInAssertion ? [] : scopes, resources: resources)
      return ask(request, at: endpoint, metadata, bound: grant.dpopKey, then: bare)
    case .exchange(let source):
      guard let subject else {
        return .failed(.misconfigured(message: "the account \(source.from) has no token to trade", nil))
      }
      let exchange: TokenExchangeRequest
      do throws(TokenExchangeRequestError) {
        exchange = try TokenExchangeRequest(
          subjectToken: subject, subjectTokenType: .accessToken, actorToken: actor,
          actorTokenType: actor == nil ? nil : .accessToken,
          requestedTokenType: source.requestedTokenType.map(TokenExchangeRequest.TokenType.init),
          audiences: source.audience.map { [$0] } ?? [], resources: resources, scopes: scopes)
      } catch {
        return .failed(.misconfigured(message: error.description, nil))
      }
      return self.exchange(exchange, of: grant, metadata: metadata).map {
        Issued(tokens: $0, idToken: nil, identity: nil, warning: nil)
      }
    }
  }

  public func exchange(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse> {
    at(.token, metadata) { endpoint in
      .send(http(.exchange(request), to: endpoint, metadata).proving(boundKey(grant.dpopKey))) { response, _ in
        read(otherwise: refusedExchange) { () throws(ResponseError) in
          try TokenResponse.parseExchange(response, quirks: settings.token.response)
        }
      }
    }
  }

  public func exchangeForIDToken(
    _ request: TokenExchangeRequest, of grant: SavedGrant, metadata: ServerMetadata
  ) -> Step<TokenResponse> {
    at(.token, metadata) { endpoint in
      .send(http(.exchange(request), to: endpoint, metadata).proving(boundKey(grant.dpopKey))) { response, now in
        do throws(ResponseError) {
          let tokens = try TokenResponse.parseExchange(response, quirks: settings.token.response)
          return checkExchanged(tokens, audience: request.audiences.first ?? "", metadata: metadata, at: now)
        } catch {
          return .failed(refusedExchange(error))
        }
      }
    }
  }

  /// A refusal concerns the subject token or the target (RFC 8693 §2.2.2). A response with a missing member is not an
  /// outage.
  private func refusedExchange(_ error: ResponseError) -> ProviderFailure {
    if case .nonConforming(200..<300, let type, _, _) = error, type != "text/html" {
      return .invalid(message: error.description, nil)
    }
    return refusedRequest(error)
  }

  private func resources(_ grant: SavedGrant, _ key: SavedToken.Key) -> [String] {
    if !key.resource.isEmpty { return [key.resource] }
    return grant.resource.map { [$0] } ?? []
  }

  // MARK: The token endpoint

  func ask(
    _ request: TokenRequest, at endpoint: URL, _ metadata: ServerMetadata, bound key: Secret?,
    audience: String? = nil, then: @escaping @Sendable (TokenResponse, Timestamp) -> Step<Issued>
  ) -> Step<Issued> {
    let message = http(request, to: endpoint, metadata, audience: audience).proving(boundKey(key))
    return .send(message) { response, now in
      do throws(ResponseError) {
        let tokens = try TokenResponse.parse(response, quirks: settings.token.response)
        if let failure = wrongBinding(tokens, key) { return .failed(failure) }
        return then(tokens, now)
      } catch {
        return .failed(classify(error))
      }
    }
  }

  func http(
    _ request: TokenRequest, to endpoint: URL, _ metadata: ServerMetadata, isRefresh: Bool = false,
    audience: String? = nil
  ) -> HTTPRequest {
    var request = request
    var own = isRefresh ? settings.refresh.parameters : [:]
    if settings.access.audienceParameter == .audience, let audience { own["audience"] = audience }
    request.extraParameters = settings.token.parameters.merging(own) { $1 }.asParameters
    request.extraHeaders = settings.token.headers.merging(isRefresh ? settings.refresh.headers : [:]) { $1 }.asHeaders
    return secured(
      request.httpRequest(
        to: endpoint, clientID: settings.client.id, client: client(metadata), format: settings.token.bodyFormat,
        scopeSeparator: settings.access.scopeSeparator))
  }

  func boundKey(_ raw: Secret?) -> DPoPKey? { raw.flatMap(DPoPKey.init(raw:)) }

  /// A login fails if the binding of its token does not match the settings (RFC 9449 §5). A refresh response is
  /// accepted even so: it may contain a rotated refresh token, which is worth more.
  func wrongBinding(_ tokens: TokenResponse, _ key: Secret?) -> ProviderFailure? {
    switch (tokens.tokenType, key) {
    case ("DPoP", nil):
      .invalid(
        message: "the provider gave a DPoP token, though none was asked for: set dpop = true (RFC 9449 §5)", nil)
    case ("Bearer", .some):
      .invalid(
        message: "the provider gave a bearer token, though one bound to a key was asked for: it does not know DPoP, so "
          + "remove dpop from \(section) (RFC 9449 §5)", nil)
    default: nil
    }
  }

  func client(_ metadata: ServerMetadata) -> ClientAuthentication {
    settings.client.credential.authentication(issuer: metadata.issuer, tokenEndpoint: metadata.endpoints[.token])
  }

  var usesCertificate: Bool { settings.client.credential == .mutualTLS }
}
