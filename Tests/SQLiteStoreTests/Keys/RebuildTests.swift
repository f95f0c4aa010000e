import Broker
import Dispatch
import Foundation
import Grants
import SQLite
import SQLiteStore
import Synchronization
import TestSupport
import Testing

@Suite("Rebuilding the store", .serialized, .timeLimit(.minutes(5)))
struct RebuildTests {
  let folder = TemporaryFolder()

  private func values(_ values: [String: String]) -> StoredState {
    var state = StoredState()
    state.values = values
    return state
  }

  @Test("replaces all data; the old database is moved aside with its log and opens unchanged")
  func replaces() async throws {
    let store = try folder.open()
    try await store.commit([.putValue("old", "1")])
    try await store.rebuild(from: Sample.state)
    #expect(try await store.load() == Sample.state)
    let set = try #require(folder.aside().first { $0.split(separator: "-").count == 2 })
    #expect(try folder.aside().contains("\(set)-wal"))
    await store.close()
    // Nothing of it was changed or removed as its connection closed.
    let other = TemporaryFolder()
    for suffix in ["", "-wal"] {
      try other.write(folder.contents("\(folder.state)/\(set)\(suffix)"), to: other.database + suffix)
    }
    let old = try other.open()
    #expect(try await old.load().values == ["old": "1"])
    await old.close()
  }

  @Test("keeps the rows that cannot be read and are still set aside")
  func keepsSetAside() async throws {
    try await folder.fill(Sample.everything)
    let other = try SQLiteConnection(path: folder.database)
    try other.use { db in
      try db.execute("PRAGMA foreign_keys = OFF; DELETE FROM tokens; DELETE FROM refresh_intents")
      try db.execute("UPDATE registrations SET detail = x'01'; UPDATE grants SET account = account || ' x'")
      try db.execute("UPDATE logins SET expires_at = expires_at + 1; UPDATE revocations SET hint = 'x'")
    }
    try other.close()
    let store = try folder.open()
    var state = try await store.loadRest()
    _ = try await store.accounts(after: nil, most: 9)
    state.setAside = store.setAside
    #expect(Set(state.setAside.map(\.table)) == ["registrations", "grants", "logins", "revocations"])
    let login = try #require(state.setAside.first { $0.table == "logins" })
    state.setAside.removeAll { $0 == login }
    try await store.rebuild(from: state)
    let names = Set(state.setAside.map(\.name))
    #expect(Set(try await store.load().setAside.map(\.name)) == names)
    #expect(try await store.discard(state.setAside[0].name))
    await store.close()
    let again = try folder.open()
    #expect(Set(try await again.load().setAside.map(\.name)) == names.subtracting([state.setAside[0].name]))
    await again.close()
  }

  @Test("applies running and waiting commits to the new one, in their order")
  func commitsMeanwhile() async throws {
    let (taken, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let count = Mutex(0)
    let store = try SQLiteStore.open(folder: folder.state, key: Sample.key, pageLimit: nil) { point in
      guard case .taken = point,
        count.withLock({
          $0 += 1; return $0 == 1
        })
      else { return }
      taken.signal()
      goOn.wait()
    }
    async let underWay: Void = store.commit([.putValue("x", "under way"), .putValue("u", "1")])
    await wait(for: taken)
    async let waits: Void = store.commit([.putValue("y", "waits"), .putValue("x", "later")])
    async let rebuilt: Void = store.rebuild(from: values(["x": "memory", "z": "memory"]))
    #expect(await eventually { store.waiting == (commits: 1, rebuilds: 1) })
    goOn.signal()
    try await underWay
    try await waits
    try await rebuilt
    #expect(try await store.load().values == ["u": "1", "x": "later", "y": "waits", "z": "memory"])
    await store.close()
    let again = try folder.open()
    #expect(try await again.load().values == ["u": "1", "x": "later", "y": "waits", "z": "memory"])
    await again.close()
  }

  @Test("loses none of many commits that are under way, and answers each, time after time")
  func manyCommits() async throws {
    let (taken, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let isHeld = Atomic(false)
    let store = try SQLiteStore.open(folder: folder.state, key: Sample.key, pageLimit: nil) { point in
      guard case .taken = point, isHeld.exchange(false, ordering: .relaxed) else { return }
      taken.signal()
      goOn.wait()
    }
    var answered: [String: String] = [:]
    for round in 0..<5 {
      isHeld.store(true, ordering: .relaxed)
      let state = values(answered)
      let done = await withTaskGroup(of: String?.self) { group in
        for number in 0..<60 {
          group.addTask {
            let name = "v\(round)-\(number)"
            return (try? await store.commit([.putValue(name, "1")])) != nil ? name : nil
          }
        }
        await wait(for: taken)
        group.addTask {
          try? await store.rebuild(from: state)
          return nil
        }
        // None is answered before the rebuild is asked for.
        #expect(await eventually { store.waiting.rebuilds > 0 })
        goOn.signal()
        return await group.reduce(into: [String]()) { if let name = $1 { $0.append(name) } }
      }
      #expect(done.count == 60)
      for name in done { answered[name] = "1" }
      #expect(try await store.load().values == answered)
    }
    await store.close()
  }

  private func wait(for semaphore: DispatchSemaphore) async {
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        semaphore.wait()
        continuation.resume()
      }
    }
  }

