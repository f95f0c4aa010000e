import Foundation
import Sealing
import Testing

@Suite("The keys of a store")
struct KeyringTests {
  let folder = TemporaryFolder()

  private func fileKey() throws -> SealingKey { try folder.key.loadOrCreate { nil } }

  private func note(under key: SealingKey) throws -> Data { try Keyring.note(under: key.sealer) }

  /// What the store's note is under, in words.
  private func found(_ note: Data, _ keyring: Keyring) -> String {
    do throws(Sealer.Failure) {
      switch try keyring.find(note) {
      case .key: return "key"
      case .next(let key): return "next of \(key.source)"
      case .previous(let key): return "previous \(key.source)"
      }
    } catch {
      return "\(error)"
    }
  }

  @Test("the note of an earlier version is found")
  func earlier() {
    let note = bytes(hex: "01bc4ee36542dc69ddb9ccc233b43b08a57b234317621c527a37a8a2715664bc45c7e10aadc3e2")
    #expect(found(note, Keyring(Sample.key)) == "key")
  }

  @Test("the note names the key, even a previous one, or none")
  func finds() throws {
    let old = Sample.key(String(repeating: "ab12", count: 16), source: "old")
    let keyring = Keyring(Sample.key, previous: [old])
    #expect(try found(note(under: Sample.key), keyring) == "key")
    #expect(try found(note(under: old), keyring) == "previous old")
    #expect(try found(note(under: Sample.otherKey), keyring) == "otherKey")
    #expect(
      try found(
        Sample.key.sealer.seal(Data("grantd".utf8), at: Place(table: "meta", row: []), column: "value"), keyring)
        == "damaged")
    #expect(found(Data(), keyring) == "damaged")
  }

  @Test("settle on the key, and say which of the previous ones nothing is under")
  func previous() throws {
    let keys = ["ab12", "cd34"].map { Sample.key(String(repeating: $0, count: 16), source: $0) }
    let keyring = Keyring(Sample.key, previous: keys)
    #expect(keyring.settledNew.notices == [.unneeded(source: "ab12"), .unneeded(source: "cd34")])
    #expect(keyring.mayLeaveOldValues(.key))
    #expect(keyring.finish(.key).notices == [.unneeded(source: "ab12"), .unneeded(source: "cd34")])
    let under = try keyring.find(note(under: keys[1]))
    guard case .previous(let old) = under else {
      Issue.record("\(under)")
      return
    }
    #expect(throws: Never.self) { try Keyring(keys[1]).find(Keyring.note(under: old.sealer)) }
    #expect(keyring.mayLeaveOldValues(under))
    #expect(keyring.finish(under).notices == [.resealed(under: "test", from: "cd34"), .unneeded(source: "ab12")])
  }

  @Test("a rotation that ended before the store was sealed again is undone")
  func takenBack() throws {
    let old = try fileKey()
    _ = try folder.key.makeNext()
    let keyring = Keyring(try fileKey())
    let under = try keyring.find(note(under: old))
    #expect(found(try note(under: old), keyring) == "key")
    #expect(keyring.mayLeaveOldValues(under))
    #expect(keyring.finish(under).notices.isEmpty)
    #expect(try folder.keyFiles() == ["grantd.key"])
    #expect(!keyring.mayLeaveOldValues(.key))
    #expect(try Keyring(fileKey()).find(note(under: old)).isKey)
  }

  @Test("a rotation that ended after the store was sealed again is finished")
  func finished() throws {
    _ = try fileKey()
    let new = try folder.key.makeNext()
    let keyring = Keyring(try fileKey())
    #expect(found(try note(under: new), keyring) == "next of \(folder.key.path)")
    let under = try keyring.find(note(under: new))
    #expect(keyring.mayLeaveOldValues(under))
    let settled = keyring.finish(under)
    #expect(settled.notices == [.finished(file: folder.key.path)])
    #expect(try Keyring(settled.key).find(note(under: new)).isKey)
    #expect(try folder.keyFiles() == ["grantd.key"])
    #expect(try Keyring(fileKey()).find(note(under: new)).isKey)
  }

  @Test("the file of a rotation with a key that is a previous one now is found too")
  func previousNext() throws {
    _ = try fileKey()
    let new = try folder.key.makeNext()
    let old = try #require(try folder.key.load())
    let keyring = Keyring(Sample.key, previous: [old])
    let under = try keyring.find(note(under: new))
    guard case .previous(let old) = under else {
      Issue.record("\(under)")
      return
    }
    #expect(throws: Never.self) { try Keyring(new).find(Keyring.note(under: old.sealer)) }
    #expect(keyring.finish(under).notices == [.resealed(under: "test", from: folder.key.path)])
    // That of another key is not removed: it may be the last copy.
    #expect(try folder.keyFiles() == ["grantd.key", "grantd.key.next"])
  }

  @Test("the last copy of a key is never removed")
  func lastCopy() throws {
    let key = try fileKey()
    let keyring = Keyring(key)
    _ = try folder.key.makeNext()
    #expect(rename(folder.key.next, folder.key.path) == 0)
    try folder.write(Data("\(key.exposedText)\n".utf8), to: folder.key.next)
    #expect(!keyring.mayLeaveOldValues(.key))
    _ = keyring.finish(.key)
    #expect(try folder.keyFiles() == ["grantd.key", "grantd.key.next"])
  }
}

extension Keyring.StoreKeyState {
  fileprivate var isKey: Bool { if case .key = self { true } else { false } }
}
