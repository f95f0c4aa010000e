import BrokerAPI
import Grants
import Logging
import OAuth

// What of the accounts is on disk, and how it gets there.
extension Accounts {
  /// Opens each account's secrets once, beside the broker, so that people learn of damage before a program does.
  func verify() async {
    var page = names.after(nil, most: Slices.light)
    while let last = page.last {
      let packed = page.compactMap { table.packed($0) }
      for account in await Self.unreadable(packed) { _ = table[account] }
      await surroundings.sleep(Limit.verificationPause)
      guard !isStopped else { return }
      page = names.after(last, most: Slices.light)
    }
  }

  @concurrent private nonisolated static func unreadable(_ accounts: [any PackedAccount]) async -> [AccountName] {
    accounts.filter { (try? $0.read(.whole)) == nil }.map(\.account)
  }

  /// Whether a refresh whose answer never reaches the disk could cost the grant.
  func canLose(_ saved: SavedGrant) -> Bool {
    !saved.kind.isUnattended && providers[saved.provider]?.provider.refreshTraits.rotation != Rotation.none
  }

  /// Why the account's refresh rests until the store works: its answer may hold a refresh token that cannot be had again.
  func holdsBack(_ grant: Grant) -> StoreError? { canLose(grant.saved) ? journal.failure : nil }

  /// Saves the grant as it is once it has the account's lock; nothing where it is gone by then.
  ///
  /// - Parameter leased: what the account's lease was given for, where this broker has it.
  func saveStanding(of account: AccountName, _ what: String, leased: [Expectation]? = nil) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    // What is on disk of one that cannot be read may be all that is left of it.
    guard let grant = table[account], !grant.isUnreadable else { return }
    var changes = [Change.putGrant(grant.saved)] + intentChange(grant, isLeased: leased != nil)
    // A restart must not hand out again what a resource server refused.
    if grant.isTokenRejected { changes.append(.removeToken(account, SavedToken.Key())) }
    do throws(StoreError) {
      try await journal.commitOrKeep(changes, of: account, onDisk: grant.saved.generation, expecting: leased)
    } catch {
      guard error != .conflict else { return }
      logger.warning("not saved yet: \(what)", metadata: ["account": "\(account)"])
    }
  }

  /// Another broker that shares the store changed the account: memory follows the disk.
  func changedElsewhere(_ account: AccountName) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    await follow(account)
  }

  /// With the account's lock. What this broker has under way for the account is discarded when its answer comes.
  ///
  /// - Parameter replacing: the caller is about to replace or to remove the grant, whatever the answer will be.
  func follow(_ account: AccountName, replacing: Bool = false) async {
    let stored: StoredAccount?
    do throws(StoreError) {
      stored = try await journal.store.read(account)
    } catch {
      return journal.failed(error)
    }
    guard let stored else {
      if contains(account) { self[account] = nil }
      return changed(account)
    }
    let own = table[account]
    // What is newer here goes to the disk as soon as that takes it, unless another broker wrote since.
    if own != nil, journal.expectedOnDisk(account) == .generation(account, stored.grant.generation) { return }
    // An older copy of a shared database was restored: its refresh token is spent.
    if let own, own.phase == .idle, !own.isUnreadable, own.saved.loggedInAt == stored.grant.loggedInAt,
      own.saved.generation > stored.grant.generation
    {
      journal.keep(account, onDisk: stored.grant.generation)
      return journal.saveSoon()
    }
    journal.isSaved(account)
    // Nobody else has rotated the token whose answer this broker waits for: there may be no other answer.
    if !replacing, let own, own.phase != .idle, own.saved.refreshToken == stored.grant.refreshToken { return }
    if own?.saved != stored.grant || own?.intent != stored.intent
      || own?.token != stored.tokens.first(where: { !$0.key.isNarrowed })
    {
      self[account] = Grant(stored, jitter: surroundings.jitter())
    }
    changed(account)
  }

  /// The changes that put all of the account on disk; nil: there is no such account.
  func changes(of account: AccountName) -> [Change]? {
    guard let grant = table[account], !grant.isUnreadable else { return nil }
    var changes = [Change.putGrant(grant.saved), .removeTokens(account)]
    changes += grant.livingTokens.map { .putToken($0) }
    return changes + intentChange(grant, isLeased: false)
  }

  /// Without the account's lease, an intent on disk may be another broker's.
  private func intentChange(_ grant: Grant, isLeased: Bool) -> [Change] {
    guard isLeased || !journal.isShared else { return [] }
    return [grant.intent.map { .putIntent($0) } ?? .removeIntent(grant.saved.account)]
  }

  /// Accounts whose renewals are on their way to the disk, as they are once they are there.
  func uncommitted() -> [any PackedAccount] {
    table.whole.compactMap { grant in
      guard case .committing(let attempt, _) = grant.phase else { return nil }
      var renewed = grant
      guard renewed.committed(attempt, jitter: 0) else { return nil }
      return journal.store.pack(
        StoredAccount(grant: renewed.saved, tokens: renewed.livingTokens, intent: renewed.intent))
    }
  }

  /// What should be on disk of the account.
  func packed(_ account: AccountName) -> (any PackedAccount)? { table.packed(account) }

  /// What should be on disk of all accounts.
  func packed() async -> [any PackedAccount] {
    var all: [any PackedAccount] = []
    all.reserveCapacity(count)
    var slices = Slices(of: Slices.light)
    for account in names {
      if let packed = table.packed(account) { all.append(packed) }
      await slices.next()
    }
    return all
  }

  /// The store's key is another: what is in memory is not kept under the one before.
  func repack() { sweep(names, by: Slices.heavy) { [self] in table.repack($0) } }
}
