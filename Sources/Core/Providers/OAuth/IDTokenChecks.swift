import FoundationEssentials
import Grants
import OAuth

extension OAuthProvider {
  /// A login without a valid ID token fails (OpenID Connect Core §3.1.3.7).
  func checkLogin(
    _ tokens: TokenResponse, login: SavedLogin, code: Secret?, metadata: ServerMetadata, at now: Timestamp
  ) -> Step<Issued> {
    guard tokenTraits.usesIDTokens, login.scopes.contains("openid") else { return .done(issued(tokens)) }
    guard let compact = tokens.idToken else {
      // Many servers issue no ID token in the device flow; then the identity is unknown.
      if code == nil {
        return .done(Issued(tokens: tokens, idToken: nil, identity: nil, warning: nil))
      }
      return .failed(.invalid(message: "the provider gave no ID token though openid was asked for", nil))
    }
    return parsed(compact) { token in
      var checks = checks(metadata, now: now, accessToken: tokens.accessToken)
      // A device authorization request contains no nonce (RFC 8628 §3.1).
      checks.nonce = code == nil ? nil : login.nonce
      checks.code = code
      checks.maxAge = login.maxAge.map { .seconds($0) }
      return verify(token, checks) { result in
        switch result {
        case .success: .done(Issued(tokens: tokens, idToken: compact, identity: Identity(token), warning: nil))
        case .failure(let failure): .failed(failure)
        }
      }
    } otherwise: { error in
      .failed(.invalid(message: error.description, nil))
    }
  }

  /// A refreshed ID token is optional (OpenID Connect Core §12.2). One with another subject ends the grant. One that
  /// cannot be verified now is ignored: rejecting the response would lose a rotated refresh token.
  func checkRefresh(
    _ tokens: TokenResponse, grant: SavedGrant, metadata: ServerMetadata, at now: Timestamp
  ) -> Step<Issued> {
    let bare = issued(tokens)
    if let before = grant.identity, let now = bare.identity, now.subject != before.subject {
      return .failed(
        .ended(
          .identityChanged, message: "the provider's refreshed token belongs to another user than the sign-in",
          nil))
    }
    guard tokenTraits.usesIDTokens, let compact = tokens.idToken else { return .done(bare) }
    // The previous one again, which was verified when it arrived; its `at_hash` is of another access token.
    if compact == grant.idToken {
      return .done(Issued(tokens: tokens, idToken: compact, identity: bare.identity, warning: nil))
    }
    @Sendable func passedOver(_ why: String) -> Step<Issued> {
      var issued = bare
      issued.warning = "the refreshed ID token was not taken: \(why)"
      return .done(issued)
    }
    return parsed(compact) { token in
      if let identity = grant.identity, identity.subject != token.subject {
        return .failed(
          .ended(
            .identityChanged,
            message: "the provider's refreshed ID token belongs to another user than the sign-in",
            nil))
      }
      var checks = checks(metadata, now: now, accessToken: tokens.accessToken)
      checks.previous = grant.idToken.flatMap { try? IDToken.parse($0) }
      return verify(token, checks) { result in
        switch result {
        case .success: .done(Issued(tokens: tokens, idToken: compact, identity: Identity(token), warning: nil))
        case .failure(let failure): passedOver(failure.message)
        }
      }
    } otherwise: { error in
      passedOver(error.description)
    }
  }

  /// The ID token of a token exchange: from this provider, for this audience, and valid now.
  func checkExchanged(
    _ tokens: TokenResponse, audience: String, metadata: ServerMetadata, at now: Timestamp
  ) -> Step<TokenResponse> {
    let type = TokenExchangeRequest.TokenType.idToken.rawValue
    guard tokens.issuedTokenType == type else {
      return .failed(
        .misconfigured(message: "the provider exchanged the token for another type than an ID token (RFC 8693)", nil))
    }
    var checks = checks(metadata, now: now, accessToken: nil)
    checks.clientID = audience
    checks.exchangedFor = settings.client.id
    let wanted = checks
    let step = parsed(tokens.accessToken) { token in
      verify(token, wanted) { result in
        result.map { Issued(tokens: tokens, idToken: tokens.accessToken, identity: nil, warning: nil) }.step
      }
    } otherwise: { error in
      .failed(.invalid(message: error.description, nil))
    }
    return step.map(\.tokens)
  }

  private func checks(_ metadata: ServerMetadata, now: Timestamp, accessToken: Secret?) -> IDToken.Checks {
    let algorithms = IDToken.algorithms(
      configured: settings.token.idToken.algorithms, metadata: metadata.supported.idTokenAlgorithms ?? [])
    var checks = IDToken.Checks(
      issuer: metadata.issuer, clientID: settings.client.id, nonce: nil, algorithms: algorithms, now: now)
    checks.issuerRule = settings.server.issuerRule
    checks.trustedAudiences = settings.token.idToken.trustedAudiences
    checks.tolerance = settings.token.idToken.tolerance
    checks.accessToken = accessToken
    checks.clientSecret = clientSecret
    return checks
  }

  private func parsed(
    _ compact: Secret, then: (IDToken) -> Step<Issued>, otherwise: (IDTokenError) -> Step<Issued>
  ) -> Step<Issued> {
    do throws(IDTokenError) {
      return then(try IDToken.parse(compact))
    } catch {
      return otherwise(error)
    }
  }

  private func verify(
    _ token: IDToken, _ checks: IDToken.Checks,
    then: @escaping @Sendable (Result<Void, ProviderFailure>) -> Step<Issued>
  ) -> Step<Issued> {
    proving(
      { keys, now in
        var checks = checks
        checks.now = now
        do throws(IDTokenError) {
          try token.verify(checks, keys: keys)
          return .holds(())
        } catch {
          switch error {
          case .token(.unknownKey(let kid)): return .unknownKey(kid: kid, error.description)
          // The provider may have replaced the key and kept its `kid`.
          case .token(.badSignature): return .unknownKey(kid: nil, error.description)
          default: return .fails(error.description)
          }
        }
      }, then: then)
  }
}

extension Result where Success == Issued, Failure == ProviderFailure {
  fileprivate var step: Step<Issued> { .ended(self) }
}

extension Identity {
  init(_ token: IDToken) {
    self.init(
      subject: token.subject, issuer: token.issuer, email: token.email, name: token.name,
      username: token.preferredUsername)
  }
}
