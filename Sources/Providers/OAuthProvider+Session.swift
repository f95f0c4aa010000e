public import Foundation
public import Grants
public import OAuth

// What is asked beside tokens: who the person is, whether a token lives, and how it all ends.
extension OAuthProvider {
  public func introspection(
    of token: Secret, hint: String, metadata: ServerMetadata
  ) -> Step<IntrospectionResponse> {
    do throws(ProviderFailure) {
      let endpoint = try endpoint(.introspection, metadata)
      let request = IntrospectionRequest(token: token, hint: RevocationRequest.Hint(rawValue: hint))
        .httpRequest(
          to: endpoint, clientID: settings.clientID, client: client(metadata), format: settings.bodyFormat)
      return .send(secured(request)) { response, _ in
        do throws(ResponseError) {
          return .done(try IntrospectionResponse.parse(response))
        } catch {
          return .failed(refusedQuestion(error))
        }
      }
    } catch {
      return .failed(error)
    }
  }

  public func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo> {
    let subject = about.usesIDTokens ? grant.identity?.subject : nil
    do throws(ProviderFailure) {
      let endpoint = try endpoint(.userinfo, metadata)
      let key = token.type == "DPoP" ? boundKey(grant.dpopKey) : nil
      let request = UserInfo.httpRequest(to: endpoint, accessToken: token.accessToken, proof: key)
      return .send(secured(request)) { response, _ in
        if let compact = UserInfo.compact(response) {
          return .keys(unknown: nil) { keys, now in
            signedUserInfo(compact, subject: subject, metadata, keys: keys, at: now, secondTry: false)
          }
        }
        do throws(ResponseError) {
          return .done(try UserInfo.parse(response, subject: subject))
        } catch {
          return .failed(refusedQuestion(error))
        }
      }
    } catch {
      return .failed(error)
    }
  }

  private func signedUserInfo(
    _ compact: Secret, subject: String?, _ metadata: ServerMetadata, keys: Result<JWKSet, ProviderFailure>,
    at now: Timestamp, secondTry: Bool
  ) -> Step<UserInfo> {
    let set: JWKSet
    switch keys {
    case .success(let known): set = known
    case .failure(let failure): return .failed(failure)
    }
    let checks = JWTChecks(
      issuer: metadata.issuer, issuerRule: settings.issuerRule, clientID: settings.clientID,
      algorithms: IDToken.algorithms(
        configured: settings.idToken.algorithms, metadata: metadata.idTokenSigningAlgValuesSupported ?? []),
      now: now, tolerance: settings.idToken.tolerance, clientSecret: clientSecret)
    do throws(UserInfoError) {
      return .done(try UserInfo.parse(signed: compact, checks: checks, keys: set, subject: subject))
    } catch {
      if case .token(.unknownKey(let kid)) = error, !secondTry {
        return .keys(unknown: kid ?? "") { keys, now in
          signedUserInfo(compact, subject: subject, metadata, keys: keys, at: now, secondTry: true)
        }
      }
      return .failed(.invalid(message: error.description, nil))
    }
  }

  /// What a failed answer means that no grant depends on: one that the server meant is no outage, whatever its form.
  func refusedQuestion(_ error: ResponseError) -> ProviderFailure {
    guard case .nonConforming(let status, let mediaType, _, _) = error, status != 408, status != 429 else {
      return refusedRequest(error)
    }
    // A page for people is a proxy's or an outage's, whatever its status.
    let isMeant = (400..<500).contains(status) && mediaType != "text/html"
    let isJSON = (200..<300).contains(status) && (mediaType == "application/json" || mediaType.hasSuffix("+json"))
    return isMeant || isJSON ? .invalid(message: error.description, nil) : refusedRequest(error)
  }

  // MARK: The end

  public func endSession(
    of grant: SavedGrant, returnTo: RedirectURI?, state: Secret, metadata: ServerMetadata
  ) -> URL? {
    guard let endpoint = try? endpoint(.endSession, metadata) else { return nil }
    let request = EndSessionRequest(
      idTokenHint: grant.idToken, clientID: settings.clientID, postLogoutRedirectURI: returnTo?.rawValue,
      state: returnTo == nil ? nil : state)
    return request.url(at: endpoint)
  }

  public func logout(_ token: LogoutToken, metadata: ServerMetadata) -> Step<LogoutToken> {
    .keys(unknown: nil) { keys, now in verified(token, metadata, keys: keys, at: now, secondTry: false) }
  }

  private func verified(
    _ token: LogoutToken, _ metadata: ServerMetadata, keys: Result<JWKSet, ProviderFailure>, at now: Timestamp,
    secondTry: Bool
  ) -> Step<LogoutToken> {
    let set: JWKSet
    switch keys {
    case .success(let known): set = known
    case .failure(let failure): return .failed(failure)
    }
    let checks = JWTChecks(
      issuer: metadata.issuer, issuerRule: settings.issuerRule, clientID: settings.clientID,
      algorithms: IDToken.algorithms(
        configured: settings.idToken.algorithms, metadata: metadata.idTokenSigningAlgValuesSupported ?? []),
      now: now, tolerance: settings.idToken.tolerance)
    do throws(LogoutTokenError) {
      try token.verify(checks, keys: set)
      return .done(token)
    } catch {
      if case .token(.unknownKey(let kid)) = error, !secondTry {
        return .keys(unknown: kid ?? "") { keys, now in
          verified(token, metadata, keys: keys, at: now, secondTry: true)
        }
      }
      return .failed(.invalid(message: error.description, nil))
    }
  }

  // MARK: Revocation

  public func revocation(of token: Secret, hint: String, metadata: ServerMetadata) -> HTTPRequest? {
    guard let endpoint = try? endpoint(.revocation, metadata) else { return nil }
    switch settings.revocation {
    case .rfc7009:
      return secured(
        RevocationRequest(token: token, hint: RevocationRequest.Hint(rawValue: hint))
          .httpRequest(
            to: endpoint, clientID: settings.clientID, client: client(metadata), format: settings.bodyFormat,
            extra: settings.revocationParameters.asParameters))
    case .bearer:
      // Ends the whole grant, and takes access tokens alone (Dropbox).
      guard hint == RevocationRequest.Hint.accessToken.rawValue else { return nil }
      return secured(
        HTTPRequest(
          purpose: .revocation, method: "POST", url: endpoint,
          // Exposed to be sent.
          headers: [.init("Authorization", "Bearer \(token.exposed)"), .init("Accept", "application/json")]))
    }
  }

  public func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome {
    RevocationRequest(token: Secret(""), hint: nil).outcome(of: response)
  }
}
