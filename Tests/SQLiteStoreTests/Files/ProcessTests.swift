import Broker
import Foundation
import Grants
import OAuth
import SQLite
import SQLiteStore
import Testing

// One after the other: a helper that starts in between would inherit the pipe of another, and keep it open.
@Suite("Processes", .serialized, .timeLimit(.minutes(5)))
struct ProcessTests {
  let folder = TemporaryFolder()

  @Test("a second owner is refused in this process, and told which has it")
  func secondOwner() async throws {
    let store = try folder.open()
    #expect(throws: StoreError.owned(path: folder.state, pid: getpid())) { try folder.open() }
    await store.close()
    let again = try folder.open()
    await again.close()
  }

  @Test("a store that is let go without being closed has no owner")
  func letGo() async throws {
    do { _ = try folder.open() }
    let store = try folder.open()
    await store.close()
  }

  @Test("another process's store is refused until that process ends, however it ends", arguments: [SIGTERM, SIGKILL])
  func otherProcess(signal: Int32) async throws {
    let other = try Fixture("own", folder)
    #expect(try other.lines(1) == ["open"])
    #expect(throws: StoreError.owned(path: folder.state, pid: other.pid)) { try folder.open() }
    let third = try Fixture("own", folder)
    #expect(try third.lines(1) == ["another grantd (pid \(other.pid)) owns \(folder.state)"])
    third.end(SIGKILL)
    other.end(signal)
    let store = try folder.open()
    await store.close()
  }

  @Test("every commit that returned is there after the process was killed", arguments: [1, 40, 150])
  func killed(after count: Int) async throws {
    let writer = try Fixture("commit", folder)
    var printed = try writer.lines(count)
    writer.end(SIGKILL)
    printed += try writer.lines(.max)
    let last = try #require(printed.compactMap { Int($0) }.max())
    #expect(last >= count)
    let store = try folder.open()
    let state = try await store.load()
    let found = try #require(state.values["last"].flatMap { Int($0) })
    // One more may have been committed and not printed.
    #expect(last...(last + 1) ~= found)
    #expect(Set(state.grants.map(\.account.rawValue)) == Set((1...found).map { "a\($0)" }))
    #expect(Set(state.tokens.map(\.accessToken.exposed)) == Set((1...found).map { "access-\($0)" }))
    await store.close()
  }

  @Test(
    "a process that is killed within a commit leaves all of it or nothing",
    arguments: [("die-applied", [:]), ("die-committed", ["one": "1", "two": "2"])])
  func killedWithin(mode: String, values: [String: String]) async throws {
    try await folder.fill([])
    let writer = try Fixture(mode, folder)
    #expect(writer.wait() == SIGKILL)
    let store = try folder.open()
    #expect(try await store.load().values == values)
    await store.close()
  }

  @Test("a newer store is not changed even with a log of a killed process")
  func newerWithLog() async throws {
    let writer = try Fixture("commit", folder)
    _ = try writer.lines(5)
    writer.end(SIGKILL)
    // Another connection keeps the log from being taken in when the first one closes.
    let reader = try SQLiteConnection(path: folder.database)
    let database = try SQLiteConnection(path: folder.database)
    try database.use { try $0.execute("PRAGMA user_version = 8; CREATE TABLE later (x)") }
    let contents = try folder.contents(folder.database)
    let log = try folder.contents(folder.database + "-wal")
    #expect(throws: StoreError.newer(path: folder.database, found: 8, known: 7)) { try folder.open() }
    #expect(try folder.contents(folder.database) == contents)
    #expect(try folder.contents(folder.database + "-wal") == log)
    try database.close()
    try reader.close()
  }

  @Test("all files are closed to other users, whatever mode they had", arguments: [true, false])
  func permissions(existing: Bool) async throws {
    if existing {
      try await folder.fill(Sample.everything)
      for file in ["grantd.db", "grantd.lock"] { chmod("\(folder.state)/\(file)", 0o644) }
    }
    let store = try folder.open()
    try await store.commit(Sample.everything)
    #expect(try folder.mode(folder.state) == 0o700)
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.state)
    #expect(Set(files) == ["grantd.commits", "grantd.db", "grantd.db-wal", "grantd.db-shm", "grantd.lock"])
    for file in files { #expect(try folder.mode("\(folder.state)/\(file)") == 0o600, "\(file)") }
    await store.close()
    #expect(
      Set(try FileManager.default.contentsOfDirectory(atPath: folder.state)) == [
        "grantd.commits", "grantd.db", "grantd.lock",
      ])
  }
}
