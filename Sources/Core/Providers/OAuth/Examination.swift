import FoundationEssentials
public import Grants
public import OAuth

// Checks that need neither a token nor user interaction. Metadata are often incomplete, so missing members are not
// failures.
extension OAuthProvider {
  public var clockTolerance: Duration { settings.token.idToken.tolerance }

  public func examine(_ response: HTTPResponse?) -> Examination {
    let (discovery, issuer) = judge(response)
    var findings = [discovery, issuer]
    do throws(ProviderFailure) {
      let metadata = try metadata(from: response)
      findings += [
        endpoints(metadata), grantTypes(metadata), clientAuthentication(metadata), pkce(metadata), scopes(metadata),
      ]
      return Examination(findings: findings, metadata: metadata)
    } catch {
      // The settings contain an invalid URL; errors in the server's response are reported above.
      if response == nil { findings.append(Finding(.endpoints, .failed(hint: correction), error.message)) }
      return Examination(findings: findings, metadata: nil)
    }
  }

  public func examine(_ keys: JWKSet, metadata: ServerMetadata) -> Finding {
    let algorithms = IDToken.algorithms(
      configured: settings.token.idToken.algorithms, metadata: metadata.supported.idTokenAlgorithms)
    let names = algorithms.joined(separator: ", ")
    // HS256 uses the client secret as its key (OpenID Connect Core §10.1).
    let count = keys.count(usableFor: algorithms)
    if count > 0 || algorithms == ["HS256"] {
      return Finding(.keys, .ok, "\(count) of \(keys.keys.count) keys verify ID tokens signed with \(names)")
    }
    let hint =
      settings.token.idToken.algorithms.isEmpty
      ? "Ask the provider's operator: its ID tokens cannot be verified, so every login fails."
      : "Compare id_token_algorithms in \(section) with the algorithms of the provider, then `grantctl reload`."
    return Finding(
      .keys, .failed(hint: hint), "none of the provider's \(keys.keys.count) keys can verify a signature by \(names)")
  }

  // MARK: Each check

  public func examineSettings() -> Finding {
    let profile = settings.profile.map { ", profile \($0)" } ?? ""
    let scopes =
      settings.access.scopes.isEmpty ? "no scopes" : "scopes \(settings.access.scopes.joined(separator: " "))"
    let text = "\(settings.server.kind.rawValue)\(profile), client \(settings.client.id), \(scopes)"
    guard settings.server.allowInsecureHTTP else { return Finding(.configuration, .ok, text) }
    return Finding(
      .configuration, .warning(hint: "Use https, and take allow_insecure_http out of \(section)."),
      "allow_insecure_http is on: codes, tokens and the client's secret may travel readable by others")
  }

  /// Checks that the response is valid metadata of the configured issuer (RFC 8414 §3.3).
  private func judge(_ response: HTTPResponse?) -> (discovery: Finding, issuer: Finding) {
    guard let response, let issuer = settings.server.issuer, let url = discovery()?.url.absoluteString else {
      return (
        Finding(.discovery, .skipped, "the endpoints are configured: no metadata are asked for"),
        Finding(
          .issuer, .skipped,
          settings.server.issuer.map { "\($0), with nothing to compare it with" } ?? "none configured")
      )
    }
    let fetched = Finding(.discovery, .ok, url)
    do throws(ResponseError) {
      _ = try ServerMetadata.parse(
        response, expected: issuer, issuerRule: settings.server.issuerRule,
        allowInsecureHTTP: settings.server.allowInsecureHTTP)
      return (fetched, Finding(.issuer, .ok, issuer.rawValue))
    } catch {
      if case .issuerMismatch(let expected, let found) = error {
        // Metadata with this issuer need not be at its well-known URL (Azure AD B2C, a trailing slash).
        let isThere = (try? Issuer(found, allowInsecureHTTP: settings.server.allowInsecureHTTP))
          .map { $0.discoveryRequest(settings.server.discovery ?? .openID).url.absoluteString == url }
        let place = isThere == true ? "" : " and discovery_url = \"\(url)\""
        let hint =
          "They must be identical to the last character. If you trust \(found): write issuer = \"\(found)\"\(place) in "
          + "\(section), then `grantctl reload`."
        return (fetched, Finding(.issuer, .failed(hint: hint), "configured is \(expected), the provider says \(found)"))
      }
      let (message, hint) = words(error, response, url)
      return (
        Finding(.discovery, .failed(hint: hint), message),
        Finding(.issuer, .skipped, "\(issuer), with no metadata to compare it with")
      )
    }
  }

