import Grants
import OAuth
import Providers

/// Makes settings of a draft: what the keys say together.
struct ProviderCheck {
  var name: ProviderName
  var draft: ProviderDraft
  /// The section with its template merged in: for the places of keys.
  var table: [String: Item]
  /// Where the section begins.
  var place: Place
  var sources: Settings.Sources

  private var title: String { "[provider.\(name)]" }
  private var kind: ProviderSettings.Kind { draft.kind ?? .oidc }
  private func place(of key: String) -> Place { table[key]?.place ?? place }

  func settings(report: inout Report) -> ProviderSettings? {
    let issuer = readIssuer(report: &report)
    let discovery = readDiscovery(report: &report)
    checkEndpoints(discovery: discovery, report: &report)
    checkResource(report: &report)
    let client = readClient(report: &report)
    warn(report: &report)
    guard let clientID = draft.clientID else {
      if table["client_id"] == nil {
        report.problem(
          "\(title) has no \"client_id\"", at: place,
          suggestion: "register a client at the provider, and write its id here"
        )
      }
      return nil
    }
    var settings = draft.settings(name: name, kind: kind, clientID: clientID)
    settings.issuer = issuer
    settings.discovery = discovery
    settings.client = client
    return settings
  }

  private func readIssuer(report: inout Report) -> Issuer? {
    guard let text = draft.issuer else {
      if kind == .oidc, table["issuer"] == nil {
        report.problem(
          "\(title) has no \"issuer\"", at: place,
          suggestion: "write it as the provider does, such as https://login.example.com"
        )
      }
      return nil
    }
    do throws(IssuerError) {
      return try Issuer(text, allowInsecureHTTP: draft.allowInsecureHTTP)
    } catch {
      report.problem("\"issuer\" in \(title): \(error)", at: place(of: "issuer"))
      return nil
    }
  }

  private func readDiscovery(report: inout Report) -> DiscoveryStyle? {
    switch draft.discovery {
    case .off: return nil
    case .on(let style):
      if table["issuer"] == nil, kind == .oauth2 {
        report.problem("\(title) asks for discovery and has no \"issuer\"", at: place(of: "discovery"))
      }
      return style
    case nil:
      let isComplete = draft.endpoints.authorization != nil && draft.endpoints.token != nil
      return kind == .oidc ? .openID : (draft.issuer == nil || isComplete ? nil : .oauth)
    }
  }

  private func checkEndpoints(discovery: DiscoveryStyle?, report: inout Report) {
    let all: [(key: String, text: String?)] = [
      ("authorization_endpoint", draft.endpoints.authorization), ("token_endpoint", draft.endpoints.token),
      ("refresh_endpoint", draft.endpoints.refresh), ("jwks_uri", draft.endpoints.keys),
      ("userinfo_endpoint", draft.endpoints.userinfo), ("revocation_endpoint", draft.endpoints.revocation),
    ]
    for (key, text) in all {
      guard let text, Endpoint.url(text, allowInsecureHTTP: draft.allowInsecureHTTP) == nil else { continue }
      let isPlain = Endpoint.url(text, allowInsecureHTTP: true) != nil
      report.problem(
        "\"\(key)\" in \(title) must be an https URL without user or fragment", at: place(of: key),
        suggestion: isPlain ? "use https, or set allow_insecure_http for this provider if you must" : nil)
    }
    guard discovery == nil else { return }
    let required = ["authorization_endpoint", "token_endpoint"] + (kind == .oidc ? ["jwks_uri"] : [])
    let missing = required.filter { table[$0] == nil }.map { "\"\($0)\"" }
    guard !missing.isEmpty else { return }
    let advice = kind == .oidc ? "add them, or leave discovery on" : "add them, or an issuer for discovery"
    report.problem("\(title) has no \(missing.joined(separator: ", no "))", at: place, suggestion: advice)
  }