  @Test("keeps the three latest replaced databases, and changes nothing else")
  func keepsThree() async throws {
    let store = try folder.open()
    let other = folder.state + "/grantd.db.damaged-by-me"
    try folder.write(Data(), to: other)
    try folder.write(Data(), to: folder.state + "/grantd.db.damaged-17-wal")
    for number in 0..<5 {
      try await store.commit([.putValue("number", "\(number)")])
      try await store.rebuild(from: values(["number": "\(number)"]))
    }
    let sets = Set(try folder.aside().compactMap { $0.split(separator: "-").dropFirst().first.flatMap { Int($0) } })
    #expect(sets.count == 3)
    #expect(sets.min() ?? 0 > 17)
    #expect(FileManager.default.fileExists(atPath: other))
    #expect(try await store.load().values == ["number": "4"])
    await store.close()
  }

  @Test("leaves the old one or the new one, whole, wherever the process ends", arguments: RebuildStep.allCases)
  func endsWithin(step: RebuildStep) async throws {
    let process = try Fixture("die-rebuilding-\(step.rawValue)", folder)
    #expect(process.wait() == SIGKILL)
    let store = try folder.open()
    #expect(try await store.load().values == (step == .drafted ? ["old": "1"] : ["new": "1"]))
    await store.close()
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.state).filter { !$0.contains(".damaged-") }
    #expect(Set(files) == ["grantd.commits", "grantd.db", "grantd.lock"])
    // One set, however often it was gone on with.
    let sets = Set(try folder.aside().map { $0.split(separator: "-")[1] })
    #expect(sets.count == (step == .drafted ? 0 : 1))
  }

  @Test("never comes back later, over commits that were made since")
  func staleSuccessor() async throws {
    let store = try folder.open()
    try await store.commit([.putValue("x", "1")])
    try folder.write(Data("not taken away".utf8), to: folder.database + ".rebuilt")
    try await store.commit([.putValue("x", "2")])
    await store.close()
    let again = try folder.open()
    #expect(try await again.load().values == ["x": "2"])
    await again.close()
  }

  @Test("of a closed store is refused, and so is a look at it")
  func closed() async throws {
    let store = try folder.open()
    await store.close()
    await #expect(throws: StoreError.closed) { try await store.rebuild(from: StoredState()) }
    await #expect(throws: StoreError.closed) { try await store.examine() }
  }

  @Test("is ended by a concurrent close, and committed data exist")
  func closing() async throws {
    let store = try folder.open()
    await withTaskGroup(of: Void.self) { group in
      group.addTask { try? await store.rebuild(from: values(["a": "1"])) }
      group.addTask { await store.close() }
    }
    let again = try folder.open()
    #expect([[:], ["a": "1"]].contains(try await again.load().values))
    await again.close()
  }
}
