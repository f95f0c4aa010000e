import FoundationEssentials
import Grants
import OAuth
import Providers

/// Makes settings of a draft, with the checks across its keys.
struct ProviderSectionCheck {
  var draft: ProviderDraft
  var section: NamedSection
  /// Whether any declared account is of this provider.
  var servesAccounts: Bool
  var sources: Settings.Sources

  var kind: ProviderSettings.Kind { draft.server.kind }

  /// The settings; nil, and a report, if the keys contradict each other. Without a `client_id` they have an empty one,
  /// which suffices for some accounts: see ``AccountDeclarations``.
  func settings(report: inout ConfigurationReport) -> ProviderSettings? {
    let issuer = readIssuer(report: &report)
    let discovery = readDiscovery(report: &report)
    checkEndpoints(discovery: discovery, report: &report)
    checkURIs(report: &report)
    let keys = KeyReader(title: section.title, sources: sources)
    let tls = keys.tls(draft.tls, section.table, report: &report)
    let client = ClientCheck(draft: draft, section: section, keys: keys).read(report: &report)
    checkCombinations(discovery: discovery, report: &report)
    warn(report: &report)
    guard draft.clientID != nil || section["client_id"] == nil else { return nil }
    var settings = draft.made()
    settings.server.issuer = issuer
    settings.server.discovery = discovery
    settings.server.discoveryURL = readDiscoveryURL(discovery, report: &report)
    settings.client.credential = client.credential
    settings.client.secret = client.secret
    settings.authorization.requestObjectKey = client.requestObjectKey
    settings.server.tls = tls
    return settings
  }

  private func readIssuer(report: inout ConfigurationReport) -> Issuer? {
    guard let text = draft.issuer else {
      if kind == .oidc {
        report.require(
          ["issuer"], in: section, suggestion: "write it as the provider does, such as https://login.example.com")
      }
      return nil
    }
    do throws(IssuerError) {
      return try Issuer(text, allowInsecureHTTP: draft.server.allowInsecureHTTP)
    } catch {
      report.problem(
        "\"issuer\" in \(section.title): \(error)", at: section.location(of: "issuer"),
        suggestion: error.withHTTPS.map { _ in "use https, or set allow_insecure_http for this provider if you must" })
      return nil
    }
  }

  private func readDiscovery(report: inout ConfigurationReport) -> DiscoveryStyle? {
    switch draft.discovery {
    case .off: return nil
    case .on(let style):
      if section["issuer"] == nil, kind == .oauth2 {
        report.problem(
          "\(section.title) asks for discovery and has no \"issuer\"", at: section.location(of: "discovery"))
      }
      return style
    case nil:
      let isComplete =
        draft.server.endpoints[.authorization] != nil && (draft.server.endpoints[.token] != nil || isImplicit)
      return kind == .oidc ? .openID : (draft.issuer == nil || isComplete ? nil : .oauth)
    }
  }

  private func readDiscoveryURL(_ discovery: DiscoveryStyle?, report: inout ConfigurationReport) -> URL? {
    guard let text = draft.discoveryURL else { return nil }
    guard let url = Endpoint.url(text, allowInsecureHTTP: draft.server.allowInsecureHTTP) else {
      report.problem(at: section, "discovery_url", "must be an https URL without user or fragment")
      return nil
    }
    if discovery == nil || section["issuer"] == nil {
      report.problem(at: section, "discovery_url", "needs \"issuer\", and discovery that is on")
    }
    return url
  }

