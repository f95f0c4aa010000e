public import FoundationEssentials
public import Grants
public import OAuth

// Requests for other data than tokens: user information, introspection and logout.
extension OAuthProvider {
  public func introspection(
    of token: Secret, hint: String, metadata: ServerMetadata
  ) -> Step<IntrospectionResponse> {
    at(.introspection, metadata) { endpoint in
      let request = IntrospectionRequest(token: token, hint: RevocationRequest.Hint(rawValue: hint))
        .httpRequest(
          to: endpoint, clientID: settings.client.id, client: client(metadata), format: settings.token.bodyFormat)
      return .send(secured(request)) { response, _ in
        read(otherwise: refusedQuestion) { () throws(ResponseError) in try IntrospectionResponse.parse(response) }
      }
    }
  }

  public func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo> {
    let subject = tokenTraits.usesIDTokens ? grant.identity?.subject : nil
    return at(.userinfo, metadata) { endpoint in
      let key = token.type == "DPoP" ? boundKey(grant.dpopKey) : nil
      let request = UserInfo.httpRequest(to: endpoint, accessToken: token.accessToken, proof: key)
      return .send(secured(request)) { response, _ in
        if case .tokenRefused(let message, let oauth) = verdict(on: response) {
          return .failed(.tokenRefused(message: message, oauth))
        }
        if let compact = UserInfo.compact(response) { return signedUserInfo(compact, subject: subject, metadata) }
        return read(otherwise: refusedQuestion) { () throws(ResponseError) in
          try UserInfo.parse(response, subject: subject)
        }
      }
    }
  }

  private func signedUserInfo(_ compact: Secret, subject: String?, _ metadata: ServerMetadata) -> Step<UserInfo> {
    proving { keys, now in
      let checks = checks(metadata, offered: metadata.supported.idTokenAlgorithms, at: now)
      do throws(UserInfoError) {
        return .holds(try UserInfo.parse(signed: compact, checks: checks, keys: keys, subject: subject))
      } catch {
        if case .token(.unknownKey(let kid)) = error { return .unknownKey(kid: kid, error.description) }
        if case .token(.badSignature) = error { return .unknownKey(kid: nil, error.description) }
        return .fails(error.description)
      }
    } then: {
      .ended($0)
    }
  }

  public func authorized(_ request: HTTPRequest, by token: SavedToken, of grant: SavedGrant) -> HTTPRequest {
    var request = secured(request)
    // Exposed to be sent.
    request.headers.append(.init("Authorization", "\(token.type) \(token.accessToken.exposed)"))
    return token.type == "DPoP" ? request.proving(boundKey(grant.dpopKey), accessToken: token.accessToken) : request
  }

  public func verdict(on response: HTTPResponse) -> ResourceVerdict {
    guard response.status == 401 else { return .passed }
    let code = settings.api.code(in: response)
    let message = "HTTP 401" + (code.map { ": \($0)" } ?? "")
    switch code.flatMap({ settings.api.errors[$0] }) {
    case .refresh, nil: return .tokenRefused(message: message, nil)
    case .login: return .loginRequired(message: message)
    case .blocked: return .blocked(message: message)
    }
  }

  /// The failure for a refused request that no grant depends on. A deliberate refusal is not an outage, regardless of
  /// its format.
  func refusedQuestion(_ error: ResponseError) -> ProviderFailure {
    guard case .nonConforming(let status, let mediaType, _, _) = error else { return refusedRequest(error) }
    let isMeant = Self.isRefusal(status: status, mediaType: mediaType)
    let isJSON = (200..<300).contains(status) && (mediaType == "application/json" || mediaType.hasSuffix("+json"))
    return isMeant || isJSON ? .invalid(message: error.description, nil) : refusedRequest(error)
  }

  // MARK: Logout

  public func endSession(
    of grant: SavedGrant, returnTo: RedirectURI?, state: Secret, metadata: ServerMetadata
  ) -> URL? {
    guard let endpoint = try? endpoint(.endSession, metadata) else { return nil }
    let request = EndSessionRequest(
      idTokenHint: grant.idToken, clientID: settings.client.id, postLogoutRedirectURI: returnTo?.rawValue,
      state: returnTo == nil ? nil : state)
    return request.url(at: endpoint)
  }

  public func logout(_ token: LogoutToken, metadata: ServerMetadata) -> Step<LogoutToken> {
    proving { keys, now in
      do throws(LogoutTokenError) {
        var checks = checks(metadata, offered: metadata.supported.idTokenAlgorithms, at: now)
        // A shared secret does not prove the sender: several clients may hold it.
        checks.clientSecret = nil
        try token.verify(checks, keys: keys)
        return .holds(token)
      } catch {
        if case .token(.unknownKey(let kid)) = error { return .unknownKey(kid: kid, error.description) }
        if case .token(.badSignature) = error { return .unknownKey(kid: nil, error.description) }
        return .fails(error.description)
      }
    } then: {
      .ended($0)
    }
  }

  // MARK: Revocation

  public func revocation(
    of token: Secret, hint: String, context: [String: String], metadata: ServerMetadata
  ) -> HTTPRequest? {
    guard let endpoint = try? endpoint(.revocation, metadata) else { return nil }
    switch settings.logout.revocation {
    case .rfc7009:
      return secured(
        RevocationRequest(token: token, hint: RevocationRequest.Hint(rawValue: hint))
          .httpRequest(
            to: endpoint, clientID: settings.client.id, client: client(metadata), format: settings.token.bodyFormat,
            extra: settings.logout.revocationParameters.asParameters))
    case .bearer:
      // Ends the whole grant and accepts only access tokens (Dropbox).
      guard hint == RevocationRequest.Hint.accessToken.rawValue else { return nil }
      return secured(
        HTTPRequest(
          purpose: .revocation, method: "POST", url: endpoint,
          // Exposed to be sent.
          headers: [.init("Authorization", "Bearer \(token.exposed)"), .init("Accept", "application/json")]))
    }
  }

  public func tokenToRevoke(
    for token: Secret, hint: String, metadata: ServerMetadata
  ) -> Step<TokenResponse>? {
    guard settings.logout.revocation == .bearer, hint == RevocationRequest.Hint.refreshToken.rawValue else {
      return nil
    }
    do throws(ProviderFailure) {
      let request = http(.refresh(token), to: try refreshEndpoint(metadata), metadata, isRefresh: true)
      return .send(request) { response, _ in
        read(otherwise: classify) { () throws(ResponseError) in
          try TokenResponse.parse(response, quirks: settings.refreshResponse)
        }
      }
    } catch {
      return .failed(error)
    }
  }

  public func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome {
    RevocationRequest(token: Secret(""), hint: nil).outcome(of: response)
  }
}
