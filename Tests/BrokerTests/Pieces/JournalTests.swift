import BrokerAPI
import Grants
import OAuth
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct JournalTests {
  /// Knows one account.
  @BrokerActor private final class Source: JournalSource {
    var changes: [Change] = []
    var followed: [AccountName] = []

    func wholeState() async -> (rest: StoredState, accounts: [any PackedAccount]) { (StoredState(), []) }
    func changes(of account: AccountName) -> [Change]? { changes.isEmpty ? nil : changes }
    func follow(_ account: AccountName) async { followed.append(account) }
    func keep(over copy: AccountsOfCopy) async throws(StoreError) {}
    func compared() async {}
  }

  @BrokerActor private func grant(_ generation: Int64, at now: Timestamp) -> SavedGrant {
    SavedGrant(
      account: account("a"), provider: provider("example"), identity: nil, requestedScopes: [], grantedScopes: [],
      refreshToken: Secret("r\(generation)"), generation: generation, standing: .good, createdAt: now, loggedInAt: now)
  }

  @Test("Changes that a failing store refused are kept, reported once, and saved when it works")
  @BrokerActor func keeps() async throws {
    let parts = Parts()
    let source = Source()
    let journal = parts.journal
    journal.records(source)
    let new = grant(2, at: parts.clock.now)
    try await journal.commit([.putGrant(grant(1, at: parts.clock.now))])
    source.changes = [.putGrant(new)]
    parts.store.set(.fails)
    for _ in 1...2 {
      await #expect(throws: MemoryStore.failure) {
        try await journal.commitOrKeep([.putGrant(new)], of: account("a"))
      }
    }
    #expect(journal.failure == MemoryStore.failure && journal.unsavedAccounts.contains(account("a")))
    #expect(parts.runtime.summary.isDue && parts.store.grant("a")?.generation == 1)
    parts.store.set(.works)
    #expect(await parts.clock.reaches(by: .milliseconds(200)) { parts.store.grant("a")?.generation == 2 })
    #expect(await eventually { journal.unsavedAccounts.isEmpty })
    #expect(journal.failure == nil && journal.failingSince == nil)
  }

  @Test("A closed store is not a failure while the broker ends, but is one earlier", arguments: [true, false])
  @BrokerActor func closed(isEnd: Bool) async {
    let parts = Parts()
    let source = Source()
    parts.journal.records(source)
    parts.store.finds(.closed)
    if isEnd { parts.runtime.lifecycle.stop() }
    await parts.journal.examine()
    #expect((parts.journal.failure == nil) == isEnd && parts.runtime.summary.isDue != isEnd)
    parts.runtime.lifecycle.stop()
  }

  @Test("An account's lock is given to one task at a time, first come, first served")
  @BrokerActor func locks() async {
    let parts = Parts()
    let journal = parts.journal
    var order: [Int] = []
    await journal.lock(account("a"))
    var tasks: [Task<Void, Never>] = []
    for number in 1...3 {
      tasks.append(
        Task { @BrokerActor in
          await journal.lock(account("a"))
          order.append(number)
          journal.unlock(account("a"))
        })
      await settle()
    }
    await journal.lock(account("b"))
    journal.unlock(account("b"))
    #expect(order.isEmpty)
    journal.unlock(account("a"))
    for task in tasks { await task.value }
    #expect(order == [1, 2, 3])
  }

  /// Knows what it is asked of.
  @BrokerActor private final class Crowd: JournalSource {
    let now: Timestamp
    init(_ now: Timestamp) { self.now = now }

    func wholeState() async -> (rest: StoredState, accounts: [any PackedAccount]) { (StoredState(), []) }
    func changes(of account: AccountName) -> [Change]? {
      let grant = SavedGrant(
        account: account, provider: provider("example"), identity: nil, requestedScopes: [], grantedScopes: [],
        refreshToken: Secret("r"), generation: 1, standing: .good, createdAt: now, loggedInAt: now)
      return [.putGrant(grant)]
    }
    func follow(_ account: AccountName) async {}
    func keep(over copy: AccountsOfCopy) async throws(StoreError) {}
    func compared() async {}
  }

  @Test("However many ask, one task saves, many accounts at a time, and each once")
  @BrokerActor func saver() async throws {
    let parts = Parts()
    let source = Crowd(parts.clock.now)
    parts.journal.records(source)
    let names = (0..<300).map { account("a\($0)") }
    parts.store.set(.hangs)
    for name in names {
      parts.journal.keep(name)
      parts.journal.saveSoon()
    }
    let asked = (0..<3).map { _ in Task { await parts.journal.saveUnsaved() } }
    #expect(await eventually { parts.store.hanging == Limit.savedAtOnce })
    await settle()
    #expect(parts.store.hanging == Limit.savedAtOnce)
    parts.store.set(.works)
    for task in asked { await task.value }
    #expect(!parts.journal.hasUnsaved && parts.journal.unsavedAccounts.isEmpty)
    #expect(names.allSatisfy { parts.store.grant($0.rawValue)?.generation == 1 })
    #expect(parts.store.log.count == names.count)
  }
}
