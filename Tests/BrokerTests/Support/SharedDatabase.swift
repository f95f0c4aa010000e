import Foundation
import Grants
import OAuth
import Synchronization

@testable import Broker

/// What several brokers share: leases by a clock of its own, fences, expectations, and notifications of others' changes.
final class SharedDatabase: Sendable {
  /// A broker's claim to a revocation.
  private struct Claim {
    var holder: Int
    var until: Duration
  }

  private struct State {
    var stored = MemoryStore()
    var leases: [AccountName: HeldLease] = [:]
    var revisions: [AccountName: Revision] = [:]
    var issuers: [AccountName: String] = [:]
    var commits: Set<Revision> = []
    var claims: [String: Claim] = [:]
    var readers: [Int: AsyncStream<ChangesElsewhere>.Continuation] = [:]
    var members = 0
    /// Brokers whose run has ended, and when.
    var ended: [Int: Duration] = [:]
    /// Commits and leases that were refused because another broker was quicker.
    var conflicts = 0
    /// Leases that were given to another after they had ended, and not given back.
    var overtaken = 0
  }

  private let state = Mutex(State())
  private let clock: ManualClock

  init(_ clock: ManualClock) { self.clock = clock }

  var disk: MemoryStore { state.withLock { $0.stored } }
  var conflicts: Int { state.withLock { $0.conflicts } }
  var overtaken: Int { state.withLock { $0.overtaken } }
  func lease(_ name: String) -> HeldLease? { state.withLock { $0.leases[AccountName(rawValue: name)!] } }

  /// Whether every lease that is held lasts for this long at least.
  func isProlonged(for time: Duration = Limit.lease / 2) -> Bool {
    let now = clock.elapsed
    return state.withLock { $0.leases.values.allSatisfy { $0.holder == nil || $0.until - now >= time } }
  }

  /// A broker's connection to it.
  ///
  /// - Parameter store: another run of the same broker.
  func join(of store: SharedStore? = nil) -> SharedStore {
    let (changes, continuation) = AsyncStream.makeStream(of: ChangesElsewhere.self)
    let number = state.withLock { state in
      state.members += 1
      state.readers[state.members] = continuation
      return state.members
    }
    let id = store?.node?.id ?? "id\(number)"
    return SharedStore(
      self, number: number, node: Node(id: id, run: "run\(number)"), changes: changes)
  }

  /// Another broker writes the account, and its state stays.
  func touches(_ name: String) {
    state.withLock { state in
      guard let account = AccountName(rawValue: name) else { return }
      state.revisions[account] = .random()
    }
  }

  /// The database is replaced by a copy that lacks the account.
  func loses(_ name: String) {
    state.withLock { state in
      guard let account = AccountName(rawValue: name) else { return }
      try? state.stored.apply([.removeGrant(account)])
      (state.leases[account], state.revisions[account]) = (nil, nil)
    }
  }

  /// The broker gets no more notifications.
  func silence(_ store: SharedStore) { state.withLock { $0.readers[store.number] = nil } }

  private func tell(_ changes: [ChangesElsewhere], from number: Int) {
    let others = state.withLock { state in state.readers.filter { $0.key != number }.map(\.value) }
    for reader in others { for change in changes { reader.yield(change) } }
  }

  /// One transaction: the expectations, then the changes.
  fileprivate func commit(
    _ changes: [Change], expecting: [Expectation], as revision: Revision, from number: Int
  ) throws(StoreError) {
    let now = clock.elapsed
    try state.withLock { state throws(StoreError) in
      try Self.check(expecting, &state, number, at: now)
      try state.stored.apply(changes)
      state.commits.insert(revision)
      for change in changes {
        if case .putIssuer(let account, let issuer) = change { state.issuers[account] = issuer }
        if let owner = change.owner { state.revisions[owner] = revision }
      }
    }
    tell(Self.reports(of: changes), from: number)
  }

  fileprivate func contains(_ commit: Revision) -> Bool { state.withLock { $0.commits.contains(commit) } }

  func revision(_ account: AccountName) -> Revision? { state.withLock { Self.revision(account, $0) } }

  private static func revision(_ account: AccountName, _ state: State) -> Revision? {
    state.stored.grant(account.rawValue).map { _ in state.revisions[account] ?? Revision(rawValue: 0) }
  }

