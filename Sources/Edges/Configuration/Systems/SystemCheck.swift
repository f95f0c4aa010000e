import BrokerAPI
import FoundationEssentials
import Grants
import OAuth
import Providers

/// Makes settings of a draft of a kind without OAuth, with the checks across its keys.
struct SystemCheck {
  var name: ProviderName
  var kind: ProviderKind
  var draft: SystemDraft
  var section: NamedSection
  var sources: Settings.Sources

  /// The settings; nil, and a report, if the keys contradict each other.
  func settings(report: inout ConfigurationReport) -> SystemSettings? {
    let tls = KeyReader(title: section.title, sources: sources).tls(draft.tls, section.table, report: &report)
    draft.api.check(section, allowInsecureHTTP: draft.allowInsecureHTTP, report: &report)
    checkZephr(report: &report)
    let redirect = redirect(report: &report)
    guard let base = baseURL(report: &report), let redirect else { return nil }
    var site = SiteSettings(
      name: name, displayName: draft.displayName ?? name.rawValue, baseURL: base, redirect: redirect)
    site.profile = draft.profile
    site.loginLifetime = draft.loginLifetime
    site.apiBase = draft.api.baseURL(allowInsecureHTTP: draft.allowInsecureHTTP)
    site.apiOrigins = draft.api.originURLs(allowInsecureHTTP: draft.allowInsecureHTTP)
    site.tls = tls
    site.allowInsecureHTTP = draft.allowInsecureHTTP
    switch kind {
    case .oidc, .oauth2: return nil
    case .vms: return .vms(vms(site))
    case .zephr: return .zephr(zephr(site))
    }
  }

  private func vms(_ site: SiteSettings) -> VMSSettings {
    var settings = VMSSettings(
      site: site, clientName: draft.clientName, clientVersion: draft.clientVersion ?? GrantdVersion.current)
    settings.language = draft.language
    settings.headers = draft.headers
    settings.replacing = draft.replacing
    return settings
  }

  private func zephr(_ site: SiteSettings) -> ZephrSettings {
    var settings = ZephrSettings(site: site)
    settings.pathPrefix = draft.pathPrefix
    settings.clientType = draft.clientType.isEmpty ? nil : draft.clientType
    settings.identityProviders = draft.identityProviders
    settings.standardIdentityProvider = draft.standardIdentityProvider
    settings.cookieName = draft.cookieName
    settings.userExistsStatus = draft.userExistsStatus
    settings.emailDomainStatus = draft.emailDomainStatus
    if let members = draft.subjectMembers { settings.subjectMembers = members }
    settings.logoutReach = draft.logoutReach
    settings.redirectsWithNonce = draft.redirectsWithNonce
    settings.redirectParameter = draft.redirectParameter
    return settings
  }

  // MARK: Each check

  private func baseURL(report: inout ConfigurationReport) -> URL? {
    guard let text = draft.baseURL else {
      report.require(
        ["base_url"], in: section, suggestion: "write where the server is, such as https://vms.example.com")
      return nil
    }
    guard let url = Endpoint.url(text, allowInsecureHTTP: draft.allowInsecureHTTP), !text.contains("?") else {
      let isPlain = Endpoint.url(text, allowInsecureHTTP: true) != nil && !text.contains("?")
      report.problem(
        at: section, "base_url", "must be an https URL without user, query or fragment",
        suggestion: isPlain ? "use https, or set allow_insecure_http for this provider if you must" : nil)
      return nil
    }
    if Endpoint.url(text, allowInsecureHTTP: false) == nil {
      report.warning(
        "\(section.title) sends secrets over plain http: any host on the path can read them",
        at: section.location(of: "allow_insecure_http"))
    }
    return url
  }

  /// Only the server knows where it sends browsers, unless each login tells it.
  private func redirect(report: inout ConfigurationReport) -> ProviderSettings.Redirect? {
    if let redirect = draft.redirect { return redirect }
    guard section["redirect_uri"] == nil else { return nil }
    if draft.redirectParameter != nil { return .loopback(host: .v4, path: "/callback") }
    report.require(
      ["redirect_uri"], in: section,
      suggestion: "write the address that the server sends the browser back to, as it is configured there")
    return nil
  }

  private func checkZephr(report: inout ConfigurationReport) {
    guard kind == .zephr else { return }
    if let name = draft.standardIdentityProvider, !draft.identityProviders.isEmpty,
      !draft.identityProviders.contains(name)
    {
      report.problem(
        at: section, "default_identity_provider", "is \(quoted(name)), which \"identity_providers\" does not have",
        suggestion: didYouMean(name, draft.identityProviders) ?? "add it there")
    }
    if draft.redirectsWithNonce, draft.redirectParameter == nil {
      report.problem(
        at: section, "nonce_in_redirect",
        "needs \"redirect_parameter\": the server could not know where each login ends",
        suggestion: "add it, such as redirect_parameter = \"redirect_uri\"")
    }
    if draft.redirectsWithNonce, case .fixed(let uri) = draft.redirect, uri.rawValue.contains("?") {
      report.problem(
        at: section, "redirect_uri", "has a query, and nonce_in_redirect adds to its path",
        suggestion: "remove the query")
    }
    let statuses = [("user_exists_status", draft.userExistsStatus), ("email_domain_status", draft.emailDomainStatus)]
    for (key, status) in statuses where [400, 401, 408, 422, 429].contains(status) {
      report.problem(at: section, key, "is \(status), which means something else in every answer")
    }
    if draft.userExistsStatus == draft.emailDomainStatus {
      report.problem(
        "\"user_exists_status\" and \"email_domain_status\" in \(section.title) are both \(draft.userExistsStatus)",
        at: section.location(of: "user_exists_status"), suggestion: "they tell two refusals apart")
    }
  }
}
