import Broker
import Foundation
import GRDB
import Grants
import SQLiteStore
import Sealing
import Testing

@Suite("A database that is lost while it is open", .serialized, .timeLimit(.minutes(2)))
struct LossTests {
  let folder = TemporaryFolder()

  enum Loss: CaseIterable {
    case databaseRemoved, databaseMoved, databaseReplaced, logRemoved, indexRemoved, folderRemoved, folderMoved
    case folderEmptied, emptied
  }

  private func inflict(_ loss: Loss) throws {
    let files = FileManager.default
    switch loss {
    case .databaseRemoved: try files.removeItem(atPath: folder.database)
    case .databaseMoved: try files.moveItem(atPath: folder.database, toPath: folder.path + "/elsewhere")
    case .databaseReplaced:
      try files.moveItem(atPath: folder.database, toPath: folder.path + "/elsewhere")
      try files.copyItem(atPath: folder.path + "/elsewhere", toPath: folder.database)
    case .logRemoved: try files.removeItem(atPath: folder.database + "-wal")
    case .indexRemoved: try files.removeItem(atPath: folder.database + "-shm")
    case .folderRemoved: try files.removeItem(atPath: folder.state)
    case .folderMoved: try files.moveItem(atPath: folder.state, toPath: folder.path + "/elsewhere")
    case .folderEmptied:
      for file in try files.contentsOfDirectory(atPath: folder.state) {
        try files.removeItem(atPath: "\(folder.state)/\(file)")
      }
    case .emptied: truncate(folder.database, 0)
    }
  }

  private func isLoss(_ error: StoreError?) -> Bool {
    switch error {
    case .missing, .corrupt: true
    default: false
    }
  }

  @Test("is seen by a look, takes no commit, and is written anew from memory", arguments: Loss.allCases)
  func lost(_ loss: Loss) async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    try await store.examine()
    try inflict(loss)
    let seen = await #expect(throws: StoreError.self) { try await store.examine() }
    #expect(isLoss(seen), "\(String(describing: seen))")
    let refused = await #expect(throws: StoreError.self) { try await store.commit([.putValue("x", "1")]) }
    #expect(refused == seen)
    try await store.rebuild(from: Sample.state)
    try await store.examine()
    #expect(try await store.load() == Sample.state)
    try await store.commit([.putValue("after", "1")])
    #expect(throws: StoreError.owned(path: folder.state, pid: getpid())) { try folder.open() }
    for file in try FileManager.default.contentsOfDirectory(atPath: folder.state) {
      #expect(try folder.mode("\(folder.state)/\(file)") == 0o600, "\(file)")
    }
    await store.close()
    let again = try folder.open()
    #expect(try await again.load().values["after"] == "1")
    #expect(try await again.load().grants == Sample.state.grants)
    await again.close()
  }

  @Test("keeps its owner over a restart where the log was removed: the next start finds all that was committed")
  func logIsNotNeeded() async throws {
    let store = try folder.open()
    try await store.commit(Sample.everything)
    try inflict(.logRemoved)
    try await store.rebuild(from: Sample.state)
    await store.close()
    let again = try folder.open()
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  @Test("by damage is told apart from a disk that takes nothing, and what is left of it is kept")
  func damaged() async throws {
    try await folder.fill(Sample.everything)
    let store = try folder.open()
    var contents = try folder.contents(folder.database)
    contents.replaceSubrange(4096..., with: Data(repeating: 0xa5, count: contents.count - 4096))
    // In place: it stays the same file.
    let file = try #require(FileHandle(forWritingAtPath: folder.database))
    try file.write(contentsOf: contents)
    try file.close()
    let error = await #expect(throws: StoreError.self) { try await store.commit(Sample.everything) }
    guard case .corrupt(folder.database, _) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    try await store.rebuild(from: Sample.state)
    try await store.commit([.putValue("after", "1")])
    let aside = try folder.aside().filter { !$0.hasSuffix("-wal") && !$0.hasSuffix("-shm") }
    #expect(aside.count == 1)
    #expect(try folder.contents(folder.state + "/" + #require(aside.first)).prefix(contents.count) == contents)
    await store.close()
    let again = try folder.open()
    #expect(try await again.load().values["after"] == "1")
    await again.close()
  }

  @Test("with its folder gets its key back, where the key was in the folder", arguments: [true, false])
  func key(inside: Bool) async throws {
    // As a person may write it.
    let file = inside ? folder.state + "//grantd.key" : folder.key
    let key = try SealingKey.loadOrCreate(file: file, stateFolder: folder.state)
    let store = try SQLiteStore.open(folder: folder.state, key: key)
    let contents = try folder.contents(file)
    unlink(file)
    // Somebody took the key elsewhere, and the database was lost later.
    try inflict(.databaseRemoved)
    try await store.rebuild(from: Sample.state)
    #expect(!FileManager.default.fileExists(atPath: file))
    try inflict(.folderRemoved)
    try await store.rebuild(from: Sample.state)
    await store.close()
    #expect(FileManager.default.fileExists(atPath: file) == inside)
    guard inside else { return }
    #expect(try folder.contents(file) == contents)
    #expect(try folder.mode(file) == 0o600)
    let again = try SQLiteStore.open(
      folder: folder.state, key: SealingKey.loadOrCreate(file: file, stateFolder: folder.state))
    #expect(try await again.load() == Sample.state)
    await again.close()
  }

  @Test("is not written anew where another process has taken the store meanwhile")
  func ownedByAnother() async throws {
    let store = try folder.open()
    try await store.commit([.putValue("mine", "1")])
    try inflict(.folderRemoved)
    let other = try folder.open()
    try await other.commit([.putValue("other", "1")])
    await #expect(throws: StoreError.owned(path: folder.state, pid: getpid())) {
      try await store.rebuild(from: StoredState())
    }
    await store.close()
    #expect(try await other.load().values == ["other": "1"])
    try await other.examine()
    await other.close()
  }
}