  fileprivate func stored(_ account: AccountName) -> StoredAccount? {
    state.withLock { state in
      let (disk, name) = (state.stored, account.rawValue)
      return disk.grant(name).map { grant in
        var stored = StoredAccount(
          grant: grant, tokens: [disk.token(name)].compactMap(\.self) + disk.narrowed(name).values,
          intent: disk.intent(name))
        (stored.revision, stored.issuer) = (Self.revision(account, state), state.issuers[account])
        return stored
      }
    }
  }

  /// The broker's run has ended, as the store knows.
  func ends(_ store: SharedStore) {
    let now = clock.elapsed
    let accounts = state.withLock { state in
      state.ended[store.number] = now
      return state.leases.filter { $0.value.holder == store.number }.map(\.key)
    }
    tell([.accounts(Set(accounts))], from: store.number)
  }

  fileprivate func claim(_ revocation: String, for duration: Duration, by number: Int) -> Bool {
    let now = clock.elapsed
    return state.withLock { state in
      guard state.stored.revocations.contains(where: { $0.id == revocation }) else { return false }
      if let claim = state.claims[revocation], claim.holder != number, claim.until > now { return false }
      state.claims[revocation] = Claim(holder: number, until: now + duration)
      return true
    }
  }

  private static func check(
    _ expectations: [Expectation], _ state: inout State, _ number: Int, at now: Duration
  ) throws(StoreError) {
    let disk = state.stored
    let holds = expectations.allSatisfy { expectation in
      switch expectation {
      case .lease(let lease):
        guard let held = state.leases[lease.account] else { return false }
        return held.fence == lease.fence && held.holder == number
      case .revision(let account, let revision): return Self.revision(account, state) == revision
      case .login(let id): return disk.logins.contains { $0.id == id }
      case .revocation(let id):
        guard disk.revocations.contains(where: { $0.id == id }) else { return false }
        return state.claims[id].map { $0.holder == number || $0.until <= now } ?? true
      case .noRegistration(let name): return !disk.registrations.contains { $0.provider == name }
      }
    }
    guard !holds else { return }
    state.conflicts += 1
    throw .conflict
  }

  private static func reports(of changes: [Change]) -> [ChangesElsewhere] {
    changes.compactMap { change in
      switch change {
      case .putGrant, .removeGrant, .putIssuer, .putToken, .removeTokens, .removeToken:
        change.owner.map { .accounts([$0]) }
      case .putIntent(let intent): .accounts([intent.account])
      case .removeIntent(let account): .accounts([account])
      case .putLogin(let login): .logins([login.id])
      case .removeLogin(let id): .logins([id])
      case .putRevocation(let revocation): .revocations([revocation.id])
      case .removeRevocation(let id): .revocations([id])
      case .putRegistration(let registration): .registrations([registration.provider])
      case .removeRegistration(let name): .registrations([name])
      case .putValue: nil
      }
    }
  }

  fileprivate func lease(
    _ intent: RefreshIntent, for duration: Duration, _ takeover: Takeover, expecting: [Expectation], to number: Int
  ) throws(StoreError) -> Leasing {
    let now = clock.elapsed
    return try state.withLock { state throws(StoreError) in
      try Self.check(expecting, &state, number, at: now)
      let old = state.leases[intent.account] ?? HeldLease()
      let before = state.stored.intent(intent.account.rawValue)
      let continues = before?.refreshTokenHash == intent.refreshTokenHash
      let ended = old.holder.flatMap { state.ended[$0] }
      let end = old.end(for: number, takeover, before, ended: ended, at: now)
      guard end <= now else {
        return .held(LeaseHolder(name: "node\(old.holder ?? old.unanswered?.holder ?? 0)", remaining: end - now))
      }
      if let holder = old.holder, holder != number { state.overtaken += 1 }
      var intent = intent
      if let before, continues {
        intent.sentAt = before.sentAt
        intent.attempts = max(intent.attempts, before.attempts + 1)
      }
      // Another copy may lack the account: the lease is in a separate table.
      if state.stored.grant(intent.account.rawValue) != nil { try state.stored.apply([.putIntent(intent)]) }
      let new = old.granted(to: number, for: duration, continues: continues, ended: ended != nil, at: now)
      state.leases[intent.account] = new
      return .granted(Lease(account: intent.account, fence: new.fence), intent)
    }
  }

  fileprivate func prolong(_ lease: Lease, for duration: Duration, from number: Int) -> Bool {
    let now = clock.elapsed
    return state.withLock { state in
      guard let held = state.leases[lease.account], held.fence == lease.fence, held.holder == number else {
        return false
      }
      state.leases[lease.account]?.until = now + duration
      state.leases[lease.account]?.renewed = now
      return true
    }
  }

