import Grants
import Logging

// The lease of a refresh: taken with the intent, prolonged while it is under way, expected when its answer is written.
extension RefreshEngine {
  /// The end of an attempt to write an intent.
  enum Leased {
    case saved, unwanted, failed
    /// Memory may be behind the disk: another broker wrote the account, and its row cannot be read, or the database is
    /// another copy.
    case blocked(StoreError)
  }

  /// The end of an attempt to write a renewal.
  enum Tried {
    case saved, unwanted, failed
    /// At once, under another lease.
    case again
  }

  /// Leases the account and notes on disk that its refresh token is about to be sent.
  func saveIntent(_ account: AccountName, _ attempt: Grant.Attempt, _ intent: RefreshIntent) async -> Leased {
    await journal.lock(account)
    defer { journal.unlock(account) }
    // A login may have replaced the grant in the interim, or a logout removed it.
    guard let grant = accounts[account], case .refreshing(let current) = grant.phase, current == attempt else {
      return .unwanted
    }
    let asked = uptime
    let takeover = takeover(grant.saved, isForced: leases.forced.remove(account) != nil)
    do throws(StoreError) {
      switch try await journal.lease(intent, takeover, expecting: journal.expectations(account)) {
      case .granted(let lease, let noted):
        accounts[account]?.leased(attempt, noted)
        if takeover.isForced {
          logger.notice(
            "took the lease of \(account) from another broker, as demanded", metadata: ["account": "\(account)"])
        }
        hold(lease, attempt, since: asked, isRepeated: noted != intent)
        // It may have ended by the store's clock, or end before it is prolonged: callers that still need it ask again.
        return journal.isShared && uptime - asked > Limit.lease / 2 ? .unwanted : .saved
      case .held(let holder):
        leases.recordHolder(
          of: account, holder.name, until: uptime + max(holder.remaining, Limit.leaseRecheck))
        return .unwanted
      }
    } catch {
      guard error == .conflict else { return .failed }
      // Until it is compared, the copy has nothing that memory could follow.
      if journal.store.isOtherCopy {
        return .blocked(.shared(.init(.otherCopy, journal.store.location, Self.compared)))
      }
      if let damage = await accounts.damage(of: account) { return .blocked(damage) }
      accounts[account]?.withdrawn(attempt)
      await accounts.follow(account)
      return .unwanted
    }
  }

  private static let compared = "it is another copy than before, which is being compared"

  /// Keeps the lease as long as the refresh is under way: a request that takes long must not be sent a second time by
  /// another broker.
  ///
  /// - Parameters:
  ///   - asked: when it was asked for, which is before the store's clock began to count.
  ///   - isRepeated: another broker may have sent the refresh token. A grace may end, so the latest time to send stays.
  private func hold(_ lease: Lease, _ attempt: Grant.Attempt, since asked: Duration, isRepeated: Bool = false) {
    let key = key(lease.account, attempt)
    leases.held[key] = .init(lease: lease, latestSend: asked + Limit.sendingTime)
    guard journal.isShared else { return }
    Task {
      var next = asked + Limit.lease / 4
      while true {
        await system.sleep(next - uptime)
        guard leases.held[key]?.lease == lease else { return }
        let asked = uptime
        do throws(StoreError) {
          let isHeld = try await journal.store.prolong(lease, for: Limit.lease)
          // The refresh may have ended in the interim.
          guard leases.held[key]?.lease == lease else { return }
          guard isHeld else {
            leases.held[key]?.latestSend = .zero
            break
          }
          if !isRepeated { leases.held[key]?.latestSend = asked + Limit.sendingTime }
          next = asked + Limit.lease / 4
        } catch {
          next = asked + Limit.prolongingPause
        }
      }
      logger.warning(
        "another broker has taken the lease of \(lease.account), whose refresh has no answer yet",
        metadata: ["account": "\(lease.account)"])
    }
  }

  /// Leases the accounts with a request under way in another copy of the database: another broker that has them in memory
  /// must not send their refresh tokens.
  func leaseKept() async {
    for (account, revision) in journal.keptAccounts {
      await journal.lock(account)
      await lease(account, at: revision)
      journal.unlock(account)
    }
  }

  private func lease(_ account: AccountName, at revision: Revision?) async {
    guard let grant = accounts[account], let intent = grant.intent else { return }
    let attempt: Grant.Attempt
    switch grant.phase {
    case .refreshing(let current), .overdue(let current, _), .committing(let current, _): attempt = current
    case .idle: return
    }
    let asked = uptime
    guard !attempt.isExchange, leases.held[key(account, attempt)] != nil,
      case .granted(let lease, _) = try? await journal.lease(
        intent, Takeover(.none), expecting: [.revision(account, revision)])
    else { return }
    hold(lease, attempt, since: asked, isRepeated: true)
  }

