import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth

// The tokens of a login become an account's.
extension Logins {
  /// The end of one attempt to save the tokens of a login.
  enum Adoption {
    case adopted
    /// The tokens are not wanted, and are being revoked.
    case refused(RPCError)
    /// The disk did not take them: nothing has changed.
    case unsaved(StoreError)
  }

  /// Makes the tokens of a login the account's, on disk with the end of the login.
  ///
  /// - Parameters:
  ///   - tries: commits before the result is `unsaved`.
  ///   - inMemory: if the last one fails, the account is the one in memory, which is saved later, as a renewal is.
  func adopt(
    _ issued: Issued, _ login: SavedLogin, _ provider: any Provider, sentAt: Duration, kind: GrantKind, tries: Int = 5,
    inMemory: Bool = false
  ) async -> Adoption {
    if newRefreshToken(issued) == nil, let error = await refreshEnds(login.account) { return .refused(error) }
    await journal.lock(login.account)
    defer { journal.unlock(login.account) }
    var adoption = await adoptLocked(
      issued, login, provider, sentAt: sentAt, kind: kind, tries: tries, inMemory: inMemory)
    // Another broker changed the account: it is decided again.
    for _ in 1..<Limit.conflicts {
      guard case .unsaved(.conflict) = adoption else { break }
      await accounts.follow(login.account, replacing: true)
      adoption = await adoptLocked(
        issued, login, provider, sentAt: sentAt, kind: kind, tries: tries, inMemory: inMemory)
    }
    return adoption
  }

  private func adoptLocked(
    _ issued: Issued, _ login: SavedLogin, _ provider: any Provider, sentAt: Duration, kind: GrantKind, tries: Int,
    inMemory: Bool
  ) async -> Adoption {
    let before = accounts[login.account]
    // A reload may have declared it since the login began.
    if before?.saved.kind.isUnattended == true {
      await revokeUnlessShared(issued, login, provider, sentAt: sentAt, kind: kind)
      return .refused(
        RPCError(
          .loginDenied, "account \(login.account) is declared in the configuration",
          hint: "Choose another account name, or remove [account.\(login.account)] from the configuration."))
    }
    if let old = before?.saved, old.provider != SavedGrant.unreadableProvider,
      old.provider != login.provider || provider.tokenTraits.isAnotherPerson(issued.identity, than: old.identity)
    {
      await revokeUnlessShared(issued, login, provider, sentAt: sentAt, kind: kind)
      let signedIn = issued.identity.map { $0.email ?? $0.username ?? $0.subject } ?? "another person"
      let expected = old.identity.map { $0.email ?? $0.username ?? $0.subject } ?? old.provider.rawValue
      return .refused(
        RPCError(
          .loginDenied, "account \(login.account) belongs to \(expected), but \(signedIn) signed in",
          hint: "Sign in as \(expected), choose another account name, or `grantctl logout \(login.account)` first."))
    }
    var saved = grant(issued, login, provider.refreshTraits, before: before?.saved, sentAt: sentAt, kind: kind)
    var token = SavedToken(issued.tokens, grant: saved, issuedAt: wall(sentAt))
    let boot = wall(.zero)
    let replaced: [PendingRevocation]
    do throws(StoreError) {
      replaced = try await commit(saved, token, of: login, provider, tries: tries)
    } catch {
      guard inMemory, error != .conflict else { return .unsaved(error) }
      if newRefreshToken(issued) != nil { journal.replaces(login.account) }
      journal.keep(login.account)
      replaced = []
    }
    moveWithClock(&saved, &token, stampedWith: boot, before: before?.saved)
    // A refresh that was answered while the login was on its way to the disk.
    let late = replacedTokens(of: accounts[login.account], by: saved, provider).filter { late in
      !replaced.contains { $0.token == late.token }
    }
    revocations.takeOver(late)
    let jitter = system.jitter()
    if accounts[login.account] != nil {
      accounts[login.account]?.replaced(by: saved, token: token, jitter: jitter)
    } else {
      var grant = Grant(saved: saved, token: token, jitter: jitter)
      grant.isOfThisRun()
      accounts[login.account] = grant
    }
    providers[login.provider]?.works(isRefresh: false)
    providers[login.provider]?.passedOver(issued.tokens.oddities)
    if token.expiresAt == nil, saved.refreshToken != nil {
      providers[login.provider]?.passedOver([TokenResponse.unknownLifetime])
    }
    providers[login.provider]?.diagnostics.omitsScope = issued.tokens.scope == nil
    // It answered: whatever waits for it need not wait.
    providers[login.provider]?.gate.recheck(at: uptime)
    accounts.changed(login.account)
    logger.notice(
      "signed in \(login.account)", metadata: ["account": "\(login.account)", "provider": "\(login.provider)"])
    if !late.isEmpty { await journal.commitOrWarn(late.map { .putRevocation($0) }, "a token to revoke") }
    return .adopted
  }