  fileprivate func release(_ lease: Lease, from number: Int) {
    let isOwn = state.withLock { state in
      guard let held = state.leases[lease.account], held.fence == lease.fence, held.holder == number else {
        return false
      }
      state.leases[lease.account]?.holder = nil
      return true
    }
    if isOwn { tell([.accounts([lease.account])], from: number) }
  }
}

/// A broker's connection, which can be slow, cut or broken.
final class SharedStore: Store {
  enum Link {
    case works
    /// What is asked is done at once; its answer comes when it works again.
    case slow
    /// What is asked is done when it works again.
    case cut
    /// Nothing is done.
    case fails
    /// Commits are made, and their answers are lost.
    case forgets
    /// Nothing is done, which the caller of a commit cannot know.
    case loses
  }

  private struct State {
    var link = Link.works
    var waiting: [CheckedContinuation<Void, Never>] = []
    var failsLookups = false
    var found: StoreError?
    var copy: AccountsOfCopy?
    var copies = 0
    var rebuilds = 0
    /// Commits that were not made, which their callers could not know.
    var lost = 0
    var reads = 0
    var unreadable: Set<AccountName> = []
    /// Their refresh tokens can be read.
    var isSalvageable = false
    var beforeRead: (@Sendable () -> Void)?
    /// The number of the next reads that fail.
    var failingReads = 0
  }

  private let database: SharedDatabase
  fileprivate let number: Int
  private let state = Mutex(State())
  let changesElsewhere: AsyncStream<ChangesElsewhere>?
  let node: Node?

  fileprivate init(_ database: SharedDatabase, number: Int, node: Node, changes: AsyncStream<ChangesElsewhere>) {
    self.database = database
    self.number = number
    self.node = node
    changesElsewhere = changes
  }

  var lost: Int { state.withLock { $0.lost } }
  /// These accounts' rows are damaged.
  func cannotRead(_ accounts: Set<AccountName>, salvageable: Bool = false) {
    state.withLock { ($0.unreadable, $0.isSalvageable) = (accounts, salvageable) }
  }
  func beforeNextRead(_ action: @escaping @Sendable () -> Void) { state.withLock { $0.beforeRead = action } }
  func failsNextReads(_ count: Int) { state.withLock { $0.failingReads = count } }

  /// How often accounts were read.
  var reads: Int { state.withLock { $0.reads } }

  /// How many calls wait for the link.
  var waiting: Int { state.withLock { $0.waiting.count } }

