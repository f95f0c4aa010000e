import Broker
import Foundation
import Grants
import OAuth

/// The rows, leases and revisions that all brokers of a fleet share.
final class FleetDatabase: @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  unowned let fleet: Fleet
  var contents = StoredContents()
  var leases: [AccountName: FleetLease] = [:]
  private var revisions: [AccountName: Revision] = [:]
  private var commits: Set<Revision> = []
  /// For each machine the refreshes whose answers it has not saved, and when they were sent.
  private var unsaved: [Int: [AccountName: Moment]] = [:]
  /// When each login was, by the clock of its machine.
  private var logins: [AccountName: Set<Timestamp>] = [:]

  init(_ fleet: Fleet) { self.fleet = fleet }

  func stored(_ account: AccountName) -> StoredAccount? {
    guard let grant = contents.grants[account] else { return nil }
    var tokens = contents.narrowed[account].map { Array($0.values) } ?? []
    if let token = contents.tokens[account] { tokens.append(token) }
    var stored = StoredAccount(grant: grant, tokens: tokens, intent: contents.intents[account])
    stored.revision = revision(account)
    return stored
  }

  private func revision(_ account: AccountName) -> Revision? {
    guard let grant = contents.grants[account] else { return nil }
    if fleet.fault == .generation { return Revision(rawValue: UInt64(grant.generation)) }
    return revisions[account] ?? Revision(rawValue: 0)
  }

  func contains(_ commit: Revision) -> Bool { commits.contains(commit) }

  func commit(_ changes: [Change], _ expecting: [Expectation], as revision: Revision, by number: Int) throws(StoreError)
  {
    try check(expecting, number)
    for change in changes {
      if case .putGrant(let grant) = change { note(grant, by: number) }
      contents.apply(change)
      guard let owner = change.owner else { continue }
      revisions[owner] = revision
      unsaved[number]?[owner] = nil
    }
    commits.insert(revision)
    var accounts: Set<AccountName> = []
    var logins: Set<LoginID> = []
    for change in changes {
      if let owner = change.owner { accounts.insert(owner) }
      if case .putLogin(let login) = change { logins.insert(login.id) }
      if case .removeLogin(let login) = change { logins.insert(login) }
    }
    if !accounts.isEmpty { fleet.report(.accounts(accounts), from: number) }
    if !logins.isEmpty { fleet.report(.logins(logins), from: number) }
  }

  /// Only a new login replaces or brings back a grant; all else continues the login on disk.
  private func note(_ grant: SavedGrant, by number: Int) {
    let old = contents.grants[grant.account]
    defer { logins[grant.account, default: []].insert(grant.loggedInAt) }
    guard logins[grant.account, default: []].contains(grant.loggedInAt), old?.loggedInAt != grant.loggedInAt else {
      return
    }
    fleet.violated(.ended, "m\(number) brought an earlier login of \(grant.account) back")
  }

  func check(_ expectations: [Expectation], _ number: Int) throws(StoreError) {
    for expectation in expectations {
      let holds =
        switch expectation {
        case .lease(let lease): isLatest(lease, of: number)
        case .revision(let account, let expected): revision(account) == expected
        case .login(let id): contents.logins[id] != nil
        case .revocation(let id): contents.revocations[id] != nil
        case .noRegistration: true
        }
      guard holds else {
        fleet.counts.add("conflicts")
        throw .conflict
      }
    }
  }

  private func isLatest(_ lease: Lease, of number: Int) -> Bool {
    if fleet.fault == .noFence { return true }
    guard let held = leases[lease.account] else { return false }
    return held.fence == lease.fence && held.holder == number
  }

  func lease(
    _ intent: RefreshIntent, _ duration: Moment, _ takeover: Takeover, _ expecting: [Expectation], to number: Int
  ) throws(StoreError) -> Leasing {
    let now = fleet.clock(of: number)
    try check(expecting, number)
    let old = leases[intent.account] ?? FleetLease()
    let before = contents.intents[intent.account]
    let end =
      before == nil
      ? old.until : fleet.fault?.takesOverAtEnd == true ? old.leaseEnd : old.end(takeover, for: number, at: now)
    if let holder = old.holder ?? old.unanswered?.holder, holder != number {
      guard end <= now else {
        return .held(LeaseHolder(name: "m\(holder)", remaining: .milliseconds(end - now)))
      }
    }
    if let holder = old.holder, holder != number {
      fleet.counts.add("leases taken over")
      fleet.takenOver(from: holder)
    }
    var intent = intent
    let continues = before?.refreshTokenHash == intent.refreshTokenHash
    if let before, continues {
      intent.sentAt = before.sentAt
      intent.attempts = max(intent.attempts, before.attempts + 1)
    }
    contents.apply(.putIntent(intent))
    let held = old.granted(to: number, for: duration, continues: continues, at: now)
    leases[intent.account] = held
    fleet.counts.add("leases")
    fleet.trace.note(now, "    m\(number) leases \(intent.account), fence \(held.fence)")
    return .granted(Lease(account: intent.account, fence: held.fence), intent)
  }

  /// How long the machine may stand still: if it sent a refresh token, it prolongs the lease in time, or, after another
  /// broker took it, saves the answer in time.
  func longestStop(of number: Int) -> Moment {
    let recent = unsaved[number, default: [:]].filter { $0.value + 2 * Fleet.longestUnanswered > fleet.now }
    let ends = recent.map { account, sent in
      let held = leases[account]
      return (held?.holder == number ? held?.renewed ?? sent : sent) + Fleet.longestUnanswered
    }
    return max(0, ends.map { $0 - fleet.now }.reduce(Fleet.longestStop, min))
  }

  /// Whether a broker waits for the answer to a refresh.
  func isRefreshing(_ account: AccountName) -> Bool {
    unsaved.values.contains { $0[account].map { $0 + Fleet.longestUnanswered > fleet.now } ?? false }
  }

  /// A request with the refresh token leaves the machine.
  func sends(_ token: Secret, by number: Int) {
    for (account, intent) in contents.intents where intent.refreshTokenHash == token.fingerprint {
      unsaved[number, default: [:]][account] = fleet.now
    }
  }

  func prolong(_ lease: Lease, _ duration: Moment, by number: Int) -> Bool {
    guard isLatest(lease, of: number) else { return false }
    if fleet.fault == .takeoverUnprolonged { return true }
    leases[lease.account]?.until = fleet.clock(of: number) + duration
    leases[lease.account]?.renewed = fleet.clock(of: number)
    return true
  }

  func release(_ lease: Lease, by number: Int) {
    guard isLatest(lease, of: number) else { return }
    leases[lease.account]?.holder = nil
    fleet.trace.note(fleet.now, "    m\(number) releases \(lease.account), fence \(lease.fence)")
    unsaved[number]?[lease.account] = nil
    fleet.report(.accounts([lease.account]), from: number)
  }
}

