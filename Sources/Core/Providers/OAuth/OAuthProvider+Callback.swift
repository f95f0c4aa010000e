import FoundationEssentials
public import Grants
public import OAuth

// The authorization response from the browser.
extension OAuthProvider {
  /// Whether callbacks are signed (JARM §2.3).
  var usesJARM: Bool { settings.authorization.responseMode.map { $0 == "jwt" || $0.hasSuffix(".jwt") } ?? false }

  public func claim(_ callback: ReturnedAddress, login: SavedLogin) -> CallbackClaim {
    for bridge in settings.signIn.bridges {
      switch bridge.forwarded(callback) {
      case .success(let url): return .passOn(url)
      case .failure(let error): return .refused(error)
      case nil: continue
      }
    }
    if let claim = connectClaim(callback, login) { return claim }
    let isHere = (try? RedirectURI(login.redirectURI)).map(callback.isAt) ?? false
    switch (isHere, callback.claimedState) {
    case (true, login.state): return .named
    case (false, login.state): return .refused(.wrongAddress)
    case (false, _): return .foreign
    case (true, let state):
      if case .failure(let error) = callback.response { return .refused(error) }
      return .refused(state == nil ? .missingState : .wrongState)
    }
  }

  public func answer(
    to callback: ReturnedAddress, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<LoginAnswer, CallbackError>> {
    if let answer = connectAnswer(callback, login) { return .done(answer) }
    if settings.signIn.isImplicit {
      return .done(
        Result { () throws(CallbackError) in
          let tokens = try AuthorizationResponse.implicitTokens(
            callback.text, for: expectation(login, metadata), quirks: settings.token.response)
          if let failure = wrongBinding(tokens, login.dpopKey) { throw .noToken(failure.message) }
          return .issued(issued(tokens))
        })
    }
    return response(from: callback, login: login, metadata: metadata).map { found in
      found.map { .code($0.code, memory: callbackMemory($0.others)) }
    }
  }

  /// The authorization code, after all checks (RFC 6749 §4.1.2, RFC 9207, JARM).
  func code(
    from callback: ReturnedAddress, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<Secret, CallbackError>> {
    response(from: callback, login: login, metadata: metadata).map { $0.map(\.code) }
  }

  /// An authorization code and the other parameters of the response.
  private struct Found: Sendable {
    var code: Secret
    var others: [Parameter]
  }

  private func expectation(_ login: SavedLogin, _ metadata: ServerMetadata) -> AuthorizationResponse.Expectation {
    AuthorizationResponse.Expectation(
      state: login.state, issuer: metadata.issuer.isEmpty ? nil : metadata.issuer,
      issuerPromised: metadata.sendsIssuer && !usesJARM,
      issuerRule: settings.server.issuerRule)
  }

  private func code(
    of response: AuthorizationResponse, _ expected: AuthorizationResponse.Expectation
  ) throws(CallbackError) -> Secret {
    try response.code(for: expected, codeFirst: settings.signIn.takesCodeFirst)
  }

  private func response(
    from callback: ReturnedAddress, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<Found, CallbackError>> {
    let expected = expectation(login, metadata)
    do throws(CallbackError) {
      let response = try callback.response.get()
      guard usesJARM else {
        return .done(.success(Found(code: try code(of: response, expected), others: callback.query)))
      }
      // Only the signed response is trusted.
      guard let compact = response.response else { throw .unsigned }
      return proving { keys, now in
        signed(
          compact, expected, checks(metadata, offered: metadata.supported.responseAlgorithms, at: now), keys)
      } then: { result in
        switch result {
        case .success(let found): .done(found)
        case .failure(.invalid(let why, _)): .done(.failure(.invalidSignedResponse(why)))
        case .failure(let failure): .failed(failure)
        }
      }
    } catch {
      return .done(.failure(error))
    }
  }

  private func signed(
    _ compact: Secret, _ expected: AuthorizationResponse.Expectation, _ checks: JWTChecks, _ keys: JWKSet
  ) -> Proof<Result<Found, CallbackError>> {
    let response: AuthorizationResponse
    do throws(JARMError) {
      response = try JARM.parse(compact, checks: checks, keys: keys)
    } catch {
      switch error {
      case .token(.unknownKey(let kid)): return .unknownKey(kid: kid, error.description)
      case .token(.badSignature): return .unknownKey(kid: nil, error.description)
      case .token: return .fails(error.description)
      case .callback(let error): return .holds(.failure(error))
      }
    }
    // Exposed to be stored in equally protected memory.
    let others = response.others.map { Parameter($0.key, $0.value.exposed) }
    return .holds(Result { () throws(CallbackError) in Found(code: try code(of: response, expected), others: others) })
  }

  // MARK: Other parameters of the callback

  private static let memoryPrefix = "callback."
  private static let longestKept = 1024

  /// The values of the named parameters that occur exactly once and do not exceed the limit.
  func kept(_ parameters: [Parameter], _ names: [String]) -> [String: String] {
    var kept: [String: String] = [:]
    for name in names {
      let values = parameters.filter { $0.name == name }.map(\.value)
      if values.count == 1, !values[0].isEmpty, values[0].utf8.count <= Self.longestKept { kept[name] = values[0] }
    }
    return kept
  }

  /// The configured callback parameters, to remember until the exchange.
  func callbackMemory(_ parameters: [Parameter]) -> [String: Secret] {
    let kept = kept(parameters, settings.signIn.keepCallbackMembers)
    return Dictionary(uniqueKeysWithValues: kept.map { (Self.memoryPrefix + $0.key, Secret($0.value)) })
  }

  /// Adds the remembered callback parameters to the data stored with the grant.
  func keepingCallback(_ issued: Issued, of login: SavedLogin) -> Issued {
    var kept: [String: String] = [:]
    for name in settings.signIn.keepCallbackMembers {
      // Exposed to be stored with the grant, which is equally protected.
      kept[name] = login.memory[Self.memoryPrefix + name]?.exposed
    }
    guard !kept.isEmpty else { return issued }
    var issued = issued
    issued.tokens = issued.tokens.keeping(kept)
    return issued
  }

  /// Tokens without an ID token, and the identity if the response contains it.
  func issued(_ tokens: TokenResponse) -> Issued {
    Issued(tokens: tokens, idToken: nil, identity: identity(tokens), warning: nil)
  }

  func identity(_ tokens: TokenResponse) -> Identity? {
    settings.signIn.identityMember.flatMap(tokens.kept).map { Identity(subject: $0) }
  }
}
