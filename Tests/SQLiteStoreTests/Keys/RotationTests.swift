import Broker
import Foundation
import Grants
import OAuth
import SQLite
import SQLiteStore
import Sealing
import Testing

@Suite("Changing the key", .serialized, .timeLimit(.minutes(5)))
struct RotationTests {
  let folder = TemporaryFolder()

  private var next: String { folder.key + ".next" }

  private func fileKey() throws -> SealingKey {
    try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
  }

  private func opened() throws -> SQLiteStore { try folder.open(fileKey()) }

  /// What each value under the store's key begins with: a version and the key's name.
  private func mark() throws -> Data {
    let database = try SQLiteConnection(path: folder.database)
    defer { try? database.close() }
    let value = try database.read { try $0.value("SELECT value FROM meta WHERE name = 'key_check'")?.blob }
    return try #require(value).prefix(5)
  }

  private func count(_ mark: Data, in file: String) throws -> Int {
    guard let contents = try? folder.contents(file) else { return 0 }
    var count = 0
    var rest = contents[...]
    while let range = rest.range(of: mark) {
      count += 1
      rest = rest[range.upperBound...]
    }
    return count
  }

  private func countInFiles(_ mark: Data) throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: folder.state).reduce(0) {
      try $0 + count(mark, in: "\(folder.state)/\($1)")
    }
  }

  @Test(
    "of the store are on disk before a rebuild, even if an older database replaced it",
    arguments: [true, false])
  func olderKeyPutBack(isFolderLost: Bool) async throws {
    let file = folder.innerKey
    let store = try folder.open(keyFile: file)
    let old = try folder.contents(file)
    _ = try await store.rotateKey()
    if isFolderLost { try FileManager.default.removeItem(atPath: folder.state + "/grantd.lock") }
    try old.write(to: URL(fileURLWithPath: file))
    chmod(file, 0o600)
    for suffix in ["", "-wal", "-shm"] { unlink(folder.database + suffix) }
    try await store.rebuild(from: Sample.state)
    await store.close()
    #expect(try await folder.nextState(keyFile: file) == Sample.state)
    #expect(try folder.contents(file) != old && !FileManager.default.fileExists(atPath: file + ".next"))
  }

  @Test("keeps the key in the file if an older database replaced the store in the interim")
  func swapped() async throws {
    let folder = folder
    let first = try opened()
    try await first.commit(Sample.everything)
    await first.close()
    let (copy, text) = (folder.path + "/copy", try folder.contents(folder.key))
    try FileManager.default.copyItem(atPath: folder.database, toPath: copy)
    let store = try folder.open(fileKey()) { point in
      guard case .rotating(.resealCommitted) = point else { return }
      for suffix in ["-wal", "-shm"] { unlink(folder.database + suffix) }
      rename(copy, folder.database)
    }
    await #expect(throws: KeyRotationError.store(.missing(path: folder.database))) { try await store.rotateKey() }
    #expect(try folder.contents(folder.key) == text)
    // What the store has in memory goes into a new database, under a key that is on disk.
    try await store.rebuild(from: Sample.state)
    await store.close()
    #expect(try await folder.nextState(keyFile: folder.key) == Sample.state)
  }

  @Test("puts everything under a new one while the store serves, and leaves nothing under the old one")
  func everything() async throws {
    let old = try fileKey()
    let store = try folder.open(old)
    try await store.commit(Sample.everything)
    let before = try mark()
    #expect(try countInFiles(before) > 10)
    let text = try folder.contents(folder.key)
    let rotation = try await store.rotateKey()
    #expect(rotation == KeyRotation(file: folder.key, accounts: Sample.state.grants.count, remains: []))
    #expect(try countInFiles(before) == 0)
    #expect(try countInFiles(mark()) > 10)
    #expect(try folder.contents(folder.key) != text)
    #expect(try folder.mode(folder.key) == 0o600)
    #expect(!FileManager.default.fileExists(atPath: next))
    #expect(try await store.load() == Sample.state)
    try await store.commit([.putValue("after", "1")])
    #expect(try countInFiles(before) == 0)
    await store.close()
    #expect(throws: StoreError.wrongKey(path: folder.database, keySource: folder.key)) { try folder.open(old) }
    let again = try opened()
    #expect(try await again.load().values["after"] == "1")
    #expect(again.keyNotices.isEmpty)
    await again.close()
  }

  @Test("continues with commits before, during and after it, and can be repeated")
  func commitsMeanwhile() async throws {
    let store = try opened()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<200 {
        group.addTask {
          try await store.commit([.putGrant(Sample.grant("a\(number)", refresh: "refresh-\(number)"))])
          if number % 40 == 0 { _ = try await store.rotateKey() }
        }
      }
      try await group.waitForAll()
    }
    let mark = try mark()
    await store.close()
    let again = try opened()
    let grants = try await again.load().grants
    #expect(Set(grants.map(\.refreshToken?.exposed)) == Set((0..<200).map { "refresh-\($0)" }))
    #expect(try count(mark, in: folder.database) == 201)
    await again.close()
  }

  @Test(
    "is finished or taken back by the next start, wherever the process ends", arguments: RotationStep.allCases)
  func endsWithin(step: RotationStep) async throws {
    let store = try opened()
    try await store.commit(Sample.everything)
    await store.close()
    let (before, text) = (try mark(), try folder.contents(folder.key))
    let process = try Fixture("die-rotating-\(step.rawValue)", folder)
    #expect(process.wait() == SIGKILL)
    let again = try opened()
    #expect(try await again.load() == Sample.state)
    try await again.commit([.putValue("after", "1")])
    let isDone = step != .keyWritten && step != .resealed
    #expect(try (mark() != before) == isDone)
    #expect(try (folder.contents(folder.key) != text) == isDone)
    if isDone { #expect(try countInFiles(before) == 0) }
    let isFinishedNow = step == .resealCommitted || step == .logCut
    #expect(again.keyNotices == (isFinishedNow ? [.finished(file: folder.key)] : []))
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path + "/key") == ["grantd.key"])
    // And it can be done again.
    #expect(try await again.rotateKey().remains.isEmpty)
    await again.close()
    let last = try opened()
    #expect(try await last.load().values["after"] == "1")
    await last.close()
  }

  @Test("is taken back by a start that ends too, as often as it does")
  func endsAgain() async throws {
    let store = try opened()
    try await store.commit(Sample.everything)
    await store.close()
    for step in RotationStep.allCases + RotationStep.allCases {
      #expect(try Fixture("die-rotating-\(step.rawValue)", folder).wait() == SIGKILL)
    }
    #expect(try await folder.nextState(keyFile: folder.key) == Sample.state)
  }

  @Test("is refused where the key is given from outside")
  func given() async throws {
    let store = try folder.open()
    await #expect(throws: KeyRotationError.fixed(source: "test")) { try await store.rotateKey() }
    await store.close()
    await #expect(throws: KeyRotationError.store(.closed)) { try await store.rotateKey() }
  }

  @Test("changes nothing if the new key cannot be written")
  func unwritableKey() async throws {
    let store = try opened()
    try await store.commit(Sample.everything)
    let (before, text) = (try mark(), try folder.contents(folder.key))
    try FileManager.default.createDirectory(atPath: next, withIntermediateDirectories: false)
    await #expect(throws: KeyRotationError.unwritable(file: next, detail: "File exists")) {
      try await store.rotateKey()
    }
    rmdir(next)
    try FileManager.default.moveItem(atPath: folder.path + "/key", toPath: folder.path + "/moved")
    await #expect(throws: KeyRotationError.unwritable(file: next, detail: "No such file or directory")) {
      try await store.rotateKey()
    }
    try FileManager.default.moveItem(atPath: folder.path + "/moved", toPath: folder.path + "/key")
    #expect(try mark() == before)
    #expect(try folder.contents(folder.key) == text)
    #expect(try await store.load() == Sample.state)
    #expect(try await store.rotateKey().remains.isEmpty)
    await store.close()
  }

  @Test("keeps rows that cannot be read, with the values that the old key opens, and reports them")
  func damaged() async throws {
    try await damage()
    let damaged = try opened()
    _ = try await damaged.loadRest()
    let before = try await damaged.load().setAside.map(\.name)
    #expect(before.count == 3)
    let rotation = try await damaged.rotateKey()
    #expect(rotation.accounts == 3)
    #expect(rotation.remains == ["3 rows that cannot be read were kept: `grantctl repair` lists them"])
    try await checkKept(damaged, before)
    // A new database has them too, under the new key.
    let accounts = try await damaged.accounts(after: nil, most: 9)
    var state = StoredState()
    state.setAside = damaged.setAside
    try await damaged.rebuild(from: state, accounts: accounts)
    try await checkKept(damaged, before)
    await damaged.close()
    let again = try opened()
    try await checkKept(again, before)
    await again.close()
  }

  /// A grant with a damaged value, one with a damaged name, and a damaged login.
  private func damage() async throws {
    let store = try opened()
    try await store.commit(Sample.everything.filter { if case .putLogin = $0 { true } else { false } })
    try await store.commit(["a", "b", "c"].map { .putGrant(Sample.fullGrant($0)) } + [.putToken(Sample.token("b"))])
    await store.close()
    let other = try SQLiteConnection(path: folder.database)
    try other.write { db in
      try db.execute("UPDATE grants SET id_token = x'01', created_at = 5 WHERE account = 'b'")
      try db.execute("UPDATE grants SET account = 'c x' WHERE account = 'c'")
      try db.execute("UPDATE logins SET state = x'01' WHERE rowid = (SELECT min(rowid) FROM logins)")
    }
    try other.close()
  }

  private func checkKept(_ store: SQLiteStore, _ names: [RowName]) async throws {
    let state = try await store.load()
    #expect(Set(state.setAside.map(\.name)) == Set(names))
    #expect(state.grants.filter { $0.account.rawValue == "a" } == [Sample.fullGrant("a")])
    let remains = try #require(try await store.salvage(Sample.account("b")))
    #expect(remains.refreshToken == Sample.fullGrant("b").refreshToken && remains.idToken == nil)
  }

  @Test("lists data still under the old key: a log that another program reads, and replaced databases")
  func remains() async throws {
    let store = try opened()
    try await store.commit(Sample.everything)
    try await store.rebuild(from: Sample.state)
    let aside = try #require(folder.aside().first)
    let before = try mark()
    var reading = SQLiteConnection.Options()
    reading.isReadOnly = true
    let other = try SQLiteConnection(path: folder.database, reading)
    let remains = try other.read { db in
      _ = try db.value("SELECT count(*) FROM grants")?.integer
      return try await_ { try await store.rotateKey().remains }
    }
    #expect(remains.count == 2)
    #expect(remains.first?.hasPrefix("\(folder.database)-wal still holds values under the old key") == true)
    #expect(remains.last == "\(folder.state)/\(aside), which was put aside, is still under an old key")
    try other.close()
    await store.close()
    let again = try opened()
    #expect(try count(before, in: folder.database) + count(before, in: folder.database + "-wal") == 0)
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  /// From a thread that may wait.
  private func await_<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) throws -> Value {
    let done = DispatchSemaphore(value: 0)
    nonisolated(unsafe) var result: Result<Value, any Error>?
    Task {
      do { result = .success(try await work()) } catch { result = .failure(error) }
      done.signal()
    }
    done.wait()
    return try #require(result).get()
  }

  @Test("overwrites the file that the old one was in, but not a copy of it by another name")
  func overwritten() async throws {
    let store = try opened()
    let first = try #require(FileHandle(forReadingAtPath: folder.key))
    _ = try await store.rotateKey()
    #expect(try first.readToEnd().map { Set($0) } == [0])
    let copy = folder.path + "/key/copy"
    let text = try folder.contents(folder.key)
    #expect(link(folder.key, copy) == 0)
    _ = try await store.rotateKey()
    #expect(try folder.contents(copy) == text)
    await store.close()
  }

  @Test("applies to a database that is rebuilt after it")
  func rebuilt() async throws {
    let store = try opened()
    try await store.commit(Sample.everything)
    _ = try await store.rotateKey()
    try await store.rebuild(from: Sample.state)
    await store.close()
    #expect(try await folder.nextState(keyFile: folder.key) == Sample.state)
  }

  @Test("to a key from outside takes the old one from its file, even during a rotation of that")
  func moved() async throws {
    for step in [RotationStep.keyWritten, .resealCommitted] {
      let folder = TemporaryFolder()
      let file = try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
      let store = try folder.open(file)
      try await store.commit(Sample.everything)
      await store.close()
      #expect(try Fixture("die-rotating-\(step.rawValue)", folder).wait() == SIGKILL)
      let old = try #require(try KeyFile(folder.key).load())
      let moved = try SQLiteStore.open(folder: folder.state, key: Sample.key, previousKeys: [old])
      #expect(moved.keyNotices == [.resealed(under: "test", from: folder.key)])
      #expect(try await moved.load() == Sample.state)
      await moved.close()
      let again = try SQLiteStore.open(folder: folder.state, key: Sample.key, previousKeys: [old])
      #expect(again.keyNotices == [.unneeded(source: folder.key)])
      await again.close()
    }
  }

  @Test("to one that is given from outside keeps rows that cannot be read")
  func movedWithDamage() async throws {
    try await damage()
    let old = try #require(try KeyFile(folder.key).load())
    let moved = try SQLiteStore.open(folder: folder.state, key: Sample.key, previousKeys: [old])
    #expect(moved.keyNotices == [.resealed(under: "test", from: folder.key)])
    try await checkKept(moved, try await moved.load().setAside.map(\.name))
    #expect(try await moved.load().setAside.count == 3)
    await moved.close()
  }

  @Test(
    "on a full disk changes nothing, and works once there is room",
    .enabled(if: Fixture.ownMounts != nil, "a mount of its own, for a small disk, is not to be had here"))
  func fullDisk() throws {
    try FileManager.default.createDirectory(
      atPath: folder.state, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    let mount = #"mount -t tmpfs -o size=2000k,mode=700 none "$0" && "$@"; "$@""#
    let process = try Fixture(
      "serve-key-file", folder, within: (Fixture.ownMounts ?? []) + ["sh", "-c", mount, folder.state])
    #expect(try process.lines(1) == ["open"])
    #expect(try process.ask("put a 1000") == "ok")
    #expect(try process.ask("rotate") == "ok")
    let text = try folder.contents(folder.key)
    #expect(try process.ask("fill") == "ok")
    #expect(try process.ask("rotate").contains("the disk is full"))
    #expect(try folder.contents(folder.key) == text)
    #expect(!FileManager.default.fileExists(atPath: next))
    #expect(try process.ask("get") == "a=1000")
    // The process is killed, and the next one opens it under the existing key.
    #expect(try process.ask("die") == "open")
    #expect(try process.ask("get") == "a=1000")
    #expect(try process.ask("rotate") == "ok")
    #expect(try folder.contents(folder.key) != text)
  }
}
