import Broker
import Foundation
import Grants
import OAuth
import SQLite
import SQLiteStore
import Sealing
import Testing

@Suite("An older copy of the database")
struct CommitCountTests {
  let folder = TemporaryFolder()
  private var counter: String { folder.state + "/grantd.commits" }

  private func commit(_ names: [String]) async throws {
    let store = try folder.open()
    #expect(store.lostCommits == nil)
    for name in names { try await store.commit([.putGrant(Sample.grant(name, refresh: "r"))]) }
    await store.close()
  }

  private func lost() async throws -> Int64? {
    let store = try folder.open()
    let count = store.lostCommits?.count
    await store.close()
    return count
  }

  @Test("is reported until the next commit, with the number of commits that are missing")
  func older() async throws {
    try await commit(["a"])
    let copy = try folder.contents(folder.database)
    try await commit(["b", "c", "d"])
    #expect(try await lost() == nil)
    try folder.write(copy, to: folder.database)
    #expect(try await lost() == 3)
    #expect(try await lost() == 3)
    let store = try folder.open()
    #expect(store.lostCommits?.last.seconds ?? 0 > 1_700_000_000)
    try await store.commit([.putGrant(Sample.grant("e"))])
    await store.close()
    #expect(try await lost() == nil)
    // The count went on from the higher one: the same copy is found again.
    try folder.write(copy, to: folder.database)
    #expect(try await lost() == 4)
  }

  @Test("is not reported if the count in the database is damaged") func damaged() async throws {
    try await commit(["a", "b"])
    let change = try SQLiteConnection(path: folder.database)
    try change.use { try $0.execute("UPDATE meta SET value = zeroblob(20) WHERE name = 'commits'") }
    try change.close()
    #expect(try await lost() == nil)
  }

  @Test("is reported if there is no database")
  func missing() async throws {
    try await commit(["a", "b"])
    for file in try FileManager.default.contentsOfDirectory(atPath: folder.state) where file.hasPrefix("grantd.db") {
      try FileManager.default.removeItem(atPath: "\(folder.state)/\(file)")
    }
    #expect(try await lost() == 2)
  }

  @Test(
    "is not reported without the count, with a damaged one, or with that of another key",
    arguments: ["", "x", "9223372036854775807 00000000000000000000000000000000\n"])
  func unknown(text: String) async throws {
    try await commit(["a"])
    if text.isEmpty {
      try FileManager.default.removeItem(atPath: counter)
    } else {
      try folder.write(Data(text.utf8), to: counter)
    }
    #expect(try await lost() == nil)
    try await commit(["b"])
    #expect(try await lost() == nil)
  }

  @Test("is none after the database was rebuilt from memory, or the key was changed")
  func rewritten() async throws {
    var store = try folder.open(keyFile: folder.innerKey)
    for name in ["a", "b", "c"] { try await store.commit([.putGrant(Sample.grant(name, refresh: "r"))]) }
    try await store.rebuild(from: store.load())
    await store.close()
    store = try folder.open(keyFile: folder.innerKey)
    #expect(store.lostCommits == nil)
    _ = try await store.rotateKey()
    await store.close()
    let copy = try folder.contents(folder.database)
    store = try folder.open(keyFile: folder.innerKey)
    #expect(store.lostCommits == nil)
    try await store.commit([.putGrant(Sample.grant("d"))])
    await store.close()
    try folder.write(copy, to: folder.database)
    store = try folder.open(keyFile: folder.innerKey)
    #expect(store.lostCommits?.count == 1)
    await store.close()
  }
}