  private func words(_ error: ResponseError, _ response: HTTPResponse, _ url: String) -> (message: String, hint: String)
  {
    let status = "HTTP \(response.status)"
    let check =
      "\(metadataHint) `curl -i \(url)` shows the answer. Then run `grantctl reload`."
    switch error {
    case .redirect:
      let place = response.header("Location").map { " to \($0.printable(limit: 200))" } ?? ""
      return (
        "\(url) answers with a redirect\(place) (\(status)), which is not followed",
        "If the final URL has the right metadata: set discovery_url to it in \(section), then run `grantctl reload`."
      )
    case .nonConforming where response.status >= 500 || [408, 429].contains(response.status):
      return (
        error.description,
        "Nothing to change here: wait, or see the provider's status page. The broker tries again automatically."
      )
    case .nonConforming where response.mediaType == "text/html" && response.status == 200:
      return (
        "\(url) answers with a web page (\(status), text/html) in place of metadata",
        "Open it in a browser: is it maintenance, a proxy or a network's sign-in page? Else check issuer in "
          + "\(section)."
      )
    case .nonConforming where response.status == 404: return ("there are no metadata at \(url) (\(status))", check)
    case .nonConforming(_, _, let reason, _): return ("\(url) (\(status)): \(reason)", check)
    case .oauth, .issuerMismatch, .subjectMismatch: return ("\(url): \(error.description)", check)
    }
  }

  private func endpoints(_ metadata: ServerMetadata) -> Finding {
    let needed: [Endpoint] =
      settings.signIn.isImplicit
      ? [.authorization] : [.authorization, .token] + (tokenTraits.usesIDTokens ? [.keys] : [])
    var missing: [String] = []
    for endpoint in needed {
      do throws(EndpointError) {
        _ = try metadata.endpoint(endpoint)
      } catch {
        missing.append(error.description)
      }
    }
    if let first = missing.first {
      let others = missing.count > 1 ? " (and \(missing.count - 1) more)" : ""
      return Finding(.endpoints, .failed(hint: correction), first + others)
    }
    let broken = metadata.invalidEndpoints.keys.map(\.rawValue).sorted()
    if !broken.isEmpty {
      return Finding(
        .endpoints,
        .warning(hint: "Signing in and refreshing work without them; ask the provider's operator to correct them."),
        "the metadata have unusable addresses for \(broken.joined(separator: ", "))")
    }
    let revocation = metadata.endpoints[.revocation] == nil ? "; none to revoke at, so a logout only forgets" : ""
    return Finding(.endpoints, .ok, needed.map(\.rawValue).joined(separator: ", ") + revocation)
  }

  private func grantTypes(_ metadata: ServerMetadata) -> Finding {
    if metadata.requiresPushedRequests, settings.authorization.par == .never {
      return Finding(
        .grantTypes, .failed(hint: "Take par = \"never\" out of \(section), then `grantctl reload`."),
        "the provider demands pushed authorization requests (RFC 9126), which the settings forbid")
    }
    if metadata.requiresSignedRequests, settings.authorization.requestObjectKey == nil {
      return Finding(
        .grantTypes,
        .failed(hint: "Write request_object = true and the client's key in \(section), then `grantctl reload`."),
        "the provider requires signed authorization requests (RFC 9101 §10.5), which are not configured")
    }
    if settings.signIn.isImplicit {
      return Finding(
        .grantTypes,
        .warning(hint: "Take response_type and allow_implicit out of \(section) if the provider has codes."),
        "tokens come by the browser (RFC 6749 §4.2), and none is ever refreshed")
    }
    if let types = metadata.supported.responseTypes, !types.contains("code") {
      return Finding(
        .grantTypes, .warning(hint: "Is this the issuer for programs? Check it in \(section)."),
        "the metadata do not name the response type code, by which people sign in here")
    }
    guard let types = metadata.supported.grantTypes else {
      return Finding(.grantTypes, .ok, "the metadata do not say which; authorization_code and refresh_token are used")
    }
    let missing = ["authorization_code", "refresh_token"].filter { !types.contains($0) }
    guard missing.isEmpty else {
      return Finding(
        .grantTypes,
        .warning(
          hint: "Ask the provider's operator. Without refresh_token, people sign in again when each token ends."),
        "the metadata do not name \(missing.joined(separator: " and "))")
    }
    return Finding(.grantTypes, .ok, "authorization_code, refresh_token")
  }

