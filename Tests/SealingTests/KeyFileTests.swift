import Foundation
import Sealing
import Testing

@Suite("A key's file")
struct KeyFileTests {
  let folder = TemporaryFolder()

  private var file: KeyFile { folder.key }

  @discardableResult
  private func made() throws -> SealingKey { try file.loadOrCreate { nil } }

  private func refusal(sealed: String? = nil) -> String? {
    do throws(SealingError) {
      _ = try file.loadOrCreate { sealed }
      return nil
    } catch .unusableKey(file.path, let detail) {
      return detail
    } catch {
      return "another error: \(error)"
    }
  }

  @Test("is made at the first start, closed to others, and the same ever after")
  func isMade() throws {
    #expect(try file.load() == nil)
    let first = try made()
    #expect(try folder.mode(file.path) == 0o600)
    #expect(try folder.mode(folder.path + "/key") == 0o700)
    #expect(try folder.keyFiles() == ["grantd.key"])
    #expect(try folder.contents(file.path) == Data("\(first.exposedText)\n".utf8))
    #expect(try made().exposedText == first.exposedText)
    #expect(first.source == file.path && first.file == file)
  }

  @Test("has one key, however many make it at once")
  func madeAtOnce() async throws {
    let keys = await withTaskGroup(of: String?.self) { group in
      for _ in 0..<16 { group.addTask { [file] in try? file.loadOrCreate { nil }.exposedText } }
      return await group.reduce(into: Set<String?>()) { $0.insert($1) }
    }
    #expect(keys == [try file.load()?.exposedText])
    #expect(try folder.keyFiles() == ["grantd.key"])
  }

  @Test("is not made again if data are sealed under the old key")
  func notMadeAnew() throws {
    #expect(
      refusal(sealed: "the database in /x")
        == "it is missing, and the database in /x is sealed under the key that it had")
    #expect(!FileManager.default.fileExists(atPath: file.path))
    try folder.write(Data(), to: file.next)
    #expect(refusal(sealed: "it all")?.hasSuffix("; an interrupted rotation left \(file.next)") == true)
    // With the file there is no question.
    try made()
    #expect(refusal(sealed: "it all") == nil)
  }

  @Test("is refused where others may use it", arguments: [0o640, 0o604, 0o620, 0o660, 0o601])
  func openToOthers(mode: Int) throws {
    try made()
    chmod(file.path, mode_t(mode))
    #expect(refusal()?.contains(String(mode, radix: 8)) == true)
  }

  @Test("is refused where it belongs to another user", .enabled(if: geteuid() == 0))
  func anothers() throws {
    try made()
    #expect(chown(file.path, 65534, 65534) == 0)
    #expect(refusal()?.contains("belongs to user 65534") == true)
  }

  @Test("is not made in a folder where others may write")
  func openFolder() throws {
    let parent = folder.path + "/key"
    try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
    chmod(parent, 0o777)
    #expect(
      throws: SealingError.unusableFolder(path: parent, detail: "others may write in the folder (mode 777)")
    ) { try made() }
    #expect(try folder.keyFiles().isEmpty)
  }

  @Test("is not read through a link, from a folder, or with the wrong length")
  func strangeFiles() throws {
    try folder.write(Data(0..<32), to: folder.path + "/key/other")
    #expect(symlink("other", file.path) == 0)
    #expect(refusal() != nil)
    unlink(file.path)
    mkdir(file.path, 0o700)
    #expect(refusal() == "it is not a regular file")
    rmdir(file.path)
    try folder.write(Data(0..<31), to: file.path)
    #expect(refusal()?.contains("32") == true)
  }

  // MARK: Rotation

  @Test("has the next key next to it until that is installed, which overwrites the old one but not copies")
  func rotates() throws {
    let old = try made()
    let first = try #require(FileHandle(forReadingAtPath: file.path))
    let new = try file.makeNext()
    #expect(try folder.mode(file.next) == 0o600)
    #expect(new.file == file && new.exposedText != old.exposedText)
    #expect(try file.load()?.exposedText == old.exposedText)
    try file.installNext()
    #expect(try first.readToEnd().map { Set($0) } == [0])
    #expect(try folder.keyFiles() == ["grantd.key"])
    #expect(try file.load()?.exposedText == new.exposedText)
    let copy = folder.path + "/key/copy"
    #expect(link(file.path, copy) == 0)
    _ = try file.makeNext()
    try file.installNext()
    #expect(try folder.contents(copy) == Data("\(new.exposedText)\n".utf8))
  }

  @Test("keeps its key where the next one cannot be written or installed")
  func fails() throws {
    let old = try made()
    let next = try file.makeNext()
    #expect(throws: SealingError.unwritable(path: file.next, detail: "File exists")) { try file.makeNext() }
    #expect(try folder.contents(file.next) == Data("\(next.exposedText)\n".utf8))
    file.removeNext()
    #expect(throws: SealingError.unwritable(path: file.path, detail: "No such file or directory")) {
      try file.installNext()
    }
    #expect(try file.load()?.exposedText == old.exposedText)
    let elsewhere = KeyFile(folder.path + "/nowhere/key")
    #expect(throws: SealingError.unwritable(path: elsewhere.next, detail: "No such file or directory")) {
      try elsewhere.makeNext()
    }
  }

  @Test("takes the file of an earlier rotation only if it has the active key")
  func leftOver() throws {
    let old = try made()
    #expect(try file.finishRotation(to: old) == false)
    let new = try file.makeNext()
    #expect(try file.finishRotation(to: old) == true)
    #expect(try folder.keyFiles() == ["grantd.key", "grantd.key.next"])
    #expect(try file.finishRotation(to: new) == false)
    #expect(try folder.keyFiles() == ["grantd.key"])
    #expect(try file.load()?.exposedText == new.exposedText)
  }

  // MARK: The key in memory

  private func keep(_ key: SealingKey, restores: Bool, inside folder: String? = nil) throws -> String? {
    try file.keep(key, inside: folder ?? self.folder.path + "/key/", restores: restores)
  }

  @Test("is written again where the store's folder lost it, and nowhere else")
  func kept() throws {
    let key = try made()
    #expect(try keep(key, restores: false) == file.path)
    unlink(file.path)
    #expect(try keep(key, restores: false) == nil)
    #expect(try keep(key, restores: true, inside: folder.path) == nil)
    #expect(try folder.keyFiles().isEmpty)
    #expect(try keep(key, restores: true) == file.path)
    #expect(try file.load()?.exposedText == key.exposedText)
  }

  @Test("with another key in it keeps the active one next to it, and removes none")
  func keptBeside() throws {
    let key = try made()
    try folder.write(Data("\(Sample.key.exposedText)\n".utf8), to: file.path)
    try folder.write(Data("\(Sample.otherKey.exposedText)\n".utf8), to: file.next)
    #expect(try keep(key, restores: true) == file.next)
    #expect(try keep(key, restores: true) == file.next)
    #expect(try folder.contents(file.next) == Data("\(key.exposedText)\n".utf8))
    #expect(try folder.contents(file.next + ".aside") == Data("\(Sample.otherKey.exposedText)\n".utf8))
    #expect(try file.load()?.exposedText == Sample.key.exposedText)
  }
}
