import Foundation
import Grants
import OAuth
import Synchronization

@testable import Broker

/// What several brokers share: leases by a clock of its own, fences, expectations, and notifications of what others did.
final class SharedDatabase: Sendable {
  struct Held: Equatable {
    var fence: UInt64
    /// The broker that has it; nil: it was given back.
    var holder: Int?
    var until: Duration
  }

  private struct State {
    var stored = MemoryStore()
    var leases: [AccountName: Held] = [:]
    var readers: [Int: AsyncStream<AccountName>.Continuation] = [:]
    var members = 0
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
  func lease(_ name: String) -> Held? { state.withLock { $0.leases[AccountName(rawValue: name)!] } }

  /// Whether every lease that is held lasts for this long at least.
  func isProlonged(for time: Duration = Limit.lease / 2) -> Bool {
    let now = clock.elapsed
    return state.withLock { $0.leases.values.allSatisfy { $0.holder == nil || $0.until - now >= time } }
  }

  /// A broker's connection to it.
  func join() -> SharedStore {
    let (changes, continuation) = AsyncStream.makeStream(of: AccountName.self)
    let number = state.withLock { state in
      state.members += 1
      state.readers[state.members] = continuation
      return state.members
    }
    return SharedStore(self, number: number, changes: changes)
  }

  /// The broker hears of no change any more.
  func silence(_ store: SharedStore) { state.withLock { $0.readers[store.number] = nil } }

  private func tell(_ accounts: Set<AccountName>, from number: Int) {
    let others = state.withLock { state in state.readers.filter { $0.key != number }.map(\.value) }
    for reader in others { for account in accounts { reader.yield(account) } }
  }

  /// One transaction: the expectations, then the changes.
  fileprivate func commit(
    _ changes: [Change], expecting: [Expectation], from number: Int
  ) throws(StoreError) {
    let concerned = try state.withLock { state throws(StoreError) in
      try Self.check(expecting, &state, number)
      let concerned = changes.compactMap { Self.concerned(by: $0, state.stored) }
      try state.stored.apply(changes)
      return Set(concerned)
    }
    tell(concerned, from: number)
  }

  private static func check(
    _ expectations: [Expectation], _ state: inout State, _ number: Int
  ) throws(StoreError) {
    let disk = state.stored
    let leases = state.leases
    let holds = expectations.allSatisfy { expectation in
      switch expectation {
      case .lease(let lease):
        guard let held = leases[lease.account] else { return false }
        return held.fence == lease.fence && held.holder == number
      case .generation(let account, let generation): return disk.grant(account.rawValue)?.generation == generation
      case .login(let id): return disk.logins.contains { $0.id == id }
      }
    }
    guard !holds else { return }
    state.conflicts += 1
    throw .conflict
  }

  private static func concerned(by change: Change, _ disk: MemoryStore) -> AccountName? {
    switch change {
    case .putGrant(let grant): grant.account
    case .putToken(let token): token.account
    case .removeGrant(let account), .removeTokens(let account), .removeToken(let account, _),
      .removeIntent(let account):
      account
    case .putIntent(let intent): intent.account
    case .putLogin(let login): login.account
    case .removeLogin(let id): disk.logins.first { $0.id == id }?.account
    case .putRevocation, .removeRevocation, .putRegistration, .removeRegistration, .putValue: nil
    }
  }

  fileprivate func lease(
    _ intent: RefreshIntent, for duration: Duration, expecting: [Expectation], to number: Int
  ) throws(StoreError) -> Leasing {
    let now = clock.elapsed
    return try state.withLock { state throws(StoreError) in
      try Self.check(expecting, &state, number)
      let old = state.leases[intent.account] ?? Held(fence: 0, holder: nil, until: .zero)
      if let holder = old.holder, holder != number, old.until > now { return .held(for: old.until - now) }
      if let holder = old.holder, holder != number { state.overtaken += 1 }
      try state.stored.apply([.putIntent(intent)])
      state.leases[intent.account] = Held(fence: old.fence + 1, holder: number, until: now + duration)
      return .granted(Lease(account: intent.account, fence: old.fence + 1))
    }
  }

  fileprivate func prolong(_ lease: Lease, for duration: Duration, from number: Int) -> Bool {
    let now = clock.elapsed
    return state.withLock { state in
      guard let held = state.leases[lease.account], held.fence == lease.fence, held.holder == number else {
        return false
      }
      state.leases[lease.account]?.until = now + duration
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
    if isOwn { tell([lease.account], from: number) }
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
  }

  private struct State {
    var link = Link.works
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private let database: SharedDatabase
  fileprivate let number: Int
  private let state = Mutex(State())
  let changesElsewhere: AsyncStream<AccountName>?

  fileprivate init(_ database: SharedDatabase, number: Int, changes: AsyncStream<AccountName>) {
    self.database = database
    self.number = number
    changesElsewhere = changes
  }

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
  func commit(_ changes: [Change]) async throws(StoreError) { try await commit(changes, expecting: []) }
  func rebuild(from state: StoredState, accounts: [any PackedAccount]) async throws(StoreError) {}
  func close() async {}

  func examine() async throws(StoreError) -> [String] { try await pass { () throws(StoreError) in [] } }

  func commit(_ changes: [Change], expecting: [Expectation]) async throws(StoreError) {
    try await pass { () throws(StoreError) in try database.commit(changes, expecting: expecting, from: number) }
  }

  func lease(
    _ intent: RefreshIntent, for duration: Duration, expecting: [Expectation]
  ) async throws(StoreError) -> Leasing {
    try await pass { () throws(StoreError) in
      try database.lease(intent, for: duration, expecting: expecting, to: number)
    }
  }

  func prolong(_ lease: Lease, for duration: Duration) async throws(StoreError) -> Bool {
    try await pass { () throws(StoreError) in database.prolong(lease, for: duration, from: number) }
  }

  func release(_ lease: Lease) async {
    try? await pass { () throws(StoreError) in database.release(lease, from: number) }
  }

  func read(_ account: AccountName) async throws(StoreError) -> StoredAccount? {
    try await pass { () throws(StoreError) in
      let disk = database.disk
      return disk.grant(account.rawValue).map { grant in
        StoredAccount(
          grant: grant,
          tokens: [disk.token(account.rawValue)].compactMap(\.self) + disk.narrowed(account.rawValue).values,
          intent: disk.intent(account.rawValue))
      }
    }
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