  private func checkResource(report: inout Report) {
    guard let resource = draft.resource else { return }
    // RFC 8707 §2: an absolute URI without a fragment, as a redirect URI is; but the messages differ.
    guard (try? RedirectURI(resource)) == nil else { return }
    report.problem("\"resource\" in \(title) must be an absolute URI without a fragment", at: place(of: "resource"))
  }

  private func readClient(report: inout Report) -> ClientAuthentication {
    let secret = ClientSecret(title: title, sources: sources).read(draft, table, report: &report)
    let namesSecret = table["client_secret_file"] != nil || table["client_secret_credential"] != nil
    let method = draft.method ?? (namesSecret ? .basic : .none)
    let methodPlace = place(of: "token_endpoint_auth_method")
    if method == .none, namesSecret {
      report.problem(
        "\(title) has a client secret, and \"token_endpoint_auth_method\" is \"none\"", at: methodPlace,
        suggestion: "remove one of them")
    } else if method != .none, !namesSecret {
      report.problem(
        "\"token_endpoint_auth_method\" in \(title) is \"\(method.rawValue)\", and there is no client secret",
        at: methodPlace, suggestion: "add client_secret_file or client_secret_credential")
    }
    guard let secret else { return .none }
    switch method {
    case .none: return .none
    case .basic: return .basic(secret: secret, encoding: .form)
    case .basicRaw: return .basic(secret: secret, encoding: .raw)
    case .post: return .post(secret: secret)
    }
  }

  private func warn(report: inout Report) {
    let prompts = draft.prompt?.split(separator: " ") ?? []
    // Google and Microsoft have rules of their own for it; elsewhere OpenID Connect Core §11 holds.
    if kind == .oidc, draft.issuerRule == .exact, draft.scopes.contains("offline_access"), !prompts.contains("consent")
    {
      report.warning(
        "\(title) asks for offline_access without prompt = \"consent\": many providers then give no refresh token "
          + "(OpenID Connect Core §11)", at: place(of: "scopes"))
    }
    if draft.allowInsecureHTTP, usesPlainHTTP {
      report.warning(
        "\(title) sends secrets over plain http: everybody on the way can read them",
        at: place(of: "allow_insecure_http"))
    }
  }

  /// Whether an address is only taken because of the switch.
  private var usesPlainHTTP: Bool {
    let endpoints = draft.endpoints
    let all = [
      draft.issuer, endpoints.authorization, endpoints.token, endpoints.refresh, endpoints.keys, endpoints.userinfo,
      endpoints.revocation,
    ]
    return all.contains { text in
      guard let text else { return false }
      return Endpoint.url(text, allowInsecureHTTP: true) != nil && Endpoint.url(text, allowInsecureHTTP: false) == nil
    }
  }
}

extension ProviderDraft {
  /// What is taken over as it is.
  fileprivate func settings(name: ProviderName, kind: ProviderSettings.Kind, clientID: String) -> ProviderSettings {
    var settings = ProviderSettings(
      name: name, kind: kind, displayName: displayName ?? name.rawValue, clientID: clientID)
    settings.profile = profile
    settings.issuerRule = issuerRule
    settings.endpoints = endpoints
    settings.scopes = scopes
    settings.scopeSeparator = scopeSeparator
    settings.resource = resource
    settings.redirect = redirect
    settings.pkce = pkce
    settings.prompt = prompt.flatMap { $0.isEmpty ? nil : $0 }
    settings.authorizationParameters = authorizationParameters
    settings.tokenParameters = tokenParameters
    settings.refreshParameters = refreshParameters
    settings.tokenHeaders = tokenHeaders
    settings.bodyFormat = bodyFormat
    settings.response = response
    settings.response.scopeSeparator = scopeSeparator
    settings.rotation = rotation
    settings.permanentErrors = permanentErrors
    settings.refreshTokenLifetime = refreshTokenLifetime
    settings.idToken = idToken
    settings.allowInsecureHTTP = allowInsecureHTTP
    settings.loginLifetime = loginLifetime
    return settings
  }
}
