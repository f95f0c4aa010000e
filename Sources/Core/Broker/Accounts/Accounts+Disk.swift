import BrokerAPI
import Grants
import Logging
import OAuth

// What of the accounts is on disk, and how it gets there.
extension Accounts {
  /// Opens each account's secrets once in the background, so that damage is reported before a program asks.
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

  /// Another broker that shares the store changed the accounts: memory follows the disk.
  ///
  /// Many are read at once. An account that this broker wrote since is read again, alone.
  func changedElsewhere(_ names: Set<AccountName>) async {
    let sorted = names.sorted()
    for start in stride(from: 0, to: sorted.count, by: Limit.loadedAccounts) {
      let page = Array(sorted[start..<min(start + Limit.loadedAccounts, sorted.count)])
      let before = page.map { journal.revision(of: $0) }
      let (stored, unreadable): ([AccountName: StoredAccount], Set<AccountName>)
      do throws(StoreError) { (stored, unreadable) = try await read(page) } catch { return journal.failed(error) }
      for (account, revision) in zip(page, before) where !unreadable.contains(account) {
        await journal.lock(account)
        if journal.revision(of: account) == revision {
          follow(account, to: stored[account], replacing: false)
        } else {
          await follow(account)
        }
        journal.unlock(account)
      }
    }
  }

  /// A row that cannot be read concerns only its account: it is left out, and named.
  private func read(
    _ page: [AccountName]
  ) async throws(StoreError) -> (stored: [AccountName: StoredAccount], unreadable: Set<AccountName>) {
    var stored: [AccountName: StoredAccount] = [:]
    do throws(StoreError) {
      for account in try await journal.store.read(page) { stored[account.grant.account] = account }
      return (stored, [])
    } catch .unreadableAccount {
      // Each alone.
    } catch {
      throw error
    }
    var unreadable: Set<AccountName> = []
    for name in page {
      do throws(StoreError) {
        stored[name] = try await journal.store.read(name)
      } catch .unreadableAccount(let account, let detail) {
        unreadable.insert(name)
        reportUnreadable(account, detail)
      } catch {
        throw error
      }
    }
    return (stored, unreadable)
  }

  private func reportUnreadable(_ account: AccountName, _ detail: String) {
    // A start has reported an unreadable account.
    guard table[account].map({ !$0.isUnreadable }) ?? true else { return }
    let error = StoreError.unreadableAccount(account, detail: detail)
    logger.error("\(error.message)", metadata: ["account": "\(account)", "hint": "\(error.hint)"])
  }

  /// Requires the account's lock. The broker discards the answers of its running requests for the account.
  ///
  /// - Parameter replacing: the caller will replace or remove the grant, regardless of the answer.
  func follow(_ account: AccountName, replacing: Bool = false) async {
    let stored: StoredAccount?
    do throws(StoreError) {
      stored = try await journal.store.read(account)
    } catch .unreadableAccount(_, let detail) {
      return reportUnreadable(account, detail)
    } catch {
      return journal.failed(error)
    }
    follow(account, to: stored, replacing: replacing)
  }

  /// Why the account's row cannot be read; nil: it can, or the store fails.
  func damage(of account: AccountName) async -> StoreError? {
    do throws(StoreError) {
      _ = try await journal.store.read(account)
      return nil
    } catch {
      if case .unreadableAccount = error { return error }
      return nil
    }
  }

