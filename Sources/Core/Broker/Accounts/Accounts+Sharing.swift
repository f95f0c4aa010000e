import Grants
import Logging
import OAuth

// Other brokers share the store: memory follows their changes, and keeps accounts that another copy of the database lacks.
extension Accounts {
  /// Another broker that shares the store changed the accounts: memory follows the disk.
  ///
  /// Many are read at once. An account that this broker wrote since is read again, alone.
  func changedElsewhere(_ names: Set<AccountName>) async {
    let sorted = names.sorted()
    for start in stride(from: 0, to: sorted.count, by: Limit.loadedAccounts) {
      let page = Array(sorted[start..<min(start + Limit.loadedAccounts, sorted.count)])
      let before = page.map { journal.revision(of: $0) }
      let (stored, unreadable): ([AccountName: StoredAccount], Set<AccountName>)
      do throws(StoreError) { (stored, unreadable) = try await read(page) } catch {
        // Looked at again when the store works.
        for account in sorted[start...] { journal.markUndecided(account) }
        return journal.failed(error)
      }
      for (account, revision) in zip(page, before) {
        await journal.lock(account)
        if journal.revision(of: account) == revision, !unreadable.contains(account) {
          follow(account, to: stored[account], replacing: false)
        } else {
          await follow(account)
        }
        journal.unlock(account)
      }
    }
  }

