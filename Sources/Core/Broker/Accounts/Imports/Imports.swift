import BrokerAPI
import Grants
import Logging
import OAuth
import Principals

/// `account.import`.
@BrokerActor
final class Imports: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  private let journal: Journal
  private let engine: RefreshEngine
  private let logouts: Logouts
  private let authorizer: Authorizer
  private let proofs: ImportProofs

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, engine: RefreshEngine,
    logouts: Logouts, authorizer: Authorizer, proofs: ImportProofs
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.journal = journal
    self.engine = engine
    self.logouts = logouts
    self.authorizer = authorizer
    self.proofs = proofs
  }

  /// `account.import`: a refresh token from another program. It is on disk before its first use, since that may rotate
  /// it; it is used at once to verify it.
  func importAccount(
    _ account: AccountName, _ params: AccountImport.Params, for caller: Principal
  ) async throws(RPCError) -> AccountView {
    guard !isDraining else { throw shuttingDown() }
    let name = try providerName(params.provider)
    guard let provider = providers[name]?.provider else { throw providers.unknown(params.provider) }
    let text = params.refresh_token.exposed
    guard !text.isEmpty, text.utf8.count <= Limit.refreshToken, text.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F })
    else {
      throw .invalidParams("params.refresh_token: expected text without spaces of at most \(Limit.refreshToken) bytes")
    }
    if let resource = params.resource, !ResourceIndicator.isValid(resource) {
      throw .invalidParams("params.resource: expected an absolute URI without a fragment (RFC 8707 §2)")
    }
    guard provider.refreshTraits.isSupported else {
      throw RPCError(
        .unsupportedByProvider, "provider \(name) is of kind \(provider.description.kind), which has no refresh tokens",
        hint: "Sign in instead: `grantctl login \(name) \(account)`.")
    }
    guard !provider.tokenTraits.binding.usesDPoP else {
      throw RPCError(
        .unsupportedByProvider, "provider \(name) binds refresh tokens to a key, which an import does not have",
        hint: "Sign in instead: `grantctl login \(name) \(account)`.")
    }
    if params.replace_identity == true,
      !authorizer.policy.allows(.manage, method: AccountImport.name, account: params.account, caller: caller)
    {
      throw RPCError(
        .notPermitted, "replace_identity gives the account to another user, which requires `manage` access",
        hint: "An admin can add a [[rule]] with access = [\"manage\"], or import the token as root.")
    }
    let token = Secret(text)
    let isNew = try await adopt(token, account, provider, params)
    if params.replace_identity == true, accounts[account]?.isUnproven == true {
      accounts[account]?.identityReplaced()
      await accounts.saveStanding(of: account, "that an import may belong to another user")
    }
    do throws(RPCError) {
      _ = try await engine.token(
        of: account, SavedToken.Key(), minimumTTL: nil, for: TokenRequester(caller), until: uptime + Timeouts.standard)
    } catch {
      // One that never worked leaves nothing behind; one that may still work is kept and tried again.
      if error.reason == .loginRequired, isNew {
        // A login may have adopted the account since.
        _ = try? await logouts.remove(account, revoke: false, replacing: false) { grant in
          guard case .loginRequired = grant.saved.standing else { return false }
          return grant.saved.kind == .imported && grant.saved.refreshToken == token
        }
        accounts.changed(account)
        throw refused(error, account, provider)
      }
      if let grant = accounts[account], grant.isUnproven, error.detail == LoginReason.identityChanged.rawValue,
        case .loginRequired(_, let failure) = grant.saved.standing
      {
        throw proofs.refusal(grant, failure)
      }
      throw error
    }
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    return accounts.view(grant)
  }

  /// The token never worked, so there was no grant that could have ended.
  private func refused(_ error: RPCError, _ account: AccountName, _ provider: any Provider) -> RPCError {
    guard error.detail == LoginReason.refused.rawValue else { return error }
    let said = error.oauth.map { ": \($0.error_description ?? $0.error)" } ?? ""
    return RPCError(
      .loginRequired, "provider \(provider.name) does not take the refresh token for account \(account)\(said)",
      hint: "It has expired, was replaced, or is of another client: import the current one, or sign in with "
        + "`grantctl login \(provider.name) \(account)`.",
      oauth: error.oauth, detail: error.detail)
  }

  /// Makes the account's grant of the token. A token that was imported before is not used again: the refresh token that
  /// replaced it may be the only one.
  ///
  /// - Returns: whether the account is new.
  private func adopt(
    _ token: Secret, _ account: AccountName, _ provider: any Provider, _ params: AccountImport.Params
  ) async throws(RPCError) -> Bool {
    await journal.lock(account)
    defer { journal.unlock(account) }
    // The import was meant for the server that was configured when it began.
    guard providers.issuer(of: provider.name) == TokenIssuer(provider) else { throw providerChanged(provider.name) }
    if let old = accounts[account] {
      guard !old.saved.kind.isUnattended else {
        throw .invalidParams(
          "account \(account) is declared in the configuration",
          hint: "Choose another name, or remove [account.\(account)] from the configuration.")
      }
      // A grant that works is not replaced by an untried one. A refused refresh token that is tried once more may work.
      let isEnded = if case .loginRequired = old.saved.standing { !old.isSecondTrySoon } else { false }
      guard isEnded || old.isUnproven, old.saved.provider == provider.name else {
        throw .invalidParams(
          "account \(account) already exists", hint: "Choose another name, or `grantctl logout \(account)` first.")
      }
      if old.isUnproven, !isEnded {
        let isSame = old.saved.sourceFingerprint == token.fingerprint
        guard old.phase == .idle || isSame && params.replace_identity != true else {
          throw RPCError(
            .temporarilyUnavailable, "an import of account \(account) is under way",
            hint: "Import again in a moment.", retryAfter: 5)
        }
        if isSame {
          proofs.askAgain(account)
          return false
        }
      }
    }
    guard accounts[account] != nil || accounts.count < Limit.accounts else {
      throw RPCError(.overloaded, "there are \(Limit.accounts) accounts already")
    }
    let scopes = params.scopes ?? provider.tokenTraits.scopes
    let before = accounts[account]?.saved
    let person = params.replace_identity == true ? nil : before?.identity
    let saved = SavedGrant(
      account: account, provider: provider.name, identity: person, requestedScopes: scopes, grantedScopes: scopes,
      resource: params.resource ?? provider.tokenTraits.resource, refreshToken: token,
      generation: before?.generation ?? 0, createdAt: before?.createdAt ?? now, loggedInAt: now,
      kind: person == nil ? .imported : .unprovenImport, sourceFingerprint: token.fingerprint)
    do throws(StoreError) {
      try await journal.commit(
        [.putGrant(saved), .removeTokens(account), .removeIntent(account)]
          + journal.issuerChange(account, provider),
        expecting: journal.expectations(account, replacing: true))
    } catch {
      if error == .conflict { await accounts.follow(account, replacing: true) }
      throw storeError(error)
    }
    var grant = Grant(saved: saved, token: nil, jitter: system.jitter())
    grant.isOfThisRun()
    accounts[account] = grant
    proofs.clear(account)
    accounts.changed(account)
    logger.notice(
      "imported \(account)", metadata: ["account": "\(account)", "provider": "\(provider.name)"])
    return before == nil
  }
}

extension AccountImport: RPCHandler {
  static var subject: Subject<Params, AccountName> { .account { $0.account } }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.upkeep.imports.importAccount(call.account, call.params, for: call.session.principal)
  }
}
