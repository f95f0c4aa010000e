import BrokerAPI
import Grants
import Logging
import OAuth

/// Accounts that the configuration declares: they exist from the start until the configuration no longer names them.
/// They have no sign-in, so their removal loses nothing.
@BrokerActor
final class DeclaredAccounts: Piece {
  let runtime: Runtime
  private let accounts: Accounts
  private let providers: ProviderDirectory
  private let journal: Journal
  private let revocations: Revocations
  private var definitions: [AccountName: DeclaredAccount] = [:]
  /// The accounts that the next configuration does not change, determined for the definitions with that number.
  private var unchanged: (number: Int, names: Set<AccountName>)?
  private var number = 0
  /// Accounts that are declared no more, and still on disk.
  private var dropped: [AccountName: Dropped] = [:]

  private struct Dropped {
    var provider: ProviderName
    var dead: [PendingRevocation]
  }

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, revocations: Revocations
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.journal = journal
    self.revocations = revocations
  }

  /// Called before ``configure(_:)`` with the same definitions, which must follow at once: finds the unchanged
  /// accounts.
  ///
  /// - Parameter providers: the new providers, with the defaults of accounts.
  func prepare(_ all: [DeclaredAccount], at providers: [any Provider]) async {
    let begun = number
    let traits = Dictionary(providers.map { ($0.name, $0.tokenTraits) }, uniquingKeysWith: { first, _ in first })
    var names: Set<AccountName> = []
    var batch = Batch(of: Batch.heavy)
    for account in all {
      await batch.next()
      guard let grant = accounts.peek(account.name), let traits = traits[account.provider],
        isSame(grant.saved, account, traits),
        grant.saved.sourceFingerprint != nil
      else { continue }
      names.insert(account.name)
    }
    unchanged = (begun, names)
  }

  /// Sets the declared accounts in memory before their policy becomes active: no token of another definition is
  /// released under it. ``apply()`` completes the change.
  func configure(_ all: [DeclaredAccount]) {
    definitions = Dictionary(all.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    let known = unchanged.map { $0.number == number ? $0.names : [] } ?? []
    (unchanged, number) = (nil, number + 1)
    for name in accounts.declaredNames where !known.contains(name) {
      // Only changed accounts are unpacked: the broker is blocked during this time.
      guard let grant = accounts.peek(name) ?? accounts[name] else { continue }
      guard let account = definitions[name] else {
        if let grant = accounts[name] { withdraw(grant) }
        continue
      }
      guard !isSame(grant.saved, account, traits(account)) else { continue }
      replace(account)
      journal.keep(name)
      accounts.changed(name)
    }
  }

  /// Puts on disk what ``configure(_:)`` changed, and adds the accounts that are new.
  func apply() async {
    await each(dropped.keys.sorted()) { await self.drop($0) }
    if journal.hasUnsaved { await journal.saveUnsaved() }
    await each(definitions.keys.sorted()) { await self.apply($0) }
    wakeScheduler()
  }

  private func each(
    _ names: [AccountName], _ work: @escaping @BrokerActor @Sendable (AccountName) async -> Void
  ) async {
    _ = await inGroups(names, of: Limit.savedAtOnce) { name in
      await work(name)
      return true
    }
  }

  private func apply(_ name: AccountName) async {
    await journal.lock(name)
    defer { journal.unlock(name) }
    // The definition of now: a later reload may have brought another.
    guard let account = definitions[name] else { return }
    if let saved = accounts[name]?.saved {
      guard saved.kind.isUnattended else {
        logger.warning(
          "[account.\(name)] is not in force: a login made an account of that name",
          metadata: [
            "account": "\(name)", "hint": "Rename it, or `grantctl logout \(name)`, then reload.",
          ])
        return
      }
      accounts.sources[name] = account.source
      if accounts[name]?.recordSource(account.source.fingerprint) == true, let saved = accounts[name]?.saved {
        try? await journal.commitOrKeep([.putGrant(saved)], of: name)
      }
      return
    }
    let saved = replace(account)
    try? await journal.commitOrKeep(
      [.putGrant(saved), .removeTokens(name), .removeIntent(name)], of: name)
    accounts.changed(name)
  }

  private func isSame(_ saved: SavedGrant, _ account: DeclaredAccount, _ traits: TokenTraits?) -> Bool {
    let fingerprint = account.source.fingerprint
    return saved.provider == account.provider && saved.kind == account.source.kind
      && saved.requestedScopes == account.scopes ?? traits?.scopes ?? []
      && saved.resource == resource(account, traits) && saved.audience == audience(account, traits)
      && saved.sourceFingerprint ?? fingerprint == fingerprint
  }

  private func resource(_ account: DeclaredAccount, _ traits: TokenTraits?) -> String? {
    (traits?.audienceParameter == .resource ? account.audience : nil) ?? account.resource ?? traits?.resource
  }

  private func audience(_ account: DeclaredAccount, _ traits: TokenTraits?) -> String? {
    guard traits?.audienceParameter == .audience, case .clientCredentials = account.source else { return nil }
    return account.audience ?? traits?.audience
  }

  private func traits(_ account: DeclaredAccount) -> TokenTraits? { providers[account.provider]?.provider.tokenTraits }

  /// Gives the account a grant of this definition, without a token.
  @discardableResult
  private func replace(_ account: DeclaredAccount) -> SavedGrant {
    let traits = traits(account)
    let scopes = account.scopes ?? traits?.scopes ?? []
    let saved = SavedGrant(
      account: account.name, provider: account.provider, identity: nil, requestedScopes: scopes,
      grantedScopes: scopes, resource: resource(account, traits), audience: audience(account, traits),
      refreshToken: nil,
      generation: accounts[account.name]?.saved.generation ?? 0, createdAt: now, loggedInAt: now,
      kind: account.source.kind, dpopKey: declaredKey(account.provider),
      sourceFingerprint: account.source.fingerprint)
    accounts.sources[account.name] = account.source
    accounts[account.name] = Grant(saved: saved, token: nil, jitter: system.jitter())
    return saved
  }

  private func declaredKey(_ provider: ProviderName) -> Secret? {
    guard providers[provider]?.provider.tokenTraits.binding.usesDPoP == true else { return nil }
    return DPoPKey(randomBytes: system.randomBytes(32)).raw
  }

  private func withdraw(_ grant: Grant) {
    let account = grant.saved.account
    accounts[account] = nil
    accounts.sources[account] = nil
    accounts.changed(account)
    let living = grant.livingTokens.filter { $0.expiresAt.map { $0 > now } ?? true }
    let name = grant.saved.provider
    // The same reload may have moved the provider.
    let dead = living.flatMap { token in
      revocations.add(
        [(token.accessToken, "access_token")], provider: name, issuer: providers.issuer(of: name, at: token.issuedAt))
    }
    dropped[account] = Dropped(provider: name, dead: dead)
  }

  private func drop(_ account: AccountName) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    guard let gone = dropped.removeValue(forKey: account) else { return }
    // Memory may have followed the disk, which still has it.
    if accounts[account]?.saved.kind.isUnattended == true, definitions[account] == nil { accounts[account] = nil }
    // A login or a later reload may have made another of that name.
    let removal = accounts[account] == nil ? [Change.removeGrant(account)] : []
    await journal.commitOrWarn(removal + gone.dead.map { .putRevocation($0) }, "the end of a declared account")
    wakeScheduler()
    logger.notice("forgot \(account): it is no longer declared", metadata: ["account": "\(account)"])
    emit(
      Event(type: .accountRemoved, at: now.seconds, account: account.rawValue, provider: gone.provider.rawValue))
  }
}
