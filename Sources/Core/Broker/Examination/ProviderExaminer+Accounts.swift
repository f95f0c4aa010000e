import BrokerAPI
import Grants
import OAuth

extension ProviderExaminer {
  /// The accounts of the provider, sorted by name.
  func accountChecks(_ provider: any Provider) async -> [ProviderCheck.Check] {
    var checks: [ProviderCheck.Check] = []
    var batch = Batch(of: Batch.heavy)
    for account in accounts.names(at: provider.name).after(nil, most: Limit.checkedAccounts) {
      if let grant = accounts.peek(account) {
        checks += [scopes(of: grant, provider), refreshToken(of: grant, provider)]
      }
      await batch.next()
    }
    return checks
  }

  private func scopes(of grant: Grant, _ provider: any Provider) -> ProviderCheck.Check {
    let saved = grant.saved
    let account = saved.account.rawValue
    let lost = accounts.lostScopes(of: grant)
    guard lost.isEmpty else {
      return .init(
        name: .granted_scopes, account: account, result: .warning,
        message: "\(lost.joined(separator: " ")) was lost at a refresh",
        hint:
          "Set refresh_scope = true in \(provider.section), or sign in again: `grantctl login \(saved.provider) "
          + "\(account)`.")
    }
    if saved.kind.isUnattended { return declaredScopes(of: saved, provider) }
    // Providers rarely list these two among the granted scopes.
    let wanted = provider.tokenTraits.scopes.filter { $0 != "openid" && $0 != "offline_access" }
    let missing = wanted.filter { !provider.isGranted($0, in: saved.grantedScopes) }
    guard !missing.isEmpty else {
      return .init(name: .granted_scopes, account: account, result: .ok, message: "all that is configured")
    }
    let wasAsked = missing.allSatisfy(saved.requestedScopes.contains)
    let list = missing.joined(separator: " ")
    return .init(
      name: .granted_scopes, account: account, result: .warning,
      message: wasAsked ? "\(list) was asked for and not granted" : "\(list) is configured, and was not asked for then",
      hint: "If programs need it: `grantctl login \(saved.provider) \(account)`"
        + (wasAsked ? ", and allow it there." : "."))
  }

  /// A declared account is compared with its own section, since no user signs in to it.
  private func declaredScopes(of saved: SavedGrant, _ provider: any Provider) -> ProviderCheck.Check {
    let account = saved.account.rawValue
    let missing = saved.requestedScopes.filter { !provider.isGranted($0, in: saved.grantedScopes) }
    guard !missing.isEmpty, !saved.grantedScopes.isEmpty else {
      return .init(name: .granted_scopes, account: account, result: .ok, message: "all that is configured")
    }
    return .init(
      name: .granted_scopes, account: account, result: .warning,
      message: "\(missing.joined(separator: " ")) was requested and not granted",
      hint: "Allow it for this client at the provider, or remove it from `scopes` in [account.\(account)].")
  }

  private func refreshToken(of grant: Grant, _ provider: any Provider) -> ProviderCheck.Check {
    let saved = grant.saved
    let account = saved.account.rawValue
    func check(_ result: CheckResult, _ message: String, _ hint: String? = nil) -> ProviderCheck.Check {
      .init(name: .refresh_token, account: account, result: result, message: message, hint: hint)
    }
    if case .loginRequired = saved.standing, !grant.awaitsSecondTry {
      return check(.failed, "the grant has ended", accounts.loginHint(saved))
    }
    if saved.kind.isUnattended {
      return check(.ok, "needs none: it is issued without a login (\(saved.kind.rawValue))")
    }
    guard saved.refreshToken != nil else {
      let end = grant.token?.expiresAt.map { " in \(($0 - now).words)" } ?? ""
      guard provider.refreshTraits.isSupported else {
        return check(
          .ok, "kind \(provider.description.kind) has none: a new login is needed when the session ends\(end)")
      }
      return check(
        .warning, "there is none: a new login is needed when the access token ends\(end)",
        "Does the provider want offline_access or a prompt for one? See scopes above; then sign in again with "
          + "`grantctl login \(saved.provider) \(account)`.")
    }
    let age = saved.refreshTokenIssuedAt.map { "\((now - $0).words) old" } ?? "of unknown age"
    guard let end = accounts.refreshTokenEnd(of: grant) else { return check(.ok, "\(age); no end of it is known") }
    let source = end.isLearned ? ", as earlier ones did" : ""
    guard end.at > now else {
      return check(end.isLearned ? .warning : .failed, "\(age); its time is over\(source)", accounts.loginHint(saved))
    }
    let text = "\(age); ends in \((end.at - now).words)\(source)"
    guard accounts.endsSoon(grant) else { return check(.ok, text) }
    return check(.warning, text, "Before that: `grantctl login \(saved.provider) \(account)`.")
  }
}
