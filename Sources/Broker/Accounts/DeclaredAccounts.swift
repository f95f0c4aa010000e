import BrokerAPI
import Grants
import Logging
import OAuth

/// Accounts that the configuration declares: there from the start, and gone when it no longer names them. Nobody signs in
/// to them, so nothing is lost.
@BrokerActor
final class DeclaredAccounts: Piece {
  let runtime: Runtime
  private let accounts: Accounts
  private let providers: ProviderDirectory
  private let journal: Journal
  private let revocations: Revocations

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, revocations: Revocations
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.journal = journal
    self.revocations = revocations
  }

  /// Makes the declared accounts these. After a start and after each reload.
  func take(_ all: [DeclaredAccount]) async {
    let declared = Dictionary(all.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    for account in accounts.declaredNames where declared[account] == nil { await drop(account) }
    for account in all { await take(account) }
    wakeScheduler()
  }

  private func take(_ account: DeclaredAccount) async {
    await journal.lock(account.name)
    defer { journal.unlock(account.name) }
    let scopes = account.scopes ?? providers[account.provider]?.provider.tokenTraits.scopes ?? []
    let resource = account.resource ?? providers[account.provider]?.provider.tokenTraits.resource
    let fingerprint = account.source.fingerprint
    if let saved = accounts[account.name]?.saved {
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
        && saved.resource == resource && saved.sourceFingerprint ?? fingerprint == fingerprint
      if isSame {
        accounts.sources[account.name] = account.source
        if accounts[account.name]?.recordSource(fingerprint) == true, let saved = accounts[account.name]?.saved {
          try? await journal.commitOrKeep([.putGrant(saved)], of: account.name, onDisk: saved.generation)
        }
        return
      }
    }
    accounts.sources[account.name] = account.source
    let before = accounts[account.name]?.saved.generation
    let saved = SavedGrant(
      account: account.name, provider: account.provider, identity: nil, requestedScopes: scopes,
      grantedScopes: scopes, resource: resource, refreshToken: nil,
      generation: before ?? 0, createdAt: now, loggedInAt: now,
      kind: account.source.kind, dpopKey: declaredKey(account.provider),
      sourceFingerprint: fingerprint)
    accounts[account.name] = Grant(saved: saved, token: nil, jitter: surroundings.jitter())
    try? await journal.commitOrKeep(
      [.putGrant(saved), .removeTokens(account.name), .removeIntent(account.name)], of: account.name, onDisk: before)
    accounts.changed(account.name)
  }

  private func declaredKey(_ provider: ProviderName) -> Secret? {
    guard providers[provider]?.provider.tokenTraits.binding.usesDPoP == true else { return nil }
    return DPoPKey(randomBytes: surroundings.randomBytes(32)).raw
  }

  private func drop(_ account: AccountName) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    guard let grant = accounts[account], grant.saved.kind.needsNobody else { return }
    accounts[account] = nil
    accounts.sources[account] = nil
    accounts.changed(account)
    let living = grant.livingTokens.filter { $0.expiresAt.map { $0 > now } ?? true }
    let dead = revocations.add(living.map { ($0.accessToken, "access_token") }, provider: grant.saved.provider)
    await journal.commitOrWarn(
      [.removeGrant(account)] + dead.map { .putRevocation($0) }, "the end of a declared account")
    wakeScheduler()
    logger.notice("forgot \(account): it is no longer declared", metadata: ["account": "\(account)"])
    emit(
      Event(
        type: .accountRemoved, at: now.seconds, account: account.rawValue, provider: grant.saved.provider.rawValue))
  }
}
