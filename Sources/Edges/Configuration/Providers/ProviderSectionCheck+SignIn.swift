import FoundationEssentials
import OAuth
import Providers

/// How people sign in: what of it makes no sense together.
extension ProviderSectionCheck {
  var isImplicit: Bool { draft.signIn.responseType == "token" }

  func checkSignIn(discovery: DiscoveryStyle?, report: inout ConfigurationReport) {
    if isImplicit { checkImplicit(report: &report) }
    checkPrompts(report: &report)
    checkApps(discovery: discovery, report: &report)
    checkCallbacks(report: &report)
    checkAPI(report: &report)
  }

  private func checkImplicit(report: inout ConfigurationReport) {
    guard draft.signIn.allowsImplicit else {
      report.problem(
        at: section, "response_type",
        "is \"token\": tokens would come by the browser, which may leak them "
          + "(RFC 9700 §2.1.2), and could not be refreshed",
        suggestion: "leave it out; if the provider has no codes, set allow_implicit = true")
      return
    }
    if kind == .oidc {
      report.problem(
        at: section, "response_type",
        "is \"token\", and its kind is \"oidc\": without a code nothing proves for whom the token is",
        suggestion: "leave it out, or write kind = \"oauth2\" if the provider has nothing else")
    }
    let clashes: [(key: String, isThere: Bool)] = [
      ("response_mode", draft.authorization.responseMode != nil),
      ("pkce", section["pkce"] != nil && draft.authorization.pkce),
      ("par", draft.authorization.par == .always), ("prefill", draft.signIn.settings.prefill != nil),
      ("dpop", draft.token.dpop),
      ("request_object", draft.signsRequests), ("exchange_code", !draft.signIn.settings.exchangesCodes),
      ("code_over_error", draft.signIn.settings.takesCodeFirst),
      ("keep_callback_members", !draft.signIn.settings.keepCallbackMembers.isEmpty),
    ]
    for clash in clashes where clash.isThere {
      report.problem(
        at: section, clash.key, "makes no sense with response_type = \"token\"", suggestion: "remove one of them")
    }
  }

  private func checkPrompts(report: inout ConfigurationReport) {
    let (known, native) = (draft.signIn.settings.prompts, draft.signIn.settings.native.prompts)
    guard !known.isEmpty else { return }
    let said = draft.authorization.prompt.map { $0.split(separator: " ").map(String.init) } ?? []
    for (key, words) in [("prompt", said), ("native_prompts", native ?? [])] {
      guard let other = words.first(where: { !known.contains($0) }) else { continue }
      report.problem(
        at: section, key, "has \(quoted(other)), which \"allowed_prompts\" does not",
        suggestion: didYouMean(other, known))
    }
  }

  private func checkApps(discovery: DiscoveryStyle?, report: inout ConfigurationReport) {
    let settings = draft.signIn.settings
    func clash(_ key: String, _ why: String) {
      report.problem(at: section, key, why, suggestion: "remove one of them")
    }
    if settings.native.prompts != nil,
      draft.signsRequests || (draft.authorization.par == .always && !settings.staysInFront)
    {
      clash("native_prompts", "cannot be: one request, prompt and all, is for the browser and the applications alike")
    }
    if settings.staysInFront, draft.signsRequests {
      clash("par_beside_parameters", "cannot be with request_object: a signed request is whole")
    }
    let connects = settings.native.apps.contains { $0.style == .dropbox }
    if connects, kind == .oidc { clash("native_apps", "has an application with style \"dropbox\", and kind \"oidc\"") }
    if connects, draft.authorization.responseMode != nil {
      clash("native_apps", "has an application with style \"dropbox\", whose answers are not signed (response_mode)")
    }
    let pushes = "pushed_authorization_request_endpoint"
    if settings.prefill != nil, discovery == nil, section[pushes] == nil {
      report.problem(
        at: section, "prefill", "needs \"\(pushes)\", which is not there", suggestion: "add it, or remove prefill")
    }
    for app in settings.native.apps where app.url.scheme == "https" || app.url.scheme == "http" {
      guard Endpoint.url(app.url.absoluteString, allowInsecureHTTP: draft.server.allowInsecureHTTP) == nil else {
        continue
      }
      report.problem(
        "\"native_apps\" in \(section.title): \(quoted(app.name)) must be at an https URL without user or fragment",
        at: section.location(of: "native_apps"))
    }
  }

  private func checkCallbacks(report: inout ConfigurationReport) {
    let settings = draft.signIn.settings
    if settings.identityMember != nil, kind == .oidc {
      report.problem(
        at: section, "identity_member", "is of plain OAuth: with kind \"oidc\" the ID token says who signed in",
        suggestion: "remove it")
    }
    let own = ["code", "state", "error", "iss", "response", "access_token", "id_token", "refresh_token"]
    if let name = settings.keepCallbackMembers.first(where: own.contains) {
      report.problem(at: section, "keep_callback_members", "has \(quoted(name)), which is the broker's own")
    }
    for bridge in settings.bridges {
      if case .fixed(let uri) = draft.client.redirect, uri.scheme == bridge.scheme {
        report.problem(
          at: section, "bridge",
          "has the scheme of its redirect_uri, \(quoted(bridge.scheme)): no answer would reach the broker")
      }
      guard Endpoint.url(bridge.forward.absoluteString, allowInsecureHTTP: draft.server.allowInsecureHTTP) == nil else {
        continue
      }
      report.problem(
        "\"bridge\" in \(section.title): forward must be an https URL", at: section.location(of: "bridge"),
        suggestion: "use https, or set allow_insecure_http for this provider if you must")
    }
  }

  private func checkAPI(report: inout ConfigurationReport) {
    let signIn = draft.signIn
    signIn.api.check(section, allowInsecureHTTP: draft.server.allowInsecureHTTP, report: &report)
    if !signIn.apiErrors.isEmpty, signIn.apiErrorPath.isEmpty {
      report.problem(
        at: section, "api_errors", "needs \"api_error_path\", which is not there",
        suggestion: "add it, or remove api_errors")
    }
  }
}

extension SignInDraft {
  /// The values for the settings, after all checks.
  func apply(to settings: inout ProviderSettings, allowInsecureHTTP: Bool) {
    settings.signIn = self.settings
    settings.signIn.isImplicit = responseType == "token"
    settings.api.base = api.baseURL(allowInsecureHTTP: allowInsecureHTTP)
    settings.api.origins = api.originURLs(allowInsecureHTTP: allowInsecureHTTP)
    settings.api.errorPath = apiErrorPath
    settings.api.errors = apiErrors
  }
}