  /// The clock may have been set during the commit.
  ///
  /// - Parameter boot: the boot time according to the earlier clock.
  private func moveWithClock(
    _ saved: inout SavedGrant, _ token: inout SavedToken, stampedWith boot: Timestamp, before: SavedGrant?
  ) {
    let step = wall(.zero) - boot
    guard step > Limit.clockStep || step < .zero - Limit.clockStep else { return }
    var grant = Grant(saved: saved, token: token, jitter: 0)
    // A refresh token that stays was stamped before, perhaps by another run.
    grant.isOfThisRun(refreshToken: saved.refreshToken != before?.refreshToken)
    _ = grant.clockStepped(by: step)
    saved = grant.saved
    token = grant.token ?? token
    // Clocks of machines that share a store differ.
    guard !journal.isShared else { return }
    journal.keep(saved.account)
    journal.saveSoon()
  }

  /// Commits the grant, its token and the end of the login in one transaction, with the revocations of the replaced
  /// grant; tries again for a while.
  private func commit(
    _ saved: SavedGrant, _ token: SavedToken, of login: SavedLogin, _ provider: any Provider, tries: Int
  ) async throws(StoreError) -> [PendingRevocation] {
    await written(login.id)
    // Those that other brokers added are removed with it too: one of them could end the new grant.
    await revocations.follow()
    let obsolete = revocations.obsolete(for: saved)
    // A code is marked as used earlier, and so are all other callback data in a shared store.
    let unspent: [Expectation] = saved.kind == .deviceCode ? [.login(login.id)] : []
    revocations.discard(obsolete)
    var attempt = 1
    while true {
      let before = accounts[login.account]
      let replaced = replacedTokens(of: before, by: saved, provider)
      var changes = [Change.putGrant(saved), .removeTokens(login.account), .putToken(token)]
      changes += journal.issuerChange(login.account, provider)
      if saved.refreshToken != before?.saved.refreshToken { changes.append(.removeIntent(login.account)) }
      // With the refresh token of memory, which may be spent, it replaces no row that cannot be read.
      let isNew = saved.refreshToken != before?.saved.refreshToken || saved.refreshToken == nil
      changes += obsolete.map { .removeRevocation($0.id) } + replaced.map { .putRevocation($0) }
      do throws(StoreError) {
        try await removeFromDisk(
          login.id, with: changes,
          expecting: journal.expectations(login.account, replacing: isNew) + unspent)
        revocations.takeOver(replaced)
        return replaced
      } catch {
        guard attempt < tries, error != .conflict else {
          revocations.takeOver(obsolete)
          throw error
        }
        attempt += 1
        await system.sleep(.seconds(1))
      }
    }
  }

