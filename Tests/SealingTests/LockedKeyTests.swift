import Foundation
import OAuth
import Testing

@testable import Sealing

@Suite("The key of a locked broker", .timeLimit(.minutes(5)))
struct LockedKeyTests {
  private static let passphrase = Secret("eleven small boats")
  private let folder = NSTemporaryDirectory() + "locked-key-\(UUID().uuidString)"
  private var file: KeyFile { KeyFile("\(folder)/grantd.key") }

  private func failure(_ work: () throws(LockedKey.Failure) -> Void) -> LockedKey.Failure? {
    do throws(LockedKey.Failure) {
      try work()
      return nil
    } catch { return error }
  }

  @Test("is only under the passphrase while locked, and in its file after the unlock")
  func locksAndUnlocks() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let key = try file.loadOrCreate { nil }
    let locked = LockedKey(folder: folder)
    #expect(!locked.isLocked && !locked.holds(key))
    #expect(failure { () throws(LockedKey.Failure) in _ = try locked.lock(key, nil) } == .needsPassphrase)
    #expect(try locked.lock(key, Self.passphrase))
    #expect(locked.isLocked && locked.removeKeyFile() && !locked.removeKeyFile())
    #expect(try file.load() == nil)
    let text = Data(key.exposedText.utf8)
    for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
      #expect(try Data(contentsOf: URL(filePath: "\(folder)/\(name)")).range(of: text) == nil)
    }
    #expect(
      failure { () throws(LockedKey.Failure) in try locked.unlock(Secret("eleven small boatz")) } == .wrongPassphrase)
    #expect(locked.isLocked)
    try locked.unlock(Self.passphrase)
    #expect(!locked.isLocked && file.has(key))
    // The next lock needs no passphrase.
    #expect(try locked.lock(key, nil))
  }

  @Test("a key file with another key is not removed, and a key of before a rotation is forgotten")
  func otherKeys() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let key = try file.loadOrCreate { nil }
    let locked = LockedKey(folder: folder)
    #expect(try locked.lock(key, Self.passphrase))
    try FileManager.default.removeItem(atPath: file.path)
    let other = try file.loadOrCreate { nil }
    #expect(!locked.removeKeyFile() && file.has(other))
    try FileManager.default.removeItem(atPath: locked.mark)
    locked.removeOther(than: key)
    #expect(locked.holds(key))
    locked.removeOther(than: other)
    #expect(!locked.holds(key))
  }

  @Test("a key from elsewhere is locked, and its place is not removed")
  func elsewhere() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    _ = try file.loadOrCreate { nil }
    let given = SealingKey.random(source: "a credential")
    let locked = LockedKey(folder: folder)
    #expect(try !locked.lock(given, Self.passphrase))
    #expect(!locked.removeKeyFile())
    try locked.unlock(Self.passphrase)
    #expect(!locked.isLocked)
  }
}
