import BrokerAPI
import Grants
import Logging
import OAuth

/// The stored state: commits, their failures, and state that is newer in memory than on disk.
///
/// While the store fails, tokens in memory are still served, no refresh begins whose answer could be lost, and the
/// store is tried until it works; then newer state in memory is saved (decision 15).
@BrokerActor
final class Journal: Piece {
  let runtime: Runtime
  let store: any Store
  /// Small values by name, as on disk.
  private(set) var values: [String: String] = [:]
  /// Why the last commit failed; nil: the store works.
  var failure: StoreError? { outage?.failure }
  var failingSince: Timestamp? { outage?.since }
  var outage: (failure: StoreError, since: Timestamp)?
  var unsaved = Unsaved()
  private(set) var commits = Commits()
  /// What this broker knows to be on disk of a store that several share.
  var known = KnownRevisions()
  /// Rows on disk that cannot be read, except those of known accounts.
  private(set) var setAside: [SetAsideRow] = []
  var repairState = RepairState()
  var examination: Examination
  private var locks = Locks<AccountName>()
  private(set) var source: (any JournalSource)?

  /// Accounts that are newer in memory than on disk.
  struct Unsaved {
    var waiting: Set<AccountName> = []
    var beingSaved: Set<AccountName> = []
    /// Saves them, one for all; tells whether the store took everything.
    var saver: Task<Bool, Never>?
  }

  /// Commits under way, by the time since boot at which they began.
  struct Commits {
    private(set) var begun: [UInt64: Duration] = [:]
    private var last: UInt64 = 0

    mutating func begin(at uptime: Duration) -> UInt64 {
      last += 1
      begun[last] = uptime
      return last
    }

    mutating func end(_ number: UInt64) { begun[number] = nil }
  }

  /// The looks at the store's files.
  struct Examination {
    var last: Duration
    /// The result of the last check.
    var notices: [String] = []
    var isUnderWay = false
  }

  init(_ store: any Store, _ runtime: Runtime) {
    self.store = store
    self.runtime = runtime
    examination = Examination(last: runtime.clock.uptime)
  }

  /// Names who knows what should be on disk. Once, before anything is committed.
  func records(_ source: any JournalSource) { self.source = source }

  /// Takes over the small values that were loaded.
  func takeOver(values: [String: String]) { self.values = values }

  // MARK: Commits

  /// Writes the changes in one transaction, which is on disk when this returns.
  ///
  /// - Throws: `.conflict` where an expectation does not hold: another broker that shares the store was quicker.
  func commit(_ changes: [Change], expecting: [Expectation] = []) async throws(StoreError) {
    if isShared {
      try await commitShared(changes, expecting: expecting)
    } else {
      try await write { () async throws(StoreError) in
        try await store.commit(changes, expecting: expecting, as: Revision(rawValue: 0))
      }
    }
    if hasUnsaved { notice(changes) }
    if !setAside.isEmpty { replaced(by: changes) }
  }

  // MARK: Rows that cannot be read

  /// Takes over the rows that a start could not read.
  func takeOver(setAside rows: [SetAsideRow]) {
    setAside = rows.filter { $0.table != "grants" || $0.account == nil }.sorted { "\($0.name)" < "\($1.name)" }
  }

  /// Registrations that cannot be read.
  func isSetAside(_ provider: ProviderName) -> Bool {
    setAside.contains { $0.table == "registrations" && $0.provider == provider }
  }

  /// These changes wrote or removed rows that could not be read.
  private func replaced(by changes: [Change]) {
    for change in changes {
      let (table, key): (String, String?) =
        switch change {
        case .putRegistration(let registration): ("registrations", registration.provider.rawValue)
        case .removeRegistration(let provider): ("registrations", provider.rawValue)
        case .putLogin(let login): ("logins", login.id.rawValue)
        case .removeLogin(let login): ("logins", login.rawValue)
        case .putRevocation(let revocation): ("revocations", revocation.id)
        case .removeRevocation(let id): ("revocations", id)
        case .putValue(let name, _): ("settings", name)
        case .putGrant, .removeGrant, .putIssuer, .putToken, .removeToken, .removeTokens, .putIntent, .removeIntent:
          ("", nil)
        }
      guard let key else { continue }
      setAside.removeAll { $0.table == table && $0.key == key }
    }
  }

  /// It was removed from disk.
  func removeSetAside(_ row: RowName) { setAside.removeAll { $0.name == row } }

  /// Leases the account's refresh, and writes the intent with it.
  ///
  /// - Throws: `.conflict` where an expectation does not hold: memory has to follow first.
  func lease(
    _ intent: RefreshIntent, _ takeover: Takeover, expecting: [Expectation]
  ) async throws(StoreError) -> Leasing {
    try await write { () async throws(StoreError) in
      try await store.lease(intent, for: Limit.lease, takeover, expecting: expecting)
    }
  }

  /// Whether other brokers use the store as well.
  var isShared: Bool { store.changesElsewhere != nil }

  /// Accounts that were removed are not saved any more.
  private func notice(_ changes: [Change]) {
    for change in changes {
      if case .removeGrant(let account) = change { unsaved.waiting.remove(account) }
    }
  }

