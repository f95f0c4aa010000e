import BrokerAPI
import Grants
import Logging
import OAuth

// What of the accounts is on disk, and how it gets there.
extension Accounts {
  /// Opens each account's secrets once in the background, so that damage is reported before a program asks.
  func verify() async {
    var page = names.after(nil, most: Batch.light)
    while let last = page.last {
      let packed = page.compactMap { table.packed($0) }
      for account in await Self.unreadable(packed) { _ = table[account] }
      await system.sleep(Limit.verificationPause)
      guard !isStopped else { return }
      page = names.after(last, most: Batch.light)
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
  /// - Parameters:
  ///   - leased: the account's lease, if this broker has it.
  ///   - replacing: as of ``follow(_:replacing:)``, after a conflict.
  /// - Returns: false after a conflict: memory follows the disk.
  @discardableResult
  func saveStanding(
    of account: AccountName, _ what: String, leased: [Expectation]? = nil, replacing: Bool = false
  ) async -> Bool {
    await journal.lock(account)
    defer { journal.unlock(account) }
    // The stored row of an unreadable account may be its only copy.
    guard let grant = table[account], !grant.isUnreadable else { return true }
    var changes = [Change.putGrant(grant.saved)] + intentChange(grant, isLeased: leased != nil)
    // A restart must not release a token again that a resource server refused.
    if grant.isTokenRejected { changes.append(.removeToken(account, SavedToken.Key())) }
    do throws(StoreError) {
      try await journal.commitOrKeep(changes, of: account, leased: leased ?? [])
    } catch {
      guard error != .conflict else {
        if replacing { await follow(account, replacing: true) }
        return false
      }
      logger.warning("not saved yet: \(what)", metadata: ["account": "\(account)"])
    }
    return true
  }

  /// The changes that put all of the account on disk; nil: there is no such account.
  func changes(of account: AccountName) -> [Change]? {
    guard let grant = table[account], !grant.isUnreadable else { return nil }
    var changes = [Change.putGrant(grant.saved), .removeTokens(account)]
    changes += grant.livingTokens.map { .putToken($0) }
    // The row may be another copy's.
    if let issuer = journal.known.issuers[account] { changes.append(.putIssuer(account, issuer)) }
    return changes + intentChange(grant, isLeased: false)
  }

  /// Without the account's lease, an intent on disk may be another broker's.
  private func intentChange(_ grant: Grant, isLeased: Bool) -> [Change] {
    guard isLeased || !journal.isShared else { return [] }
    return [grant.intent.map { .putIntent($0) } ?? .removeIntent(grant.saved.account)]
  }

  /// Accounts whose renewals are being saved, in their new state.
  func uncommitted() -> [any PackedAccount] {
    table.whole.compactMap { grant in
      guard case .committing(let attempt, _) = grant.phase else { return nil }
      var renewed = grant
      guard renewed.committed(attempt, jitter: 0) else { return nil }
      return journal.store.pack(
        StoredAccount(grant: renewed.saved, tokens: renewed.livingTokens, intent: renewed.intent))
    }
  }

  /// What should be on disk of all accounts.
  func packed() async -> [any PackedAccount] {
    var all: [any PackedAccount] = []
    all.reserveCapacity(count)
    var batch = Batch(of: Batch.light)
    for account in names {
      if let packed = table.packed(account) { all.append(packed) }
      await batch.next()
    }
    return all
  }

  /// The store has a new key: no data in memory are kept under the old one.
  func repack() { sweep(names, by: Batch.heavy) { [self] in table.repack($0) } }
}
