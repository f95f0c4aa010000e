import Broker
import Foundation
import Grants
import OAuth
import SQLite
import Synchronization
import Testing

@testable import SQLiteStore

@Suite("Commits")
struct CommitTests {
  let folder = TemporaryFolder()

  /// Cannot be written: its grant is not there.
  private let orphan = Change.putToken(Sample.token("nobody"))

  @Test("waits until it is on the disk: SQLite's log is flushed before an answer")
  func flushed() async throws {
    let folder = TemporaryFolder()
    let store = try folder.open()
    try await store.commit(Sample.everything)
    // 2 is FULL (SQLite, "PRAGMA synchronous").
    #expect(try store.database().use { try $0.value("PRAGMA synchronous") } == .integer(2))
    #expect(try store.database().use { try $0.value("PRAGMA journal_mode") } == .text("wal"))
    await store.close()
  }

  @Test("are all or nothing")
  func allOrNothing() async throws {
    let store = try folder.open()
    let error = await #expect(throws: StoreError.self) {
      try await store.commit([.putGrant(Sample.grant("a")), .putValue("x", "1"), orphan])
    }
    guard case .unwritable(folder.database, let detail) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(detail.contains("conflicts with the stored data"))
    #expect(try await store.load() == StoredState())
    try await store.commit([.putValue("x", "2")])
    #expect(try await store.load().values == ["x": "2"])
    await store.close()
  }

  @Test("continue while all data are read") func besideReading() async throws {
    let store = try folder.open()
    for page in 0..<8 {
      try await store.commit((0..<500).map { .putGrant(Sample.fullGrant("a\(page * 500 + $0)")) })
    }
    var commits = 0
    // They may have had no processor time, or a slow disk, during one reading.
    for _ in 0..<5 where commits < 10 {
      commits = 0
      let isRead = Atomic(false)
      let reading = Task {
        let state = try await store.load()
        isRead.store(true, ordering: .relaxed)
        return state
      }
      while !isRead.load(ordering: .relaxed) {
        try await store.commit([.putValue("x", "\(commits)")])
        if !isRead.load(ordering: .relaxed) { commits += 1 }
      }
      let state = try await reading.value
      #expect(state.grants.count == 4000)
    }
    #expect(commits >= 10)
    await store.close()
  }

  @Test("of no change succeed")
  func empty() async throws {
    let store = try folder.open()
    try await store.commit([])
    await store.close()
  }

  @Test("that come together share transactions, and one that cannot be written harms no other")
  func grouped() async throws {
    let transactions = Mutex<[Int]>([])
    let asked = DispatchSemaphore(value: 0)
    let store = try SQLiteStore.open(folder: folder.state, key: Sample.key, pageLimit: nil) { point in
      guard case .taken(let commits) = point else { return }
      let isFirst = transactions.withLock { transactions in
        transactions.append(commits)
        return transactions.count == 1
      }
      guard isFirst else { return }
      // The first one waits for all the others, so that they meet in the queue.
      let end = DispatchTime.now() + .seconds(120)
      for _ in 0..<200 { _ = asked.wait(timeout: end) }
    }
    let failed = await withTaskGroup(of: Int?.self) { group in
      for number in 0..<200 {
        group.addTask {
          let poison = number == 77 ? [orphan] : []
          let changes = [Change.putGrant(Sample.grant("a\(number)")), .putToken(Sample.token("a\(number)"))]
          asked.signal()
          do throws(StoreError) {
            try await store.commit(changes + poison)
            return nil
          } catch {
            return number
          }
        }
      }
      return await group.reduce(into: [Int]()) { if let number = $1 { $0.append(number) } }
    }
    #expect(failed == [77])
    let state = try await store.load()
    #expect(state.grants.count == 199)
    #expect(state.tokens.count == 199)
    #expect(transactions.withLock { $0.max() ?? 0 } > 1)
    await store.close()
  }

  @Test("of one caller are written in the order in which it made them")
  func ordered() async throws {
    let store = try folder.open()
    await withTaskGroup(of: Void.self) { group in
      for caller in 0..<20 {
        group.addTask {
          for number in 0...10 { try? await store.commit([.putValue("c\(caller)", "\(number)")]) }
        }
      }
    }
    let values = try await store.load().values
    #expect(values == Dictionary(uniqueKeysWithValues: (0..<20).map { ("c\($0)", "10") }))
    await store.close()
  }

  @Test("are written although the caller was cancelled")
  func cancelled() async throws {
    let store = try folder.open()
    let caller = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      try await store.commit([.putValue("x", "1")])
    }
    try await caller.value
    #expect(try await store.load().values == ["x": "1"])
    await store.close()
  }

  @Test("that wait are written before the store closes; later ones are refused")
  func closing() async throws {
    let store = try folder.open()
    let written = await withTaskGroup(of: Bool.self) { group in
      for number in 0..<50 {
        group.addTask { (try? await store.commit([.putValue("v\(number)", "")])) != nil }
      }
      group.addTask {
        await store.close()
        return false
      }
      group.addTask {
        await store.close()
        return false
      }
      return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
    }
    await #expect(throws: StoreError.closed) { try await store.commit([.putValue("late", "")]) }
    await #expect(throws: StoreError.closed) { try await store.load() }
    let again = try folder.open()
    #expect(try await again.load().values.count == written)
    await again.close()
  }

  @Test("on a full disk are refused, and earlier data are unharmed")
  func fullDisk() async throws {
    let store = try SQLiteStore.open(folder: folder.state, key: Sample.key, pageLimit: 60, onWritePoint: nil)
    try await store.commit([.putValue("x", "1")])
    let large = Change.putValue("large", String(repeating: "x", count: 400_000))
    await #expect(throws: StoreError.unwritable(path: folder.database, detail: "the disk is full")) {
      try await store.commit([.putValue("x", "2"), large])
    }
    #expect(try await store.load().values == ["x": "1"])
    try await store.commit([.putValue("x", "3")])
    await store.close()
    let again = try folder.open()
    #expect(try await again.load().values == ["x": "3"])
    await again.close()
  }
}
