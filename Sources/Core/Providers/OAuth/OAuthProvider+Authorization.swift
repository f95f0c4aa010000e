import FoundationEssentials
public import Grants
public import OAuth

// The authorization request, for a browser or an application on this machine (RFC 6749 §4.1.1, §4.2.1).
extension OAuthProvider {
  /// An authorization request for an endpoint.
  struct Opening: Sendable {
    var request: LoginRequest
    var metadata: ServerMetadata
    var endpoint: URL
    var message: AuthorizationRequest
    var warnings: [String]
  }

  public func authorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationPlace> {
    stepping {
      let opening = try opening(request, metadata)
      guard let hint = try Prefill.hint(request.prefill) else { return open(opening) }
      return prefilled(opening, hint: hint)
    }
  }

  func opening(_ request: LoginRequest, _ metadata: ServerMetadata) throws -> Opening {
    guard let redirectURI = request.redirectURI else {
      throw ProviderFailure.invalid(message: "there is no redirect URI", nil)
    }
    let message = message(request, redirectURI, prompt: try prompt(request, metadata))
    return Opening(
      request: request, metadata: metadata, endpoint: try endpoint(.authorization, metadata), message: message,
      warnings: warnings(request, message, metadata))
  }

  func stepping<Output>(_ begin: () throws -> Step<Output>) -> Step<Output> {
    do {
      return try begin()
    } catch let error as AuthorizationRequestError {
      return .failed(.invalid(message: error.description, nil))
    } catch let error as ProviderFailure {
      return .failed(error)
    } catch {
      return .failed(.misconfigured(message: "the request cannot be signed: \(error)", nil))
    }
  }

  private func open(_ opening: Opening) -> Step<AuthorizationPlace> {
    stepping {
      guard try pushes(opening.metadata) else { return .done(try place(opening, pushed: nil)) }
      return .send(try pushed(opening)) { response, _ in
        do throws(ResponseError) {
          let answer = try PushedAuthorizationResponse.parse(response)
          return stepping { .done(try place(opening, pushed: answer)) }
        } catch {
          return .failed(refusedRequest(error))
        }
      }
    }
  }

  // MARK: The message

  private func message(
    _ request: LoginRequest, _ redirectURI: RedirectURI, prompt: String?
  ) -> AuthorizationRequest {
    var parameters = settings.sentParameters(with: [:])
    if let maxAge = settings.authorization.maxAge { parameters["max_age"] = String(maxAge) }
    if !settings.authorization.acrValues.isEmpty {
      parameters["acr_values"] = settings.authorization.acrValues.joined(separator: " ")
    }
    if !settings.authorization.uiLocales.isEmpty {
      parameters["ui_locales"] = settings.authorization.uiLocales.joined(separator: " ")
    }
    if let claims = settings.authorization.claims { parameters["claims"] = claims }
    if let details = settings.authorization.details { parameters["authorization_details"] = details }
    if let mode = settings.authorization.responseMode { parameters["response_mode"] = mode }
    if let key = request.dpopKey { parameters["dpop_jkt"] = key.thumbprint }
    parameters.merge(request.parameters) { _, asked in asked }
    var message = AuthorizationRequest(
      clientID: settings.client.id, redirectURI: redirectURI, scopes: request.scopes,
      scopeSeparator: settings.access.scopeSeparator, state: request.state, nonce: request.nonce,
      challenge: request.verifier?.challenge, resources: request.resource.map { [$0] } ?? [], prompt: prompt,
      loginHint: request.loginHint, extra: parameters.asParameters)
    // The implicit grant has no code, so a code verifier is useless (RFC 6749 §4.2.1).
    if settings.signIn.isImplicit { (message.responseType, message.challenge) = ("token", nil) }
    return message
  }

  /// The requested `prompt` values without duplicates. Values that the provider does not support are never sent.
  private func prompt(_ request: LoginRequest, _ metadata: ServerMetadata) throws(ProviderFailure) -> String? {
    guard let text = request.prompt ?? settings.authorization.prompt ?? consent(request, metadata) else { return nil }
    var words: [String] = []
    for word in text.split(separator: " ").map(String.init) where !words.contains(word) { words.append(word) }
    let known = settings.signIn.prompts
    if !known.isEmpty, let other = words.first(where: { !known.contains($0) }) {
      throw .invalid(
        message: "prompt “\(other.printable(limit: 64))” is none that the provider knows: "
          + known.joined(separator: ", "), nil)
    }
    return words.isEmpty ? nil : words.joined(separator: " ")
  }

  /// `consent` for `offline_access` (OpenID Connect Core §11) if the metadata list it, or if they list no prompts and the
  /// provider has the generic profile.
  private func consent(_ request: LoginRequest, _ metadata: ServerMetadata) -> String? {
    guard settings.server.kind == .oidc, request.scopes.contains("offline_access") else { return nil }
    let prompts = metadata.supported.prompts
    let isSent = prompts?.contains("consent") ?? (settings.profile == "oidc")
    return isSent ? "consent" : nil
  }