  private func checkEndpoints(discovery: DiscoveryStyle?, report: inout ConfigurationReport) {
    for (key, text) in draft.endpointTexts {
      guard Endpoint.url(text, allowInsecureHTTP: draft.server.allowInsecureHTTP) == nil else { continue }
      let isPlain = Endpoint.url(text, allowInsecureHTTP: true) != nil
      report.problem(
        at: section, key, "must be an https URL without user or fragment",
        suggestion: isPlain ? "use https, or set allow_insecure_http for this provider if you must" : nil)
    }
    guard discovery == nil else { return }
    let required =
      authorizationEndpointKeys + (isImplicit ? [] : ["token_endpoint"]) + (kind == .oidc ? ["jwks_uri"] : [])
    let missing = required.filter { section[$0] == nil }.map { "\"\($0)\"" }
    guard !missing.isEmpty else { return }
    let advice = kind == .oidc ? "add them, or leave discovery on" : "add them, or an issuer for discovery"
    report.problem(
      "\(section.title) has no \(missing.joined(separator: ", no "))", at: section.place, suggestion: advice)
  }

  /// Perhaps no sign-in uses a browser: without a client, with only device or password logins, and for unattended
  /// accounts.
  private var authorizationEndpointKeys: [String] {
    let isNeeded =
      section["client_id"] != nil && draft.server.endpoints[.deviceAuthorization] == nil && !draft.token.allowsPassword
      && !servesAccounts
    return isNeeded ? ["authorization_endpoint"] : []
  }

  private func checkURIs(report: inout ConfigurationReport) {
    // RFC 8707 §2: an absolute URI without a fragment, as a redirect URI is; but the messages differ.
    if let audience = draft.access.audience {
      if draft.access.audienceParameter == nil {
        report.problem(
          at: section, "audience", "has no use without \"audience_parameter\"",
          suggestion: "add audience_parameter = \"audience\"")
      } else if !TokenAudience.isValid(audience) {
        report.problem(at: section, "audience", "has spaces, quotes or other characters")
      } else if draft.access.audienceParameter == .resource, (try? RedirectURI(audience)) == nil {
        report.problem(at: section, "audience", "must be an absolute URI without a fragment")
      }
    }
    if let resource = draft.access.resource, (try? RedirectURI(resource)) == nil {
      report.problem(at: section, "resource", "must be an absolute URI without a fragment")
    }
    guard let text = draft.logout.postLogoutRedirectURI else { return }
    do throws(RedirectURIError) {
      _ = try RedirectURI(text)
    } catch {
      report.problem(
        "\"post_logout_redirect_uri\" in \(section.title): \(error)",
        at: section.location(of: "post_logout_redirect_uri"))
    }
  }

  private func warn(report: inout ConfigurationReport) {
    let prompts = draft.authorization.prompt?.split(separator: " ") ?? []
    let isOnPurpose = draft.authorization.prompt?.isEmpty ?? false
    // Google and Microsoft have their own rules for it; otherwise OpenID Connect Core §11 applies.
    if kind == .oidc, draft.server.issuerRule == .exact, draft.access.scopes.contains("offline_access"),
      !prompts.contains("consent"), !isOnPurpose, draft.profile != "oidc"
    {
      report.warning(
        "\(section.title) asks for offline_access without prompt = \"consent\": many providers then give no refresh "
          + "token (OpenID Connect Core §11)", at: section.location(of: "scopes"))
    }
    if draft.server.allowInsecureHTTP, usesPlainHTTP {
      report.warning(
        "\(section.title) sends secrets over plain http: any host on the path can read them",
        at: section.location(of: "allow_insecure_http"))
    }
  }

  /// Whether an address is only taken because of the switch.
  private var usesPlainHTTP: Bool {
    let all = [draft.issuer].compactMap(\.self) + draft.endpointTexts.map(\.text)
    return all.contains { text in
      Endpoint.url(text, allowInsecureHTTP: true) != nil && Endpoint.url(text, allowInsecureHTTP: false) == nil
    }
  }
}

extension ProviderDraft {
  /// The configured endpoints with their keys.
  fileprivate var endpointTexts: [(key: String, text: String)] {
    let all = Endpoint.allCases.map { ($0.rawValue, self.server.endpoints[$0]) }
    let refresh = [("refresh_endpoint", self.server.refreshEndpoint)]
    return (all.prefix(2) + refresh + all.dropFirst(2)).compactMap { key, text in text.map { (key, $0) } }
  }
}
