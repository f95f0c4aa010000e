import Foundation
public import Grants
public import OAuth

// The road of a login: what the browser is sent to ask, what it brings back, and what that is traded for.
extension OAuthProvider {
  public func authorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationPlace> {
    do throws(ProviderFailure) {
      guard let redirectURI = request.redirectURI else { throw .invalid(message: "there is no redirect URI", nil) }
      let endpoint = try endpoint(.authorization, metadata)
      let message = message(request, redirectURI)
      @Sendable func place(_ url: URL) -> AuthorizationPlace {
        AuthorizationPlace(url: url, warnings: warnings(request, metadata))
      }
      do {
        let object = try requestObject(message, request, metadata)
        guard try pushes(metadata) else {
          if let object { return .done(place(try message.url(at: endpoint, requestObject: object))) }
          return .done(place(try message.url(at: endpoint)))
        }
        return try push(message, object, request, metadata) { answer in
          do throws(AuthorizationRequestError) {
            return .done(place(try message.url(at: endpoint, pushedAs: answer)))
          } catch {
            return .failed(.invalid(message: error.description, nil))
          }
        }
      } catch let error as AuthorizationRequestError {
        throw .invalid(message: error.description, nil)
      } catch let error as ProviderFailure {
        throw error
      } catch {
        throw .misconfigured(message: "the request cannot be signed: \(error)", nil)
      }
    } catch {
      return .failed(error)
    }
  }

  private func message(_ request: LoginRequest, _ redirectURI: RedirectURI) -> AuthorizationRequest {
    var parameters = settings.authorizationParameters
    if let maxAge = settings.maxAge { parameters["max_age"] = String(maxAge) }
    if !settings.acrValues.isEmpty { parameters["acr_values"] = settings.acrValues.joined(separator: " ") }
    if !settings.uiLocales.isEmpty { parameters["ui_locales"] = settings.uiLocales.joined(separator: " ") }
    if let claims = settings.claims { parameters["claims"] = claims }
    if let details = settings.authorizationDetails { parameters["authorization_details"] = details }
    if let mode = settings.responseMode { parameters["response_mode"] = mode }
    if let key = request.dpopKey { parameters["dpop_jkt"] = key.thumbprint }
    parameters.merge(request.parameters) { _, asked in asked }
    return AuthorizationRequest(
      clientID: settings.clientID, redirectURI: redirectURI, scopes: request.scopes,
      scopeSeparator: settings.scopeSeparator, state: request.state, nonce: request.nonce,
      challenge: request.verifier?.challenge, resources: request.resource.map { [$0] } ?? [],
      prompt: request.prompt ?? settings.prompt, loginHint: request.loginHint,
      extra: parameters.sorted { $0.key < $1.key }.map { Parameter($0.key, $0.value) })
  }

  /// RFC 9101: the whole request as a JWT that the client signs.
  private func requestObject(
    _ message: AuthorizationRequest, _ request: LoginRequest, _ metadata: ServerMetadata
  ) throws -> Secret? {
    guard let key = settings.requestObjectKey else { return nil }
    return try message.requestObject(
      key: key, audience: metadata.issuer, at: request.madeAt, identifier: request.identifier)
  }

  private func pushes(_ metadata: ServerMetadata) throws(ProviderFailure) -> Bool {
    switch settings.par {
    case .always: return true
    case .whenRequired: return metadata.requirePushedAuthorizationRequests
    case .never:
      guard metadata.requirePushedAuthorizationRequests else { return false }
      throw .misconfigured(
        message: "the provider demands pushed authorization requests (RFC 9126), which par = \"never\" forbids", nil)
    }
  }

  private func push(
    _ message: AuthorizationRequest, _ object: Secret?, _ request: LoginRequest, _ metadata: ServerMetadata,
    then: @escaping @Sendable (PushedAuthorizationResponse) -> Step<AuthorizationPlace>
  ) throws -> Step<AuthorizationPlace> {
    let url = try endpoint(.pushedAuthorizationRequest, metadata)
    let client = client(metadata)
    var pushed =
      if let object { message.pushed(to: url, client: client, requestObject: object) } else {
        try message.pushed(to: url, client: client)
      }
    pushed.tls = settings.tls
    return .send(pushed.proving(request.dpopKey)) { response, _ in
      do throws(ResponseError) {
        return then(try PushedAuthorizationResponse.parse(response))
      } catch {
        return .failed(refusedRequest(error))
      }
    }
  }

  /// What a refusal of a request before any grant means: configuration, or this request alone.
  func refusedRequest(_ error: ResponseError) -> ProviderFailure {
    switch classify(error) {
    case .ended(_, let message, let oauth): .invalid(message: message, oauth)
    case .tryLater(let message, let oauth?, nil) where !Self.passingCodes.contains(oauth.code):
      .invalid(message: message, oauth)
    case let failure: failure
    }
  }