  /// A row that cannot be read concerns only its account: it is left out, and its account named.
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
      } catch .unreadableAccount {
        unreadable.insert(name)
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
      reportUnreadable(account, detail)
      return await passOver(account, detail, replacing: replacing)
    } catch {
      return notRead(account, error)
    }
    follow(account, to: stored, replacing: replacing)
  }

  /// The account's row cannot be read: memory stays, and is written over the row if that has memory's own state.
  private func passOver(_ account: AccountName, _ detail: String, replacing: Bool) async {
    let remains: StoredAccount?
    do throws(StoreError) { remains = try await journal.store.remains(of: account) } catch {
      return notRead(account, error)
    }
    guard let remains else { return }
    guard let own = table[account] else {
      // As at a start.
      let message = StoreError.unreadableAccount(account, detail: detail).message
      let rest = remains.grant.unreadable(message, at: system.now())
      journal.read(account, at: remains.revision, of: remains.issuer)
      let grant = Grant(saved: rest, token: nil, jitter: system.jitter())
      self[account] = grant
      return damaged(grant)
    }
    // Its other columns may have been changed too: they do not show which state is newer.
    if journal.isKept(account, over: remains.revision, isEarlier: false)
      || !own.isUnreadable && journal.revision(of: account) == remains.revision
    {
      writeBack(account, over: remains, replacing: replacing)
    } else if replacing {
      journal.replaces(account, at: remains.revision)
    }
  }

  /// Looked at again when the store works.
  private func notRead(_ account: AccountName, _ error: StoreError) {
    if journal.isShared { journal.markUndecided(account) }
    journal.failed(error)
  }

  /// Whether the stored grant is one of an older copy of a shared database, which memory replaces: its refresh token is
  /// spent, or it lacks a later login.
  private func isBehind(_ stored: SavedGrant, _ own: Grant) -> Bool {
    !own.isUnreadable
      && (Self.isOlder(stored, than: own.saved)
        || journal.store.isOtherCopy && Self.isEarlier(stored, than: own.saved))
  }

  /// - Parameter stored: nil: the account is not on disk.
  private func writeBack(_ account: AccountName, over stored: StoredAccount?, replacing: Bool) {
    // The request under way finds the conflict, and then memory is saved.
    guard table[account]?.phase == .idle || replacing else { return }
    journal.expects(account, at: stored?.revision, of: journal.known.issuers[account] ?? stored?.issuer)
    journal.keep(account)
    journal.saveSoon()
  }

  /// The request of an account that is kept over another copy of the database has ended without a write.
  func saveKept(_ account: AccountName) async {
    await journal.lock(account)
    await follow(account)
    journal.unlock(account)
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
      // It is being written back to another copy of the database.
      if journal.isKept(account, over: nil, isEarlier: false) {
        return writeBack(account, over: nil, replacing: replacing)
      }
      if !replacing, journal.isUnsaved(account), journal.revision(of: account) == nil { return }
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
    if let own {
      let isEarlier = Self.isEarlier(stored.grant, than: own.saved)
      let isKept = journal.isKept(account, over: stored.revision, isEarlier: isEarlier)
      // Otherwise a later logout would be undone.
      if !isKept { journal.keepsNoMore(account) }
      if isKept || isBehind(stored.grant, own) { return writeBack(account, over: stored, replacing: replacing) }
    }
    journal.isSaved(account)
    // No other broker has rotated the token whose answer is pending: that answer may be the only one.
    if !replacing, let own, own.phase != .idle, own.saved.refreshToken == stored.grant.refreshToken { return }
    journal.read(account, at: stored.revision, of: stored.issuer)
    if let issuer = stored.issuer { reportOtherClient(stored.grant, issuer) }
    if own?.saved != stored.grant || own?.intent != stored.intent
      || own?.token != stored.tokens.first(where: { !$0.key.isNarrowed })
    {
      var grant = Grant(stored, jitter: system.jitter())
      if let own { grant.keepRejection(of: own) }
      self[account] = grant
    }
    changed(account)
  }

  /// The shared database is another copy, which may lack logins that memory has: they are kept, and written back. An
  /// account that the copy lacks and that it does not know as removed was created after the copy was made.
  /// One that the copy had when it was found and has no longer is decided after the comparison: it was removed from this
  /// copy, or is missing in a further one. Memory follows later logins, which may make revocations obsolete.
  ///
  /// - Throws: if a page cannot be read; the accounts before it are kept.
  func keep(over copy: AccountsOfCopy) async throws(StoreError) {
    defer { journal.saveSoon() }
    let all = Array(names)
    for start in stride(from: 0, to: all.count, by: Limit.loadedAccounts) {
      let page = Array(all[start..<min(start + Limit.loadedAccounts, all.count)])
      let before = page.map { journal.revision(of: $0) }
      let (stored, unreadable) = try await read(page)
      for (account, revision) in zip(page, before) where !unreadable.contains(account) {
        await journal.lock(account)
        // One that was written or removed since is in the copy as memory has it.
        if contains(account), journal.revision(of: account) == revision {
          if let stored = stored[account] {
            if !keep(account, over: stored) { follow(account, to: stored, replacing: false) }
          } else {
            keepLacked(account, by: copy)
          }
        }
        journal.unlock(account)
      }
    }
  }

  /// False: the account on disk is not of an earlier login.
  @discardableResult
  private func keep(_ account: AccountName, over stored: StoredAccount?) -> Bool {
    guard let own = table[account], !own.isUnreadable,
      stored.map({ Self.isEarlier($0.grant, than: own.saved) }) ?? true
    else { return false }
    // A refresh token that is on its way must not be sent by another broker: its request writes the account.
    journal.keeps(account, over: stored?.revision, isBusy: own.phase != .idle)
    logger.warning(
      "the database is a copy from before the latest login of \(account), which is written back",
      metadata: ["account": "\(account)"])
    return true
  }

  private func keepLacked(_ account: AccountName, by copy: AccountsOfCopy) {
    guard let own = table[account], !own.isUnreadable else { return }
    switch copy.lack(of: account, loggedInAt: own.saved.loggedInAt) {
    case .neverHad: keep(account, over: nil)
    // A request under way ends first, and its commit finds that.
    case .removed where own.phase == .idle:
      logger.notice(
        "account \(account) was removed at another machine after its latest login",
        metadata: ["account": "\(account)"])
      journal.read(account, at: nil, of: nil)
      self[account] = nil
      changed(account)
    case .removed: break
    case .unknown: journal.markUndecided(account)
    }
  }

  /// Whether the stored grant is of an earlier login, by the clocks of the machines.
  static func isEarlier(_ stored: SavedGrant, than own: SavedGrant) -> Bool {
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
}