  private func warnings(
    _ request: LoginRequest, _ message: AuthorizationRequest, _ metadata: ServerMetadata
  ) -> [String] {
    var warnings: [String] = []
    let prompt = request.prompt ?? settings.authorization.prompt ?? message.prompt
    if settings.server.kind == .oidc, request.scopes.contains("offline_access"), prompt != "",
      !(prompt ?? "").split(separator: " ").contains("consent")
    {
      warnings.append(
        "offline_access is asked without prompt=consent: some providers then give no refresh token "
          + "(OpenID Connect Core §11)")
    }
    if message.challenge != nil, let methods = metadata.supported.codeChallengeMethods, !methods.contains("S256") {
      warnings.append("the provider's metadata do not name PKCE with S256; it is used all the same")
    }
    if apps(request).contains(where: { $0.style == .oauth2 }), native(message).prompt != message.prompt {
      warnings.append(
        "prompt_stripped: the provider's applications do not take prompt=\(message.prompt ?? ""); the browser does")
    }
    return warnings
  }

  // MARK: The back channel

  func pushes(_ metadata: ServerMetadata) throws(ProviderFailure) -> Bool {
    switch settings.authorization.par {
    case .always: return true
    case .whenRequired: return metadata.requiresPushedRequests
    case .never:
      guard metadata.requiresPushedRequests else { return false }
      throw .misconfigured(
        message: "the provider demands pushed authorization requests (RFC 9126), which par = \"never\" forbids", nil)
    }
  }

  func pushed(_ opening: Opening) throws -> HTTPRequest {
    let message = opening.message
    let url = try endpoint(.pushedAuthorizationRequest, opening.metadata)
    let client = client(opening.metadata)
    let pushed: HTTPRequest
    if settings.signIn.staysInFront {
      pushed = message.pushedHint(to: url, client: client)
    } else if let object = try requestObject(message, opening) {
      pushed = message.pushed(to: url, client: client, requestObject: object)
    } else {
      pushed = try message.pushed(to: url, client: client)
    }
    return secured(pushed).proving(opening.request.dpopKey)
  }

  /// The whole request as a JWT signed by the client (RFC 9101).
  private func requestObject(_ message: AuthorizationRequest, _ opening: Opening) throws -> Secret? {
    guard let key = settings.authorization.requestObjectKey else {
      guard opening.metadata.requiresSignedRequests else { return nil }
      throw ProviderFailure.misconfigured(
        message: "the provider requires signed authorization requests (RFC 9101 §10.5), which are not configured", nil)
    }
    return try message.requestObject(
      key: key, audience: opening.metadata.issuer, at: opening.request.madeAt, identifier: opening.request.identifier)
  }

  /// User data for prefilling goes through the back channel: a URL could be read along the way.
  private func prefilled(_ opening: Opening, hint: String) -> Step<AuthorizationPlace> {
    var hinted = opening
    hinted.message.loginHint = hint
    let sent: HTTPRequest
    do {
      sent = try pushed(hinted)
    } catch let failure as ProviderFailure {
      return dropped(opening, failure)
    } catch {
      return stepping { throw error }
    }
    return .attempt(sent) { result, _ in
      do throws(ProviderFailure) {
        let response = try result.get()
        let answer = try read(otherwise: refusedRequest) { () throws(ResponseError) in
          try PushedAuthorizationResponse.parse(response)
        }.end?.get()
        return stepping { .done(try place(opening, pushed: answer)) }
      } catch {
        return dropped(opening, error)
      }
    }
  }

  private func dropped(_ opening: Opening, _ failure: ProviderFailure) -> Step<AuthorizationPlace> {
    guard settings.signIn.prefill != .strict else { return .failed(failure) }
    var opening = opening
    opening.warnings.append("prefill_dropped: the provider did not take it (\(failure.message))")
    return open(opening)
  }

  // MARK: The URL

  func place(_ opening: Opening, pushed answer: PushedAuthorizationResponse?) throws -> AuthorizationPlace {
    let (request, message) = (opening.request, opening.message)
    func url(_ message: AuthorizationRequest, at endpoint: URL) throws -> URL {
      if let answer {
        return settings.signIn.staysInFront
          ? try message.url(at: endpoint, beside: answer) : try message.url(at: endpoint, pushedAs: answer)
      }
      guard let object = try requestObject(message, opening) else { return try message.url(at: endpoint) }
      return try message.url(at: endpoint, requestObject: object)
    }
    var place = AuthorizationPlace(
      url: try url(message, at: opening.endpoint), warnings: opening.warnings, expiresIn: answer?.expiresIn)
    for app in apps(request) {
      switch app.style {
      case .oauth2: place.natives.append(NativePlace(app: app.name, url: try url(native(message), at: app.url)))
      case .dropbox:
        guard let question = question(request), let url = question.url(of: app.url) else { continue }
        place.natives.append(NativePlace(app: app.name, url: url))
        place.memory[Self.connectState] = question.state
      }
    }
    return place
  }
}

extension ProviderSettings {
  /// The provider-specific parameters of an authorization request. An empty value removes a parameter of the profile.
  func sentParameters(with asked: [String: String]) -> [String: String] {
    authorization.parameters.filter { !$0.value.isEmpty }.merging(asked) { $1 }
  }
}

/// User data that prefills the sign-in form.
private enum Prefill {
  static let names = ["email", "phone", "first_name", "last_name"]

  /// The `login_hint`: a JSON object of the given values in base64 (RFC 4648 §4). Nil if there are no values.
  static func hint(_ known: [String: String]) throws(ProviderFailure) -> String? {
    if let other = known.keys.sorted().first(where: { !names.contains($0) }) {
      throw .invalid(
        message: "prefill: expected \(names.joined(separator: ", ")), not “\(other.printable(limit: 64))”", nil)
    }
    let there = known.filter { !$0.value.isEmpty }
    guard !there.isEmpty else { return nil }
    return Data(JSON.object(there.mapValues { .string($0) }).serialized(sorted: true)).base64EncodedString()
  }
}
