import Foundation
import Grants
import OAuth
import Synchronization

@testable import Broker

/// What several brokers share: leases by a clock of its own, fences, expectations, and notifications of what others did.
final class SharedDatabase: Sendable {
  private struct State {
    var stored = MemoryStore()
    var leases: [AccountName: (fence: UInt64, holder: Int?, until: Duration)] = [:]
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

  /// Whether every lease that is held lasts for half of its time at least.
  var isProlonged: Bool {
    let now = clock.elapsed
    return state.withLock {
      $0.leases.values.allSatisfy { $0.holder == nil || $0.until - now >= Limit.lease.scaled(by: 0.5) }
    }
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

  fileprivate func tell(_ accounts: Set<AccountName>, from number: Int) {
    let others = state.withLock { state in state.readers.filter { $0.key != number }.map(\.value) }
    for reader in others { for account in accounts { reader.yield(account) } }
  }

  /// One transaction: the expectations, then the changes.
  fileprivate func commit(
    _ changes: [Change], expecting: [Expectation], from number: Int
  ) throws(StoreError) {
    try state.withLock { state throws(StoreError) in
      try Self.check(expecting, &state, number)
      try state.stored.apply(changes)
    }
    tell(Set(changes.compactMap(\.account)), from: number)
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

  fileprivate func lease(
    _ intent: RefreshIntent, for duration: Duration, expecting: [Expectation], to number: Int
  ) throws(StoreError) -> Leasing {
    let now = clock.elapsed
    return try state.withLock { state throws(StoreError) in
      try Self.check(expecting, &state, number)
      let old = state.leases[intent.account] ?? (0, nil, .zero)
      if let holder = old.holder, holder != number, old.until > now { return .held(for: old.until - now) }
      if let holder = old.holder, holder != number { state.overtaken += 1 }
      try state.stored.apply([.putIntent(intent)])
      state.leases[intent.account] = (old.fence + 1, number, now + duration)
      return .granted(Lease(account: intent.account, fence: old.fence + 1))
    }
  }

  fileprivate func prolong(_ lease: Lease, for duration: Duration, from number: Int) {
    let now = clock.elapsed
    state.withLock { state in
      guard let held = state.leases[lease.account], held.fence == lease.fence, held.holder == number, held.until > now
      else { return }
      state.leases[lease.account]?.until = now + duration
    }
  }

  fileprivate func release(_ lease: Lease, from number: Int) {
    state.withLock { state in
      guard let held = state.leases[lease.account], held.fence == lease.fence, held.holder == number else { return }
      state.leases[lease.account]?.holder = nil
    }
    tell([lease.account], from: number)
  }
}

final class SharedStore: Store {
  private let database: SharedDatabase
  private let number: Int
  let changesElsewhere: AsyncStream<AccountName>?

  fileprivate init(_ database: SharedDatabase, number: Int, changes: AsyncStream<AccountName>) {
    self.database = database
    self.number = number
    changesElsewhere = changes
  }

  var location: String { "shared" }
  func load() async throws(StoreError) -> StoredState { try await database.disk.load() }
  func commit(_ changes: [Change]) async throws(StoreError) { try await commit(changes, expecting: []) }
  func examine() async throws(StoreError) {}
  func rebuild(from state: StoredState, accounts: [any PackedAccount]) async throws(StoreError) {}
  func close() async {}

  func commit(_ changes: [Change], expecting: [Expectation]) async throws(StoreError) {
    try database.commit(changes, expecting: expecting, from: number)
  }

  func lease(
    _ intent: RefreshIntent, for duration: Duration, expecting: [Expectation]
  ) async throws(StoreError) -> Leasing {
    try database.lease(intent, for: duration, expecting: expecting, to: number)
  }

  func prolong(_ lease: Lease, for duration: Duration) async {
    database.prolong(lease, for: duration, from: number)
  }

  func release(_ lease: Lease) async { database.release(lease, from: number) }
}

extension Change {
  var account: AccountName? {
    switch self {
    case .putGrant(let grant): grant.account
    case .putToken(let token): token.account
    case .removeGrant(let account), .removeTokens(let account), .removeToken(let account, _),
      .removeIntent(let account):
      account
    case .putIntent(let intent): intent.account
    case .putLogin, .removeLogin, .putRevocation, .removeRevocation, .putRegistration, .removeRegistration, .putValue:
      nil
    }
  }
}