  /// Absent or empty: the account's own refresh token is kept, as with a refresh (RFC 6749 §6).
  private func newRefreshToken(_ issued: Issued) -> Secret? {
    issued.tokens.refreshToken.flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Waits until no refresh of the account is running: if a login returns no refresh token, a rotation must not be
  /// overwritten by the old refresh token, which it invalidates. A later refresh sends nothing before it has the
  /// account's lock. An error if it does not end in time.
  ///
  /// The refused token is only an access token, which expires. It is not revoked: that may end the grant of the running
  /// refresh (RFC 7009 §2.1).
  private func refreshEnds(_ account: AccountName) async -> RPCError? {
    let deadline = uptime + Timeouts.maximum
    while let grant = accounts[account], grant.phase != .idle {
      guard !isStopped else { return shuttingDown() }
      guard uptime < deadline else {
        return RPCError(
          .temporarilyUnavailable,
          "account \(account) is being refreshed, and the login brought no refresh token to go on with",
          hint: "Sign in again when its provider has answered: `grantctl show \(account)` tells.", retryAfter: 30)
      }
      await wait(for: .account(account), until: deadline)
    }
    return nil
  }

  /// The refresh tokens that a login replaces, to be revoked, since they stay valid at the provider. An unsaved renewal
  /// has its own one.
  private func replacedTokens(
    of before: Grant?, by saved: SavedGrant, _ provider: any Provider
  ) -> [PendingRevocation] {
    guard let before, provider.revocationTraits.endsReplaced else { return [] }
    var tokens = Set([before.saved.refreshToken].compactMap(\.self))
    if case .committing(_, let renewal) = before.phase, let token = renewal.grant.refreshToken { tokens.insert(token) }
    if let kept = saved.refreshToken { tokens.remove(kept) }
    let context = provider.revocationContext(of: before.saved, reach: nil)
    return tokens.prefix(max(0, Limit.revocations - revocations.count)).map { token in
      var revocation = revocations.new(
        token, "refresh_token", context, provider: saved.provider, issuer: revocations.issuer(of: token, before))
      revocation.retryAt = now
      return revocation
    }
  }

  /// The tokens no longer belong to an account.
  func revokeUnlessShared(
    _ issued: Issued, _ login: SavedLogin, _ provider: any Provider, sentAt: Duration, kind: GrantKind
  ) async {
    guard !isShared(issued, login) else { return }
    let own = grant(issued, login, provider.refreshTraits, before: nil, sentAt: sentAt, kind: kind)
    let refresh = newRefreshToken(issued).map { [(token: $0, hint: "refresh_token")] } ?? []
    await revocations.queue(
      refresh + [(issued.tokens.accessToken, provider.tokenTraits.credential.hint)],
      revocations.context(of: own), provider: login.provider, issuer: TokenIssuer(provider))
  }

  /// Whether a revocation could end another wanted grant: some providers end the user's whole consent for this client,
  /// not only the one token.
  private func isShared(_ issued: Issued, _ login: SavedLogin) -> Bool {
    accounts.mayHaveAccount(issued.identity?.subject, at: login.provider)
  }

  private func grant(
    _ issued: Issued, _ login: SavedLogin, _ traits: RefreshTraits, before: SavedGrant?, sentAt: Duration,
    kind: GrantKind
  ) -> SavedGrant {
    let tokens = issued.tokens
    let sentAt = wall(sentAt)
    // A provider may give a refresh token with the first consent only; the old one is then still good.
    let new = newRefreshToken(issued)
    // An imported one may be another user's.
    let refreshToken = new ?? (before?.kind == .unprovenImport ? nil : before?.refreshToken)
    let lifetime = new == nil ? nil : tokens.refreshTokenExpiresIn ?? traits.lifetime
    return SavedGrant(
      account: login.account, provider: login.provider, identity: issued.identity ?? before?.identity,
      requestedScopes: login.scopes, grantedScopes: tokens.scope ?? login.scopes, resource: login.resource,
      audience: login.audience, refreshToken: refreshToken,
      refreshTokenExpiresAt: lifetime.map { sentAt + $0 }
        ?? (new == nil ? before?.refreshTokenExpiresAt : nil),
      refreshTokenIssuedAt: refreshToken == before?.refreshToken ? before?.refreshTokenIssuedAt : sentAt,
      idToken: issued.idToken, generation: (before?.generation ?? 0) + 1,
      createdAt: before?.createdAt ?? now, loggedInAt: now, extra: tokens.extra.isEmpty ? nil : tokens.extra,
      kind: kind, dpopKey: login.dpopKey)
  }
}
