import Grants
import Logging

// The lease of a refresh: taken with the intent, prolonged while it is under way, expected when its answer is written.
extension RefreshEngine {
  enum Tried {
    case saved, unwanted, failed
    /// At once, under another lease.
    case again
  }

  /// Leases the account and notes on disk that its refresh token is about to be sent.
  func saveIntent(_ account: AccountName, _ attempt: Grant.Attempt, _ intent: RefreshIntent) async -> Tried {
    await journal.lock(account)
    defer { journal.unlock(account) }
    // A login may have taken the grant's place meanwhile, or a logout.
    guard let grant = accounts[account], case .refreshing(let current) = grant.phase, current == attempt else {
      return .unwanted
    }
    let expected = journal.expectations(account, grant.saved.generation)
    let asked = uptime
    do throws(StoreError) {
      switch try await journal.lease(intent, expecting: expected) {
      case .granted(let lease):
        hold(.init(lease: lease, generation: expected), attempt, since: asked)
        // It may have ended by the store's clock, or end before it is prolonged: whoever still wants it asks again.
        return journal.isShared && uptime - asked > Limit.lease / 2 ? .unwanted : .saved
      case .held(let duration):
        leases.noteHolder(of: account, until: uptime + max(duration, Limit.leaseRecheck))
        return .unwanted
      }
    } catch {
      guard error == .conflict else { return .failed }
      accounts[account]?.withdrawn(attempt)
      await accounts.follow(account)
      return .unwanted
    }
  }

  /// Keeps the lease as long as the refresh is under way: a request that takes long must not be sent a second time by
  /// another broker.
  ///
  /// - Parameter asked: when it was asked for, which is before the store's clock began to count.
  private func hold(_ leased: RefreshLeases.Held, _ attempt: Grant.Attempt, since asked: Duration) {
    let (key, lease) = (key(leased.lease.account, attempt), leased.lease)
    leases.held[key] = leased
    guard journal.isShared else { return }
    Task {
      var next = asked + Limit.lease / 4
      while true {
        await surroundings.sleep(next - uptime)
        guard leases.held[key]?.lease == lease else { return }
        let asked = uptime
        do throws(StoreError) {
          let isHeld = try await journal.store.prolong(lease, for: Limit.lease)
          // The refresh may have ended meanwhile.
          guard leases.held[key]?.lease == lease else { return }
          guard isHeld else { break }
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

  /// What holds while the attempt's lease is this broker's; nil: it has none.
  func expectations(_ account: AccountName, _ attempt: Grant.Attempt) -> [Expectation]? {
    leases.held[key(account, attempt)]?.expectations
  }

  func key(_ account: AccountName, _ attempt: Grant.Attempt) -> RefreshLeases.Key {
    RefreshLeases.Key(account: account, attempt: attempt.number)
  }

  /// With the account's lock: another broker has had the lease since, as where this machine was suspended, or has
  /// written the account. While nobody has renewed the grant, this answer is all that there is of it, and it is
  /// committed under a new lease; else it is discarded.
  func leaseEnded(_ account: AccountName, _ attempt: Grant.Attempt) async -> Tried {
    do throws(StoreError) {
      // An exchange leases nothing, and its token can be requested again.
      if !attempt.isExchange, let stored = try await journal.store.read(account),
        stored.grant.refreshToken == attempt.refreshToken,
        let intent = accounts[account]?.intent
      {
        let expected = [Expectation.generation(account, stored.grant.generation)]
        let asked = uptime
        switch try await journal.lease(intent, expecting: expected) {
        case .granted(let lease):
          hold(.init(lease: lease, generation: expected), attempt, since: asked)
          accounts[account]?.rebase(attempt, onto: stored.grant)
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
}
