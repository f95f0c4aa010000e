import BrokerAPI
import Grants
import OAuth

/// Logins: started → pending on disk → the user signs in → the callback, accepted once → exchange → checks → commit.
@BrokerActor
final class Logins: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  let journal: Journal
  let revocations: Revocations
  let door: Door
  let addresses: CallbackAddresses
  let endings: SessionEndings
  /// Logins by id. Ended ones are kept for a while, so that waiting callers learn the result.
  var table: LoginTable
  /// Logins with a commit in progress, and their waiters.
  private var writing: [LoginID: Waiters.Key] = [:]
  let registrations: Registrations
  let browserRefusals: LimitedLog

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, revocations: Revocations,
    door: Door, addresses: CallbackAddresses, endings: SessionEndings,
    registrations: Registrations
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.journal = journal
    self.revocations = revocations
    self.door = door
    self.addresses = addresses
    self.endings = endings
    self.registrations = registrations
    browserRefusals = LimitedLog(runtime, of: "browsers at logins of other users")
    table = LoginTable(key: Secret(runtime.clock.system.token(bytes: 32)))
  }

  /// Takes over those that were loaded. Of a store that several brokers share, only those of earlier runs of this one.
  func takeOver(_ logins: [SavedLogin]) async {
    for var login in logins {
      if let origin = journal.origin {
        guard login.origin?.node == origin.node else { continue }
        login.origin = origin
        let isMine = await journal.commitOrWarn(
          [.putLogin(login)], expecting: [.login(login.id)], "the new run of a login")
        guard isMine else { continue }
      }
      table[login.id] = Login(saved: login, phase: .pending, holder: system.holder(login.uid))
      if login.device != nil { startPolling(login.id) }
    }
  }

  /// Whether this run of this broker started the login. Only that run polls, expires, lists or cancels it: its user is
  /// one of that machine.
  func isOwn(_ login: SavedLogin) -> Bool { login.origin == journal.origin }

  /// Those that should be on disk.
  var saved: [SavedLogin] { table.all.filter(\.isPending).map(\.saved) }
  /// Those whose tokens are in memory until the disk takes them.
  var unsavedCount: Int { table.all.count { $0.storeFailure != nil } }
  /// How many have not ended.
  var unendedCount: Int { table.all.count { $0.endedAt == nil && isOwn($0.saved) } }

  /// Ends those whose time is over; says when the next one's is.
  func tick() -> Timestamp? {
    table.removeEnded(at: now)
    let pending = table.all.filter { $0.isPending && isOwn($0.saved) }
    for login in pending where login.saved.expiresAt <= now { Task { await expire(login.saved.id) } }
    return pending.map(\.saved.expiresAt).filter { $0 > now }.min()
  }

  func clockStepped(by step: Duration) {
    for id in Array(table.ids) { table[id]?.clockStepped(by: step) }
  }

  /// Saves the new state of a waiting login. A user may be faster than the caller, and an ended login is no longer on
  /// disk.
  func saveIfPending(_ id: LoginID, _ what: String) async {
    await written(id)
    guard let login = table[id], login.isPending else { return }
    let key = waiters.newWork()
    writing[id] = key
    let isThere = await journal.commitOrWarn(
      [.putLogin(login.saved)], expecting: journal.shared(.login(id)), what)
    writing[id] = nil
    waiters.wake(key)
    // Another broker has taken it.
    if !isThere { await changedElsewhere([id]) }
  }

  /// Waits until no write of the login is running. A later commit follows it on disk.
  func written(_ id: LoginID) async {
    while let key = writing[id] { await wait(for: key, until: uptime + Limit.longestSleep) }
  }

  /// The one place that takes a login off the disk: with its tokens, before its code is sent, or as it fails.
  func removeFromDisk(
    _ id: LoginID, with changes: [Change] = [], expecting: [Expectation] = []
  ) async throws(StoreError) {
    await written(id)
    try await journal.commit(changes + [.removeLogin(id)], expecting: expecting)
  }

  /// Wakes the waiters of a login.
  func wakeAll() {
    for id in Array(table.ids) { waiters.wake(.login(id)) }
  }
}