  private func follow(_ account: AccountName, to stored: StoredAccount?, replacing: Bool) {
    guard let stored else {
      if journal.store.isOtherCopy {
        // keep(over:) decides, unless the caller replaces or removes the grant: it has the lock until then.
        if replacing { journal.read(account, at: nil, of: nil) }
        return
      }
      journal.read(account, at: nil, of: nil)
      if contains(account) { self[account] = nil }
      return changed(account)
    }
    let own = table[account]
    // Newer state in memory is saved as soon as the disk accepts it, unless another broker wrote in the interim. A
    // rejection of the token is only in memory.
    if let own, journal.isUnsaved(account) || own.isTokenRejected, journal.revision(of: account) == stored.revision {
      return
    }
    // An older copy of a shared database was restored: its refresh token is spent, or it lacks a later login.
    if let own, !own.isUnreadable,
      Self.isOlder(stored.grant, than: own.saved)
        || journal.store.isOtherCopy && Self.isEarlier(stored.grant, than: own.saved)
    {
      // The request under way finds the conflict, and then memory is saved.
      guard own.phase == .idle || replacing else { return }
      journal.read(account, at: stored.revision, of: stored.issuer)
      journal.keep(account)
      return journal.saveSoon()
    }
    journal.isSaved(account)
    // No other broker has rotated the token whose answer is pending: that answer may be the only one.
    if !replacing, let own, own.phase != .idle, own.saved.refreshToken == stored.grant.refreshToken { return }
    journal.read(account, at: stored.revision, of: stored.issuer)
    if let issuer = stored.issuer { reportOtherClient(stored.grant, issuer) }
    if own?.saved != stored.grant || own?.intent != stored.intent
      || own?.token != stored.tokens.first(where: { !$0.key.isNarrowed })
    {
      var grant = Grant(stored, jitter: surroundings.jitter())
      if let own { grant.keepRejection(of: own) }
      self[account] = grant
    }
    changed(account)
  }

  /// The shared database is another copy, which may lack logins that memory has: they are kept, and written back. An
  /// account that the copy lacks and that it does not know as removed was created after the copy was made.
  ///
  /// - Throws: if a page cannot be read; the accounts before it are kept.
  func keep(over copy: AccountsOfCopy) async throws(StoreError) {
    defer { journal.saveSoon() }
    let all = Array(names)
    for start in stride(from: 0, to: all.count, by: Limit.loadedAccounts) {
      let page = Array(all[start..<min(start + Limit.loadedAccounts, all.count)])
      let (stored, unreadable) = try await read(page)
      for account in page where !unreadable.contains(account) {
        await journal.lock(account)
        keep(account, over: stored[account], copy)
        journal.unlock(account)
      }
    }
  }

  private func keep(_ account: AccountName, over stored: StoredAccount?, _ copy: AccountsOfCopy) {
    guard let own = table[account], !own.isUnreadable else { return }
    if let stored {
      guard Self.isEarlier(stored.grant, than: own.saved) else { return }
    } else if copy.isRemoved(account, loggedInAt: own.saved.loggedInAt) {
      // Removed by another machine. A request under way ends first, and its commit finds that.
      guard own.phase == .idle else { return }
      logger.notice(
        "account \(account) was removed at another machine after its latest login",
        metadata: ["account": "\(account)"])
      journal.read(account, at: nil, of: nil)
      self[account] = nil
      return changed(account)
    }
    journal.read(account, at: stored?.revision, of: stored?.issuer)
    journal.keep(account)
    logger.warning(
      "the database is a copy from before the latest login of \(account), which is written back",
      metadata: ["account": "\(account)"])
  }

  /// Whether the stored grant is of an earlier login, by the clocks of the machines.
  private static func isEarlier(_ stored: SavedGrant, than own: SavedGrant) -> Bool {
    stored.loggedInAt < own.loggedInAt
  }

  /// Whether the stored grant is an earlier state of the same login.
  static func isOlder(_ stored: SavedGrant, than own: SavedGrant) -> Bool {
    stored.loggedInAt == own.loggedInAt && stored.generation < own.generation
  }

  /// This machine has another server or client configured than the one that the account's tokens are of.
  func reportOtherClient(_ grant: SavedGrant, _ issuer: String) {
    guard let provider = providers[grant.provider]?.provider, issuer != TokenIssuer(provider).fingerprint
    else { return }
    logger.warning(
      "\(otherClient(grant))",
      metadata: [
        "account": "\(grant.account)",
        "hint": "Give provider \(grant.provider) the same issuer, address and client_id on all machines.",
      ])
  }

  func otherClient(_ saved: SavedGrant) -> String {
    "account \(saved.account) is of another server or client than provider \(saved.provider) on this machine, "
      + "so only other machines refresh it"
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

  /// The store has a new key: no data in memory are kept under the old one.
  func repack() { sweep(names, by: Slices.heavy) { [self] in table.repack($0) } }
}
