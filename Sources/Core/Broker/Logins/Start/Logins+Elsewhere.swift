import Grants
import OAuth

// Logins of a store that several brokers share: a callback may come to another broker than the one that began them.
extension Logins {
  /// Takes over the logins that others began and that the address may be for, until ``handBack(_:)``.
  func takeOverElsewhere(_ address: ReturnedAddress) async throws(StoreError) -> [LoginID] {
    guard journal.isShared else { return [] }
    let searches: [LoginSearch]
    if let state = address.claimedState {
      searches = table.login(ofState: state) == nil ? [.state(state)] : []
    } else {
      let stateless = providers.all.filter {
        $0.provider.authorizationTraits.correlation != .state
      }
      searches = stateless.map { .provider($0.provider.name) }
    }
    var found: [SavedLogin] = []
    for search in searches { found += try await journal.store.logins(search) }
    // Who waits for a bare code waits where the login began.
    let new = found.filter { table[$0.id] == nil && $0.exchangesCode }
    for login in new { table[login.id] = Login(saved: login, phase: .pending, holder: system.holder(login.uid)) }
    return new.map(\.id)
  }

  /// A login that the callback did not end waits at the broker where it began.
  func handBack(_ ids: [LoginID]) {
    for id in ids where table[id]?.isPending == true { table[id] = nil }
  }

  /// Another login at a provider that permits one at a time, begun by another broker.
  func otherElsewhere(_ name: ProviderName) async throws(StoreError) -> SavedLogin? {
    guard journal.isShared, providers[name]?.provider.authorizationTraits.correlation == .singleLogin else {
      return nil
    }
    let others = try await journal.store.logins(.provider(name))
    return others.first { table[$0.id] == nil && $0.expiresAt > now }
  }

  /// Another broker changed the accounts: it may have completed logins to them.
  func accountsChangedElsewhere(_ names: Set<AccountName>) async {
    await changedElsewhere(Set(table.all.filter { names.contains($0.saved.account) }.map(\.saved.id)))
  }

  /// Another broker changed the logins: callers that wait here for them are woken. If the other broker took a login and
  /// failed, they learn it when the login's time is over.
  func changedElsewhere(_ ids: Set<LoginID>) async {
    for id in ids where table[id]?.isPending == true {
      let stored: SavedLogin?
      do throws(StoreError) { stored = try await journal.store.logins(.id(id)).first } catch { return }
      guard let login = table[id], login.isPending else { continue }
      if let stored {
        guard stored.action != login.saved.action || stored.memory != login.saved.memory else { continue }
        table[id]?.saved = stored
        waiters.wake(.login(id))
        wakeScheduler()
      } else if let saved = accounts[login.saved.account]?.saved, saved.provider == login.saved.provider,
        saved.loggedInAt >= login.saved.startedAt
      {
        table[id]?.identity = saved.identity
        end(id, .completed(login.saved.account, at: now))
      }
    }
  }
}
