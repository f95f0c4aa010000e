import BrokerAPI
import Grants
import Logging
import OAuth

// Accounts that the configuration declares: there from the start, and gone when it no longer names them. Nobody signs in
// to them, so nothing is lost.
extension Broker {
  /// Makes the accounts those of the configuration. After a start and after each reload.
  func takeDeclared() async {
    let declared = Dictionary(configuration.accounts.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    for (name, grant) in grants where grant.saved.kind.needsNobody && declared[name] == nil {
      await dropDeclared(name)
    }
    for account in configuration.accounts { await take(account) }
    nudge?.yield()
  }

  private func take(_ account: DeclaredAccount) async {
    await takeTurn(account.name)
    defer { leaveTurn(account.name) }
    let scopes = account.scopes ?? providers[account.provider]?.provider.about.scopes ?? []
    let resource = account.resource ?? providers[account.provider]?.provider.about.resource
    if let saved = grants[account.name]?.saved {
      guard saved.kind.needsNobody else {
        logger.warning(
          "[account.\(account.name)] is not in force: somebody signed in to an account of that name",
          metadata: [
            "account": "\(account.name)", "hint": "Rename it, or `grantctl logout \(account.name)`, then reload.",
          ])
        return
      }
      let isSame =
        saved.provider == account.provider && saved.kind == account.source.kind && saved.requestedScopes == scopes
        && saved.resource == resource && sources[account.name] ?? account.source == account.source
      sources[account.name] = account.source
      guard !isSame else { return }
    }
    sources[account.name] = account.source
    let saved = SavedGrant(
      account: account.name, provider: account.provider, identity: nil, requestedScopes: scopes,
      grantedScopes: scopes, resource: resource, refreshToken: nil,
      generation: grants[account.name]?.saved.generation ?? 0, createdAt: now, loggedInAt: now,
      kind: account.source.kind, dpopKey: declaredKey(account.provider))
    grants[account.name] = Grant(saved: saved, token: nil, jitter: surroundings.jitter())
    do throws(StoreError) {
      try await commit([.putGrant(saved), .removeTokens(account.name), .removeIntent(account.name)])
    } catch {
      unsaved.insert(account.name)
    }
    changed(account.name)
  }

  private func declaredKey(_ provider: ProviderName) -> Secret? {
    guard providers[provider]?.provider.about.usesDPoP == true else { return nil }
    return DPoPKey(randomBytes: surroundings.randomBytes(32)).raw
  }

  private func dropDeclared(_ account: AccountName) async {
    await takeTurn(account)
    defer { leaveTurn(account) }
    guard let grant = grants[account], grant.saved.kind.needsNobody else { return }
    grants[account] = nil
    sources[account] = nil
    changed(account)
    let living = grant.livingTokens.filter { $0.expiresAt.map { $0 > now } ?? true }
    let dead = living.prefix(max(0, Limit.revocations - revocations.count)).map {
      var revocation = pendingRevocation($0.accessToken, "access_token", provider: grant.saved.provider)
      revocation.retryAt = now
      return revocation
    }
    for revocation in dead { revocations[revocation.id] = revocation }
    await commitOrWarn([.removeGrant(account)] + dead.map { .putRevocation($0) }, "the end of a declared account")
    nudge?.yield()
    logger.notice("forgot \(account): it is no longer declared", metadata: ["account": "\(account)"])
    emit(
      Event(
        type: .accountRemoved, at: now.seconds, account: account.rawValue, provider: grant.saved.provider.rawValue))
  }

  /// What a refresh asks for where no refresh token is needed; a failure where it cannot be asked now.
  func issue(
    _ grant: SavedGrant, _ key: SavedToken.Key, line: ProviderLine, metadata: ServerMetadata
  ) async -> Result<Step<Issued>, ProviderFailure> {
    guard let source = sources[grant.account] else {
      return .failure(.misconfigured(message: "account \(grant.account) is not in the configuration", nil))
    }
    var subject: Secret?
    var actor: Secret?
    if case .exchange(let exchange) = source {
      do throws(RPCError) {
        subject = try await tokenToTrade(exchange.from, for: grant.account)
        if let account = exchange.actor { actor = try await tokenToTrade(account, for: grant.account) }
      } catch {
        return .failure(.blocked(message: error.message))
      }
    }
    return .success(
      line.provider.issue(source, to: grant, key: key, subject: subject, actor: actor, metadata: metadata))
  }

  func tokenToTrade(_ account: AccountName, for derived: AccountName) async throws(RPCError) -> Secret {
    guard grants[account]?.saved.kind != .tokenExchange, account != derived else {
      throw RPCError(.providerMisconfigured, "account \(account) is itself had by an exchange")
    }
    let (token, _) = try await token(
      of: account, SavedToken.Key(), minimumTTL: nil, until: uptime + Limit.subjectTokenWait)
    return token.accessToken
  }
}
