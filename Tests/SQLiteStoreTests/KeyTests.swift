import Broker
import Foundation
import SQLiteStore
import Testing

@Suite("The sealing key")
struct KeyTests {
  let folder = TemporaryFolder()

  private let bytes = Data(0..<32)

  private func refusal(_ load: () throws(StoreError) -> SealingKey) -> String? {
    do throws(StoreError) {
      _ = try load()
      return nil
    } catch .unusableKey(_, let detail) {
      return detail
    } catch {
      return "another error: \(error)"
    }
  }

  @Test("is 32 bytes, or their hexadecimal or base64 text")
  func forms() async throws {
    try await folder.fill(Sample.everything)
    let base64 = bytes.base64EncodedString()
    let forms = [
      bytes, Data(Sample.keyText.utf8), Data(Sample.keyText.uppercased().utf8), Data("\(base64)\n".utf8),
      Data(" \(base64.dropLast()) ".utf8),
    ]
    for form in forms {
      let store = try folder.open(SealingKey.load(credential: form, source: "credential grantd.key"))
      #expect(try await store.load() == Sample.state)
      await store.close()
    }
  }

  @Test(
    "is refused in any other form",
    arguments: [
      Data(), Data([1]), Data(0..<31), Data(0..<33), Data(count: 32), Data("0123456789abcdef0123456789abcdef".utf8),
      Data("secret\n".utf8), Data(String(repeating: "0", count: 64).utf8), Data(count: 100_000),
      Data(Data(0..<31).base64EncodedString().utf8), Data(String(repeating: "zz", count: 32).utf8),
    ])
  func badForms(contents: Data) {
    #expect(refusal { () throws(StoreError) in try SealingKey.load(credential: contents, source: "x") } != nil)
  }

  @Test("is made at the first start, closed to others, and the same ever after")
  func made() async throws {
    let first = try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
    #expect(try folder.mode(folder.key) == 0o600)
    #expect(try folder.mode(folder.path + "/key") == 0o700)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path + "/key") == ["grantd.key"])
    let store = try folder.open(first)
    try await store.commit(Sample.everything)
    await store.close()
    let again = try folder.open(SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state))
    #expect(try await again.load() == Sample.state)
    await again.close()
    #expect(first.source == folder.key)
    #expect(!"\(first)".contains(try String(contentsOfFile: folder.key, encoding: .utf8).prefix(20)))
  }

  @Test("is one key, however many make it at once")
  func madeAtOnce() async throws {
    let keys = await withTaskGroup(of: SealingKey?.self) { group in
      for _ in 0..<16 {
        group.addTask { [folder] in try? SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state) }
      }
      return await group.reduce(into: [SealingKey?]()) { $0.append($1) }
    }
    for key in keys {
      let store = try folder.open(#require(key))
      await store.close()
    }
  }

  @Test("is not made anew where there is a database")
  func notMadeAnew() async throws {
    try await folder.fill(Sample.everything)
    let detail = refusal { () throws(StoreError) in
      try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
    }
    #expect(detail?.contains("missing") == true)
    #expect(!FileManager.default.fileExists(atPath: folder.key))
  }

  @Test("is refused where others may use its file", arguments: [0o640, 0o604, 0o620, 0o660, 0o601])
  func openToOthers(mode: Int) throws {
    _ = try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: folder.key)
    let detail = refusal { () throws(StoreError) in
      try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
    }
    #expect(detail?.contains(String(mode, radix: 8)) == true)
  }

  @Test("is refused where its file belongs to another user", .enabled(if: geteuid() == 0))
  func anothers() throws {
    _ = try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
    #expect(chown(folder.key, 65534, 65534) == 0)
    let detail = refusal { () throws(StoreError) in
      try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state)
    }
    #expect(detail?.contains("belongs to user 65534") == true)
  }

  @Test("is not read through a link, from a folder, or with the wrong length")
  func strangeFiles() throws {
    try folder.write(bytes, to: folder.path + "/key/other")
    #expect(symlink("other", folder.key) == 0)
    func load() -> String? {
      refusal { () throws(StoreError) in try SealingKey.loadOrCreate(file: folder.key, stateFolder: folder.state) }
    }
    #expect(load() != nil)
    unlink(folder.key)
    mkdir(folder.key, 0o700)
    #expect(load() != nil)
    rmdir(folder.key)
    try folder.write(Data(0..<31), to: folder.key)
    chmod(folder.key, 0o600)
    #expect(load()?.contains("32") == true)
  }
}