  private func clientAuthentication(_ metadata: ServerMetadata) -> Finding {
    // Many servers accept public clients although their metadata do not list `none`.
    if settings.client.credential == .none { return Finding(.clientAuthentication, .ok, "none: a public client") }
    let usable = settings.client.credential.methods
    let method = usable[0]
    guard let methods = metadata.supported.clientAuthentication, !methods.contains(where: usable.contains) else {
      return Finding(.clientAuthentication, .ok, method)
    }
    let withSecret = ["client_secret_basic", "client_secret_post", "client_secret_jwt"]
    let other = withSecret.contains(method) ? withSecret.first(where: methods.contains) : nil
    let hint =
      other.map { "Write token_endpoint_auth_method = \"\($0)\" in \(section), then `grantctl reload`." }
      ?? "Register a client with an authentication method of the provider, and set token_endpoint_auth_method."
    let named = methods.prefix(8).joined(separator: ", ").printable(limit: 200)
    return Finding(.clientAuthentication, .warning(hint: hint), "\(method) is used; the metadata name \(named)")
  }

  private func pkce(_ metadata: ServerMetadata) -> Finding {
    let methods = metadata.supported.codeChallengeMethods
    if settings.signIn.isImplicit { return Finding(.pkce, .skipped, "there are no codes") }
    guard settings.authorization.pkce else {
      guard methods?.contains("S256") == true else { return Finding(.pkce, .skipped, "switched off by pkce = false") }
      return Finding(
        .pkce, .warning(hint: "Take pkce = false out of \(section), then `grantctl reload`."),
        "PKCE is switched off, and the provider has it")
    }
    guard let methods else { return Finding(.pkce, .ok, "S256 is sent; the metadata do not say if it is checked") }
    if methods.contains("S256") { return Finding(.pkce, .ok, "S256") }
    return Finding(
      .pkce,
      .warning(hint: "Nothing to do while people can sign in; else write pkce = false in \(section)."),
      "S256 is sent, and the metadata do not name it")
  }

  // MARK: Scopes

  private func scopes(_ metadata: ServerMetadata) -> Finding {
    let asked = settings.access.scopes
    if settings.server.kind == .oidc, !asked.contains("openid") {
      return Finding(
        .scopes, .warning(hint: "Add \"openid\" to scopes in \(section), then `grantctl reload`."),
        "openid is not asked for: who signed in will not be known")
    }
    if let (message, hint) = withoutRefreshToken(metadata) { return Finding(.scopes, .warning(hint: hint), message) }
    guard let supported = metadata.supported.scopes else {
      return Finding(.scopes, .ok, "the metadata do not say which there are")
    }
    let unknown = asked.filter { !supported.contains($0) }
    let plain = metadata.misspelled(asked)
    guard plain.isEmpty else {
      let named = supported.prefix(12).joined(separator: " ").printable(limit: 200)
      return Finding(
        .scopes, .warning(hint: "Check their spelling in \(section). The provider names: \(named)."),
        "the provider does not name \(plain.joined(separator: " "))")
    }
    return Finding(
      .scopes, .ok,
      unknown.isEmpty
        ? "the provider has all that are asked for" : "not in the provider's list: \(unknown.joined(separator: " "))")
  }

  /// The finding if, at this kind of provider, the configured request will not return a refresh token.
  private func withoutRefreshToken(_ metadata: ServerMetadata) -> (message: String, hint: String)? {
    let asksOffline = (settings.access.scopes + settings.access.optionalScopes).contains("offline_access")
    if settings.server.issuerRule == .google {
      guard settings.authorization.parameters["access_type"] != "offline" else { return nil }
      return (
        "Google gives a refresh token only with access_type=offline",
        "Write authorization_parameters = { access_type = \"offline\" } in \(section), then `grantctl reload`."
      )
    }
    let wantsOffline =
      settings.server.issuerRule == .entraTenant || metadata.supported.scopes?.contains("offline_access") == true
    if settings.server.kind == .oidc, wantsOffline, !asksOffline {
      return (
        "offline_access is not asked for: the provider may give no refresh token",
        "Add \"offline_access\" to scopes in \(section), `grantctl reload`, and sign in again."
      )
    }
    let consents = (settings.authorization.prompt ?? "").split(separator: " ").contains("consent")
    if settings.profile == "7pass", asksOffline, !consents {
      return (
        "7Pass grants offline_access only with prompt=consent",
        "Take prompt out of \(section), so that the profile's counts; `grantctl reload`, and sign in again."
      )
    }
    return nil
  }
}