  func set(_ link: Link) {
    let waiting = state.withLock { state in
      state.link = link
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  private func wait(while link: Link) async {
    await withCheckedContinuation { continuation in
      let goesOn = state.withLock { state in
        if state.link == link { state.waiting.append(continuation) }
        return state.link != link
      }
      if goesOn { continuation.resume() }
    }
  }

  private func pass<Answer: Sendable>(
    _ body: @Sendable () throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    await wait(while: .cut)
    guard state.withLock({ $0.link }) != .fails else { throw MemoryStore.failure }
    let answer: Result<Answer, StoreError>
    do throws(StoreError) { answer = .success(try body()) } catch { answer = .failure(error) }
    await wait(while: .slow)
    return try answer.get()
  }

  var location: String { "shared" }
  func load() async throws(StoreError) -> StoredState { try await database.disk.load() }
  func commit(_ changes: [Change]) async throws(StoreError) {
    try await commit(changes, expecting: [], as: .random())
  }

  func accounts(after account: AccountName?, most: Int) async throws(StoreError) -> [any PackedAccount] {
    let names = try await load().accounts.map(\.grant.account).filter { name in account.map { name > $0 } ?? true }
    return names.prefix(most).compactMap { database.stored($0).map(pack) }
  }
  func rebuild(from state: StoredState, accounts: [any PackedAccount]) async throws(StoreError) {
    self.state.withLock { $0.rebuilds += 1 }
  }
  func close() async {}

  func examine() async throws(StoreError) -> [String] {
    if let found = state.withLock({ $0.found }) { throw found }
    return try await pass { () throws(StoreError) in [] }
  }

  var isOtherCopy: Bool { state.withLock { $0.copy != nil } }
  func otherCopy() async throws(StoreError) -> AccountsOfCopy? { state.withLock { $0.copy } }
  func keptOverCopy(_ number: Int) { state.withLock { if $0.copy?.number == number { $0.copy = nil } } }

  /// The next look at the database finds another copy, which knows these accounts.
  func finds(
    copyWith known: Set<AccountName>, removed: [AccountName: Timestamp] = [:],
    removedRegistrations: [ProviderName: Timestamp] = [:], removedRevocations: Set<String> = []
  ) {
    state.withLock { state in
      state.copies += 1
      var copy = AccountsOfCopy(number: state.copies, names: known, removed: removed)
      copy.removedRegistrations = removedRegistrations
      copy.removedRevocations = removedRevocations
      state.copy = copy
    }
  }

  /// The next look at the database finds this.
  func finds(_ error: StoreError?) { state.withLock { $0.found = error } }
  /// How often it was written from memory.
  var rebuilds: Int { state.withLock { $0.rebuilds } }

  func commit(_ changes: [Change], expecting: [Expectation], as revision: Revision) async throws(StoreError) {
    let lost = StoreError.unknown(path: location, detail: "the connection broke")
    let isLost = state.withLock { state in
      if state.link == .loses { state.lost += 1 }
      // A few are lost, and then one is made.
      if state.lost == 3 { state.link = .works }
      return state.link == .loses
    }
    if isLost { throw lost }
    try await pass { () throws(StoreError) in
      try database.commit(changes, expecting: expecting, as: revision, from: number)
    }
    if state.withLock({ $0.link == .forgets }) { throw lost }
  }

  /// Whether it fails to tell which commits are on disk.
  func setLookups(fail: Bool) { state.withLock { $0.failsLookups = fail } }

  func contains(_ commit: Revision) async throws(StoreError) -> Bool {
    if state.withLock({ $0.failsLookups }) { throw MemoryStore.failure }
    return try await found(commit)
  }

  private func found(_ commit: Revision) async throws(StoreError) -> Bool {
    try await pass { () throws(StoreError) in database.contains(commit) }
  }

  func lease(
    _ intent: RefreshIntent, for duration: Duration, _ takeover: Takeover, expecting: [Expectation]
  ) async throws(StoreError) -> Leasing {
    try await pass { () throws(StoreError) in
      try database.lease(intent, for: duration, takeover, expecting: expecting, to: number)
    }
  }

  func claim(_ revocation: String, for duration: Duration) async throws(StoreError) -> Bool {
    try await pass { () throws(StoreError) in database.claim(revocation, for: duration, by: number) }
  }

  func revocations() async throws(StoreError) -> [PendingRevocation] {
    try await pass { () throws(StoreError) in database.disk.revocations }
  }

  func registrations() async throws(StoreError) -> [SavedRegistration] {
    try await pass { () throws(StoreError) in database.disk.registrations }
  }

  func prolong(_ lease: Lease, for duration: Duration) async throws(StoreError) -> Bool {
    try await pass { () throws(StoreError) in database.prolong(lease, for: duration, from: number) }
  }

  func release(_ lease: Lease) async {
    try? await pass { () throws(StoreError) in database.release(lease, from: number) }
  }

  func remains(of account: AccountName) async throws(StoreError) -> StoredAccount? {
    let isSalvageable = state.withLock { $0.isSalvageable }
    return try await pass { () throws(StoreError) in
      var stored = database.stored(account)
      if !isSalvageable { stored?.grant.refreshToken = nil }
      return stored
    }
  }

  func read(_ accounts: [AccountName]) async throws(StoreError) -> [StoredAccount] {
    state.withLock { state in
      defer { state.beforeRead = nil }
      return state.beforeRead
    }?()
    let fails = state.withLock { state in
      state.reads += 1
      guard state.failingReads > 0 else { return false }
      state.failingReads -= 1
      return true
    }
    guard !fails else { throw MemoryStore.failure }
    let damaged = state.withLock { state in accounts.first { state.unreadable.contains($0) } }
    if let damaged { throw .unreadableAccount(damaged, detail: "its row was changed") }
    return try await pass { () throws(StoreError) in accounts.compactMap { database.stored($0) } }
  }

  /// The hash under a shared key is left out: who looks at these times is on our side.
  func logins(_ wanted: LoginSearch) async throws(StoreError) -> [SavedLogin] {
    try await pass { () throws(StoreError) in
      database.disk.logins.filter { login in
        switch wanted {
        case .id(let id): login.id == id
        case .state(let state): login.state == state
        case .provider(let name): login.provider == name
        }
      }
    }
  }
}
