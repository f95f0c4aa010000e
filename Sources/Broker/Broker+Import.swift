import BrokerAPI
import Grants
import Logging
import OAuth

extension Broker {
  /// `account.import`: a refresh token from elsewhere. It is on disk before it is used, since its use may rotate it; and
  /// it is used at once, since nobody knows what it is worth.
  func importAccount(_ params: AccountImport.Params) async throws(RPCError) -> AccountView {
    guard !isDraining else { throw shuttingDown() }
    let name = try providerName(params.provider)
    guard let provider = providers[name]?.provider else { throw unknownProvider(params.provider) }
    let account = try accountName(params.account)
    let text = params.refresh_token.exposed
    guard !text.isEmpty, text.utf8.count <= Limit.refreshToken, text.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F })
    else { throw .invalidParams("params.refresh_token: expected one word of at most \(Limit.refreshToken) bytes") }
    if let resource = params.resource, !ResourceIndicator.isValid(resource) {
      throw .invalidParams("params.resource: expected an absolute URI without a fragment (RFC 8707 §2)")
    }
    guard provider.about.speaksOAuth else {
      throw RPCError(
        .unsupportedByProvider, "provider \(name) is of kind \(provider.about.kind), which has no refresh tokens",
        hint: "Sign in instead: `grantctl login \(name) \(account)`.")
    }
    guard !provider.about.usesDPoP else {
      throw RPCError(
        .unsupportedByProvider, "provider \(name) binds refresh tokens to a key, which an import does not have",
        hint: "Sign in instead: `grantctl login \(name) \(account)`.")
    }
    let isNew = grants[account] == nil
    try await adopt(Secret(text), account, provider, params)
    do throws(RPCError) {
      _ = try await token(of: account, SavedToken.Key(), minimumTTL: nil, until: uptime + Timeouts.standard)
    } catch {
      // One that never worked leaves nothing behind; one that may still work is kept and tried again.
      if error.reason == .loginRequired, isNew {
        _ = try? await forget(account, revoke: false)
        changed(account)
      }
      throw error
    }
    guard let grant = grants[account] else { throw unknownAccount(params.account) }
    return view(grant)
  }

  private func adopt(
    _ token: Secret, _ account: AccountName, _ provider: any Provider, _ params: AccountImport.Params
  ) async throws(RPCError) {
    await takeTurn(account)
    defer { leaveTurn(account) }
    if let old = grants[account] {
      guard !old.saved.kind.needsNobody else {
        throw .invalidParams(
          "account \(account) is declared in the configuration",
          hint: "Choose another name, or remove [account.\(account)] from the configuration.")
      }
      // What works is not thrown away for what nobody has tried.
      guard case .loginRequired = old.saved.standing, old.saved.provider == provider.name else {
        throw .invalidParams(
          "account \(account) is there already", hint: "Choose another name, or `grantctl logout \(account)` first.")
      }
    }
    guard grants[account] != nil || grants.count < Limit.accounts else {
      throw RPCError(.overloaded, "there are \(Limit.accounts) accounts already")
    }
    let scopes = params.scopes ?? provider.about.scopes
    let before = grants[account]?.saved
    let saved = SavedGrant(
      account: account, provider: provider.name, identity: nil, requestedScopes: scopes, grantedScopes: scopes,
      resource: params.resource ?? provider.about.resource, refreshToken: token,
      generation: before?.generation ?? 0, createdAt: before?.createdAt ?? now, loggedInAt: now, kind: .imported)
    do throws(StoreError) {
      try await commit([.putGrant(saved), .removeTokens(account), .removeIntent(account)])
    } catch {
      throw storeError(error)
    }
    var grant = Grant(saved: saved, token: nil, jitter: surroundings.jitter())
    grant.isOfThisRun()
    grants[account] = grant
    changed(account)
    logger.notice(
      "imported \(account)", metadata: ["account": "\(account)", "provider": "\(provider.name)"])
  }
}
