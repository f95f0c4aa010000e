import Grants
import OAuth
import Providers

/// Keys that need another one, or that exclude others.
extension ProviderSectionCheck {
  func checkCombinations(discovery: DiscoveryStyle?, report: inout ConfigurationReport) {
    checkNeeds(discovery: discovery, report: &report)
    checkTypes(report: &report)
    checkSignIn(discovery: discovery, report: &report)
    let parameters = ["response_mode", "acr_values", "ui_locales", "claims", "authorization_details"]
    for key in parameters where section[key] != nil && draft.authorization.parameters[key] != nil {
      report.problem(
        "\(section.title) has \"\(key)\" both as a key and in \"authorization_parameters\"",
        at: section.location(of: key),
        suggestion: "keep one of them")
    }
  }

  /// The requirements of a key with discovery off: metadata could satisfy them.
  private func checkNeeds(discovery: DiscoveryStyle?, report: inout ConfigurationReport) {
    let needs: [(key: String, isThere: Bool, needed: String)] = [
      ("par", draft.authorization.par == .always, "pushed_authorization_request_endpoint"),
      ("revocation_style", draft.logout.revocation == .bearer, "revocation_endpoint"),
      ("post_logout_redirect_uri", draft.logout.postLogoutRedirectURI != nil, "end_session_endpoint"),
      ("response_mode", draft.authorization.responseMode != nil, "jwks_uri"),
      ("device_parameters", !draft.authorization.deviceParameters.isEmpty, "device_authorization_endpoint"),
    ]
    guard discovery == nil else { return }
    for need in needs where need.isThere && section[need.needed] == nil {
      report.problem(
        at: section, need.key, "needs \"\(need.needed)\", which is not there",
        suggestion: "add it, or remove \(need.key)")
    }
  }

  private func checkTypes(report: inout ConfigurationReport) {
    if draft.logout.backchannel, kind != .oidc {
      report.problem(
        at: section, "backchannel_logout", "is of OpenID Connect, and its kind is \"\(kind.rawValue)\"",
        suggestion: "remove it, or write kind = \"oidc\" if the provider is one")
    }
    if draft.maxAge != nil, kind != .oidc {
      report.problem(
        at: section, "max_age", "cannot be checked: there are ID tokens with kind \"oidc\" alone",
        suggestion: "remove it, or write kind = \"oidc\" if the provider is one")
    }
    if draft.token.dpop, draft.token.response.tokenType == "Bearer" {
      report.problem(
        at: section, "assumed_token_type", "is \"Bearer\", and tokens are asked for with dpop",
        suggestion: "remove one of them")
    } else if !draft.token.dpop, draft.token.response.tokenType == "DPoP" {
      report.problem(
        at: section, "assumed_token_type", "is \"DPoP\", and there is no dpop", suggestion: "set dpop = true")
    }
    if draft.logout.revokesReplaced, draft.logout.revocation == .bearer {
      report.problem(
        at: section, "revoke_replaced", "is true, and \"revocation_style\" is \"bearer\", which ends the new login too",
        suggestion: "remove one of them")
    }
    if draft.token.dpop, draft.logout.revocation == .bearer {
      report.problem(
        at: section, "revocation_style", "is \"bearer\", and tokens with dpop are not bearer tokens",
        suggestion: "remove one of them")
    }
  }
}
