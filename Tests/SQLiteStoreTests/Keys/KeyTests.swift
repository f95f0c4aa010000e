import Broker
import Foundation
import SQLiteStore
import Sealing
import Testing

@Suite("The store's key in its file")
struct KeyTests {
  let folder = TemporaryFolder()

  private func refusal() -> StoreError? {
    do throws(StoreError) {
      _ = try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
      return nil
    } catch {
      return error
    }
  }

  @Test("is not made again next to a database, its log, or a prepared replacement")
  func notMadeAnew() throws {
    for suffix in ["", "-wal", ".rebuilt"] {
      try folder.write(Data("x".utf8), to: folder.database + suffix)
      #expect(
        refusal()
          == .unusableKey(
            source: folder.key,
            detail: "it is missing, and the database in \(folder.state) is sealed under the key that it had"),
        "\(suffix)")
      #expect(!FileManager.default.fileExists(atPath: folder.key))
      unlink(folder.database + suffix)
    }
    #expect(refusal() == nil)
    try folder.write(Data("x".utf8), to: folder.database)
    #expect(refusal() == nil)
  }

  @Test("has errors that are the store's")
  func errors() {
    let errors: [(SealingError, StoreError)] = [
      (.unusableKey(source: "k", detail: "d"), .unusableKey(source: "k", detail: "d")),
      (.unusableFolder(path: "p", detail: "d"), .unreadable(path: "p", detail: "d")),
      (.unwritable(path: "p", detail: "d"), .unwritable(path: "p", detail: "d")),
    ]
    for (error, expected) in errors { #expect(StoreError(error) == expected) }
  }
}