  private func warnings(_ request: LoginRequest, _ metadata: ServerMetadata) -> [String] {
    var warnings: [String] = []
    let prompt = request.prompt ?? settings.prompt
    if settings.kind == .oidc, request.scopes.contains("offline_access"), prompt != "",
      !(prompt ?? "").split(separator: " ").contains("consent")
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

  // MARK: The callback

  /// Whether callbacks are signed (JARM §2.3).
  var usesJARM: Bool { settings.responseMode.map { $0 == "jwt" || $0.hasSuffix(".jwt") } ?? false }

  public func code(
    from callback: String, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<Secret, CallbackError>> {
    let expected = AuthorizationResponse.Expectation(
      state: login.state, issuer: metadata.issuer.isEmpty ? nil : metadata.issuer,
      issuerPromised: metadata.authorizationResponseIssParameterSupported && !usesJARM,
      issuerRule: settings.issuerRule)
    do throws(CallbackError) {
      let response = try AuthorizationResponse.parse(callback)
      guard usesJARM else { return .done(.success(try response.code(for: expected))) }
      // Nothing that is not signed counts.
      guard let compact = response.response else { throw .unsigned }
      return proving { keys, now in
        signedCode(
          compact, expected, checks(metadata, offered: metadata.authorizationSigningAlgValuesSupported, at: now), keys)
      } then: { result in
        switch result {
        case .success(let code): .done(code)
        case .failure(.invalid(let why, _)): .done(.failure(.invalidSignedResponse(why)))
        case .failure(let failure): .failed(failure)
        }
      }
    } catch {
      return .done(.failure(error))
    }
  }

  private func signedCode(
    _ compact: Secret, _ expected: AuthorizationResponse.Expectation, _ checks: JWTChecks, _ keys: JWKSet
  ) -> Proof<Result<Secret, CallbackError>> {
    let response: AuthorizationResponse
    do throws(JARMError) {
      response = try JARM.parse(compact, checks: checks, keys: keys)
    } catch {
      switch error {
      case .token(.unknownKey(let kid)): return .unknownKey(kid: kid, error.description)
      case .token: return .fails(error.description)
      case .callback(let error): return .holds(.failure(error))
      }
    }
    return .holds(Result { () throws(CallbackError) in try response.code(for: expected) })
  }

  // MARK: The exchange

  public func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<Issued> {
    let redirectURI: RedirectURI
    do throws(RedirectURIError) {
      redirectURI = try RedirectURI(login.redirectURI)
    } catch {
      return .failed(.invalid(message: error.description, nil))
    }
    let request = TokenRequest.code(
      code, redirectURI: redirectURI, verifier: login.verifier.flatMap(CodeVerifier.init(rawValue:)),
      resources: login.resource.map { [$0] } ?? [])
    return signIn(request, login: login, code: code, metadata: metadata)
  }

  public func exchange(
    username: String, password: Secret, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Issued> {
    let request = TokenRequest.password(username: username, password: password, scopes: login.scopes)
    return signIn(request, login: login, code: nil, metadata: metadata)
  }

  private func signIn(
    _ request: TokenRequest, login: SavedLogin, code: Secret?, metadata: ServerMetadata
  ) -> Step<Issued> {
    at(.token, metadata) { endpoint in
      ask(request, at: endpoint, metadata, bound: login.dpopKey) { tokens, now in
        checkLogin(tokens, login: login, code: code, metadata: metadata, at: now)
      }
    }
  }

  // MARK: Another device (RFC 8628)

  public func deviceAuthorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<DevicePlace> {
    at(.deviceAuthorization, metadata) { endpoint in
      let parameters = settings.deviceParameters.merging(request.parameters) { _, asked in asked }
      let message = DeviceAuthorizationRequest(
        scopes: request.scopes, resources: request.resource.map { [$0] } ?? [],
        extraParameters: parameters.asParameters
      ).httpRequest(
        to: endpoint, clientID: settings.clientID, client: client(metadata), format: settings.bodyFormat,
        scopeSeparator: settings.scopeSeparator)
      return .send(secured(message)) { response, _ in
        read(otherwise: refusedRequest) { () throws(ResponseError) in
          let answer = try DeviceAuthorizationResponse.parse(response)
          return DevicePlace(
            device: DeviceLogin(
              deviceCode: answer.deviceCode, userCode: answer.userCode, verificationURI: answer.verificationURI,
              verificationURIComplete: answer.verificationURIComplete, interval: answer.interval),
            expiresIn: answer.expiresIn, warnings: [])
        }
      }
    }
  }

  public func poll(_ device: DeviceLogin, login: SavedLogin, metadata: ServerMetadata) -> Step<DeviceAnswer> {
    at(.token, metadata) { endpoint in
      let request = http(.deviceCode(device.deviceCode), to: endpoint, metadata).proving(boundKey(login.dpopKey))
      return .send(request) { response, now in
        do throws(ResponseError) {
          let tokens = try TokenResponse.parse(response, quirks: settings.response)
          if let failure = wrongBinding(tokens, login.dpopKey) { return .failed(failure) }
          // The device code is spent: asking again would bring no other answer.
          return checkLogin(tokens, login: login, code: nil, metadata: metadata, at: now).map { .issued($0) }
            .mapFailure { $0.settled }
        } catch {
          return polled(DevicePoll.next(error, interval: device.interval))
        }
      }
    }
  }

  private func polled(_ poll: DevicePoll) -> Step<DeviceAnswer> {
    switch poll {
    case .pending(let wait): .done(.pending(wait: wait))
    case .slowDown(let interval): .done(.slowDown(interval: interval))
    case .backOff(let wait): .done(.backOff(wait: wait))
    case .denied(let oauth): .done(.denied(oauth))
    case .expired: .done(.expired)
    case .failed(let error): .failed(refusedRequest(error).settled)
    }
  }
}

extension ProviderFailure {
  /// The same where there is nothing to try again.
  fileprivate var settled: ProviderFailure { isOfProvider ? .invalid(message: message, oauth) : self }
}