  /// How the account may be taken over from another broker.
  private func takeover(_ saved: SavedGrant, isForced: Bool) -> Takeover {
    let rotation = providers[saved.provider]?.provider.refreshTraits.rotation ?? .strict
    return Takeover(accounts.canLose(saved) ? rotation : .none, isForced: isForced)
  }

  /// The latest time to send a request of the attempt; nil: any time, as the store has one owner.
  func latestSend(_ account: AccountName, _ attempt: Grant.Attempt) -> ProviderConnection.LatestSend? {
    let key = key(account, attempt)
    guard journal.isShared, leases.held[key] != nil else { return nil }
    return { [weak self] in self?.leases.held[key]?.latestSend }
  }

  /// Whether nothing more may be sent under the attempt's lease.
  func isTooLate(_ account: AccountName, _ attempt: Grant.Attempt) -> Bool {
    leases.held[key(account, attempt)].map { journal.isShared && $0.latestSend < uptime } ?? false
  }

  /// Whether the account's tokens are of the server and the client that this machine has configured. Another machine's
  /// refresh token would be sent to a server that it is not of.
  func isOfOwnClient(_ saved: SavedGrant) -> Bool {
    guard journal.isShared, let issuer = journal.known.issuers[saved.account],
      let provider = providers[saved.provider]?.provider
    else { return true }
    return issuer == TokenIssuer(provider).fingerprint
  }

  /// The expectation while the attempt's lease belongs to this broker; nil: it has none.
  func expectations(_ account: AccountName, _ attempt: Grant.Attempt) -> [Expectation]? {
    leases.held[key(account, attempt)].map { [.lease($0.lease)] }
  }

  func key(_ account: AccountName, _ attempt: Grant.Attempt) -> RefreshLeases.Key {
    RefreshLeases.Key(account: account, attempt: attempt.number)
  }

  /// Requires the account's lock: another broker has had the lease since, for example while this machine was suspended,
  /// or has written the account. If no other broker renewed the grant, or an older copy of the database was restored, this
  /// answer is its only state, and is committed under a new lease; otherwise it is discarded.
  func leaseEnded(_ account: AccountName, _ attempt: Grant.Attempt) async -> Tried {
    // The account may be missing in another copy of the database until it is written back.
    if journal.isShared, journal.store.isOtherCopy || journal.isUnsaved(account) { return .failed }
    do throws(StoreError) {
      let stored = try await stored(account)
      // The read may have found the copy.
      if journal.store.isOtherCopy { return .failed }
      // An exchange leases nothing, and its token can be requested again.
      if !attempt.isExchange, let grant = accounts[account], let intent = grant.intent,
        isOnlyState(grant, of: attempt, over: stored)
      {
        let (revision, issuer) = (stored?.account.revision, stored?.account.issuer)
        let asked = uptime
        // Nothing is sent under it: another broker's lease only has to have ended.
        switch try await journal.lease(intent, Takeover(.none), expecting: [.revision(account, revision)]) {
        case .granted(let lease, _):
          hold(lease, attempt, since: asked)
          // Another broker has written the same login to the copy: its tokens are as good as those in memory.
          if let stored, stored.isWhole,
            !journal.isKept(
              account, over: revision, isEarlier: Accounts.isEarlier(stored.account.grant, than: grant.saved))
          {
            journal.keepsNoMore(account)
          }
          journal.expects(account, at: revision, of: issuer)
          if let stored, stored.isWhole { accounts[account]?.rebase(attempt, onto: stored.account.grant) }
          return .again
        case .held: return .failed
        }
      }
    } catch {
      return .failed
    }
    accounts[account]?.discarded(attempt)
    await accounts.follow(account)
    return .unwanted
  }

  /// The account on disk, or its readable columns; nil: there is none.
  private func stored(_ account: AccountName) async throws(StoreError) -> (account: StoredAccount, isWhole: Bool)? {
    do throws(StoreError) {
      return try await journal.store.read(account).map { ($0, true) }
    } catch .unreadableAccount {
      return try await journal.store.remains(of: account).map { ($0, false) }
    } catch {
      throw error
    }
  }

  /// Whether the renewal is the grant's only state: the stored row is older, or no broker can read its refresh token.
  private func isOnlyState(
    _ grant: Grant, of attempt: Grant.Attempt, over found: (account: StoredAccount, isWhole: Bool)?
  ) -> Bool {
    let account = grant.saved.account
    guard let (stored, isWhole) = found else { return journal.isKept(account, over: nil, isEarlier: false) }
    if stored.grant.refreshToken == attempt.refreshToken { return true }
    guard isWhole else {
      return stored.grant.refreshToken == nil && stored.grant.loggedInAt == grant.saved.loggedInAt
        || journal.isKept(account, over: stored.revision, isEarlier: false)
    }
    return Accounts.isOlder(stored.grant, than: grant.saved)
      || journal.isKept(
        account, over: stored.revision, isEarlier: Accounts.isEarlier(stored.grant, than: grant.saved))
  }
}