/// A broker's connection to the database: slow, and commits may be made without an answer or not at all.
final class FleetStore: Store, @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  private let database: FleetDatabase
  private unowned let machine: FleetMachine
  let node: Node?
  let changesElsewhere: AsyncStream<ChangesElsewhere>?

  init(_ database: FleetDatabase, _ machine: FleetMachine, _ changes: AsyncStream<ChangesElsewhere>) {
    self.database = database
    self.machine = machine
    node = Node(id: "id\(machine.number)", run: "1")
    changesElsewhere = changes
  }

  var location: String { "fleet" }
  func close() async {}
  func examine() async throws(StoreError) -> [String] { [] }
  func rebuild(from state: StoredState, accounts: [any PackedAccount]) async throws(StoreError) {
    database.fleet.violated(.store, "a broker wrote a shared store from its memory")
  }

  func load() async throws(StoreError) -> StoredState { database.contents.state }

  func accounts(after account: AccountName?, most: Int) async throws(StoreError) -> [any PackedAccount] {
    let names = database.contents.grants.keys.sorted().filter { name in account.map { name > $0 } ?? true }
    return names.prefix(most).compactMap { database.stored($0).map(UnpackedAccount.init) }
  }

  /// The request and its answer each take time, and the process may be stopped before and after.
  private func ask<Answer: Sendable>(_ body: () throws(StoreError) -> Answer) async throws(StoreError) -> Answer {
    await machine.travel(.store)
    let result: Result<Answer, StoreError>
    do throws(StoreError) { result = .success(try body()) } catch { result = .failure(error) }
    await machine.travel(.store)
    return try result.get()
  }

  func commit(_ changes: [Change]) async throws(StoreError) { try await commit(changes, expecting: [], as: .random()) }

  func commit(_ changes: [Change], expecting: [Expectation], as revision: Revision) async throws(StoreError) {
    let fate = database.fleet.commitFate()
    let expecting = try await unlocked(expecting)
    try await ask { () throws(StoreError) in
      if fate != .lostBefore { try database.commit(changes, expecting, as: revision, by: machine.number) }
    }
    guard fate != .answered else { return }
    database.fleet.counts.add("unknown commits")
    throw .unknown(path: location, detail: "the connection broke")
  }

  /// The expectations left to evaluate: without a lock all are evaluated before.
  private func unlocked(_ expecting: [Expectation]) async throws(StoreError) -> [Expectation] {
    guard database.fleet.fault == .noRowLock else { return expecting }
    try await ask { () throws(StoreError) in try database.check(expecting, machine.number) }
    return []
  }

  func contains(_ commit: Revision) async throws(StoreError) -> Bool {
    try await ask { () throws(StoreError) in database.contains(commit) }
  }

  func lease(
    _ intent: RefreshIntent, for duration: Duration, _ takeover: Takeover, expecting: [Expectation]
  ) async throws(StoreError) -> Leasing {
    let expecting = try await unlocked(expecting)
    return try await ask { () throws(StoreError) in
      try database.lease(intent, duration.milliseconds, takeover, expecting, to: machine.number)
    }
  }

  func prolong(_ lease: Lease, for duration: Duration) async throws(StoreError) -> Bool {
    try await ask { () throws(StoreError) in database.prolong(lease, duration.milliseconds, by: machine.number) }
  }

  func release(_ lease: Lease) async {
    try? await ask { () throws(StoreError) in database.release(lease, by: machine.number) }
  }

  func read(_ accounts: [AccountName]) async throws(StoreError) -> [StoredAccount] {
    try await ask { () throws(StoreError) in accounts.compactMap { database.stored($0) } }
  }

  func logins(_ wanted: LoginSearch) async throws(StoreError) -> [SavedLogin] {
    try await ask { () throws(StoreError) in
      database.contents.logins.values.filter { login in
        switch wanted {
        case .id(let id): login.id == id
        case .state(let state): login.state == state
        case .provider(let name): login.provider == name
        }
      }
    }
  }
}
