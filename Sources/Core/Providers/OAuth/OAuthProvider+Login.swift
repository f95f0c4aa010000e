import FoundationEssentials
public import Grants
public import OAuth

// Login grants: authorization code, password, device code.
extension OAuthProvider {
  /// The failure for a refused request without a grant: wrong configuration, or an error of only this request.
  func refusedRequest(_ error: ResponseError) -> ProviderFailure {
    switch classify(error) {
    case .ended(_, let message, let oauth): .invalid(message: message, oauth)
    case .requestRefused(let message, let oauth?, nil): .invalid(message: message, oauth)
    case .requestRefused(let message, let oauth, let retryAfter):
      .tryLater(message: message, oauth, retryAfter: retryAfter)
    case let failure: failure
    }
  }

  // MARK: The exchange

  public func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<LoginAnswer> {
    let redirectURI: RedirectURI
    do throws(RedirectURIError) {
      // Exposed to be sent; the value is not a secret.
      redirectURI = try RedirectURI(login.memory[Self.connectRedirectURI]?.exposed ?? login.redirectURI)
    } catch {
      return .failed(.invalid(message: error.description, nil))
    }
    let request = TokenRequest.code(
      code, redirectURI: redirectURI, verifier: login.verifier.flatMap(CodeVerifier.init(rawValue:)),
      resources: login.resource.map { [$0] } ?? [])
    return signIn(request, login: login, code: code, metadata: metadata).map { .issued(keepingCallback($0, of: login)) }
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
      let parameters = settings.authorization.deviceParameters.merging(request.parameters) { _, asked in asked }
      let message = DeviceAuthorizationRequest(
        scopes: request.scopes, resources: request.resource.map { [$0] } ?? [],
        extraParameters: parameters.asParameters
      ).httpRequest(
        to: endpoint, clientID: settings.client.id, client: client(metadata), format: settings.token.bodyFormat,
        scopeSeparator: settings.access.scopeSeparator)
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
      let resources = login.resource.map { [$0] } ?? []
      let request = http(.deviceCode(device.deviceCode, resources: resources), to: endpoint, metadata)
        .proving(boundKey(login.dpopKey))
      return .send(request) { response, now in
        do throws(ResponseError) {
          let tokens = try TokenResponse.parse(response, quirks: settings.token.response)
          if let failure = wrongBinding(tokens, login.dpopKey) { return .failed(failure) }
          // The device code is used up, so a retry would not return another answer.
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
    case .backOff(let wait, let error): .done(.backOff(wait: wait, message: error.description))
    case .denied(let oauth): .done(.denied(oauth))
    case .expired: .done(.expired)
    case .failed(let error): .failed(refusedRequest(error).settled)
    }
  }
}

extension ProviderFailure {
  /// The failure if a retry is impossible.
  fileprivate var settled: ProviderFailure { isOfProvider ? .invalid(message: message, oauth) : self }
}