  /// Counts a write, and whether the store works.
  func write<Result: Sendable>(
    _ body: () async throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    // SQLite takes commits into a file that was removed, and they are lost.
    if let failure, failure.isLoss || repairState.recovery == .rebuilding { throw failure }
    let begun = uptime
    let number = commits.begin(at: begun)
    let result: Result
    do throws(StoreError) {
      result = try await body()
    } catch {
      ended(number)
      measures.committed(took: uptime - begun, failed: error != .conflict)
      switch error {
      // The store answered, or tells later what it did.
      case .conflict, .unknown: break
      case .owned, .newer, .corrupt, .unreadableAccount, .missing, .wrongKey, .unusableKey, .unreadable, .unwritable,
        .shared, .closed:
        failed(error)
      }
      throw error
    }
    ended(number)
    measures.committed(took: uptime - begun, failed: false)
    if failure?.isLoss != true { works() }
    return result
  }

  private func ended(_ commit: UInt64) {
    commits.end(commit)
    if commits.begun.isEmpty { waiters.wake(.commits) }
  }

  /// Commits what nobody relies on: a failure is logged.
  /// - Returns: false if an expectation does not hold.
  @discardableResult
  func commitOrWarn(_ changes: [Change], expecting: [Expectation] = [], _ what: String) async -> Bool {
    do throws(StoreError) {
      try await commit(changes, expecting: expecting)
      return true
    } catch {
      guard error != .conflict else { return false }
      logger.warning("not saved: \(what)")
      return true
    }
  }

  /// Commits the changes, or remembers that the account is newer in memory than on disk. With the account's lock.
  ///
  /// - Parameter leased: the account's lease, if this broker has it.
  /// - Throws: the failure; after `.conflict` memory follows the disk.
  func commitOrKeep(
    _ changes: [Change], of account: AccountName, leased: [Expectation] = []
  ) async throws(StoreError) {
    do throws(StoreError) {
      try await commit(changes, expecting: expectations(account) + leased)
    } catch {
      if error == .conflict { await source?.follow(account) } else { keep(account) }
      throw error
    }
  }

  /// Sets a small value, on disk as well as far as that works.
  func put(_ name: String, _ value: String, _ what: String) async {
    values[name] = value
    await commitOrWarn([.putValue(name, value)], what)
  }

  /// A commit has been under way for longer than ``Limit/slowCommit``.
  var isSlow: Bool { commits.begun.values.contains { uptime - $0 > Limit.slowCommit } }
  /// When the commit began that has been under way for longest, since boot.
  var oldestCommit: Duration? { commits.begun.values.min() }

  func clockStepped(by step: Duration) { outage = outage.map { ($0.failure, since: $0.since + step) } }

  // MARK: Accounts that are newer in memory

  /// Accounts that may be newer in memory than on disk.
  var unsavedAccounts: [AccountName] { unsaved.waiting.union(unsaved.beingSaved).sorted() }

  /// Whether any waits to be written.
  var hasUnsaved: Bool { !unsaved.waiting.isEmpty }

  /// Whether the account waits to be written.
  func isUnsaved(_ account: AccountName) -> Bool { unsaved.waiting.contains(account) }

  /// Saves newer state in memory, and waits for running writes.
  func saveUnsaved() async {
    while unsaved.saver != nil || hasUnsaved {
      saveSoon()
      guard let saver = unsaved.saver, await saver.value else { return }
    }
  }

  /// The same, without waiting for it. One task saves for all who ask.
  func saveSoon() {
    guard unsaved.saver == nil else { return }
    unsaved.saver = Task {
      let isSaved = await saveAll()
      unsaved.saver = nil
      return isSaved
    }
  }

  /// Many at a time: the store combines concurrent commits in one transaction.
  private func saveAll() async -> Bool {
    while hasUnsaved {
      let areSaved = await inGroups(unsaved.waiting.sorted(), of: Limit.savedAtOnce) { [self] account in
        await lock(account)
        defer { unlock(account) }
        return await saveWhole(account)
      }
      guard areSaved else { return false }
    }
    return true
  }

  /// The account is newer in memory than on disk until ``saveUnsaved()``.
  func keep(_ account: AccountName) { unsaved.waiting.insert(account) }

  /// The stored state of the account equals memory.
  func isSaved(_ account: AccountName) { unsaved.waiting.remove(account) }

  /// With the account's lock. False: the store still fails.
  private func saveWhole(_ account: AccountName) async -> Bool {
    guard unsaved.waiting.remove(account) != nil, let changes = source?.changes(of: account) else { return true }
    unsaved.beingSaved.insert(account)
    defer { unsaved.beingSaved.remove(account) }
    do throws(StoreError) {
      try await commit(changes, expecting: expectations(account))
    } catch {
      guard error == .conflict else {
        keep(account)
        return false
      }
      await source?.follow(account)
    }
    return true
  }

  // MARK: Locks

  /// Waits for the account's lock. Then: check again, commit, change the state, ``unlock(_:)``. Without the lock a
  /// concurrent refresh, login and logout could store the one that memory dropped.
  func lock(_ account: AccountName) async {
    guard !locks.acquire(account) else { return }
    await withCheckedContinuation { locks.wait(for: account, $0) }
  }

  func unlock(_ account: AccountName) { locks.release(account) }

  /// Whether any account is locked, for tests.
  var isLocked: Bool { !locks.isEmpty }
}
