import Broker
import Foundation
import SQLiteStore
import Sealing
import Testing

@testable import grantd

/// Which key a store is opened with, and which earlier ones are tried.
@Suite struct SealingKeysTests {
  private let folder = NSTemporaryDirectory() + "sealing-keys-\(UUID().uuidString)"
  private var state: String { folder + "/state" }
  private var credentials: String { folder + "/credentials" }

  private func prepared(_ files: [String: SealingKey]) throws {
    for name in ["state", "credentials"] {
      try FileManager.default.createDirectory(
        atPath: "\(folder)/\(name)", withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }
    for (name, key) in files {
      #expect(
        FileManager.default.createFile(
          atPath: "\(folder)/\(name)", contents: Data(key.exposedText.utf8), attributes: [.posixPermissions: 0o600]))
    }
  }

  private func keys(file: String? = nil, isService: Bool = true) throws -> SealingKeys {
    try SealingKeys(file, folder: state, credentials: isService ? credentials : nil)
  }

  @Test("the configured file precedes the credential, and that the file in the state folder")
  func order() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let (configured, credential, own) = (
      SealingKey.random(source: "1"), SealingKey.random(source: "2"), SealingKey.random(source: "3")
    )
    try prepared(["key": configured, "credentials/grantd.key": credential, "state/grantd.key": own])
    let first = try keys(file: folder + "/key")
    #expect(first.key.exposedText == configured.exposedText && first.key.source == folder + "/key")
    #expect(first.previous.count == 1 && first.previous[0].exposedText == own.exposedText)
    let second = try keys()
    #expect(
      second.key.exposedText == credential.exposedText && second.previous.count == 1
        && second.previous[0].exposedText == own.exposedText)
    let third = try keys(isService: false)
    #expect(third.key.exposedText == own.exposedText && third.previous.isEmpty)
  }

  @Test("an earlier key comes from its credential")
  func previous() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let (new, old) = (SealingKey.random(source: "1"), SealingKey.random(source: "2"))
    try prepared(["credentials/grantd.key": new, "credentials/grantd.key.previous": old])
    let found = try keys()
    #expect(
      found.key.exposedText == new.exposedText && found.previous.count == 1
        && found.previous[0].exposedText == old.exposedText)
  }

  @Test("the key file of the state folder under another name is not an earlier key")
  func link() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try prepared(["state/grantd.key": .random(source: "1")])
    try FileManager.default.linkItem(atPath: state + "/grantd.key", toPath: folder + "/key")
    #expect(try keys(file: folder + "/key").previous.isEmpty)
  }

  @Test("without any key one is made in the state folder, and found again")
  func made() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try prepared([:])
    let made = try keys()
    #expect(made.key.source == state + "/grantd.key" && made.previous.isEmpty)
    #expect(try keys(isService: false).key.exposedText == made.key.exposedText)
  }

  @Test(
    "a credential that is not a key is an error: no other key is taken instead",
    arguments: ["grantd.key", "grantd.key.previous"])
  func damaged(_ name: String) throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try prepared(["state/grantd.key": .random(source: "1")])
    #expect(FileManager.default.createFile(atPath: "\(credentials)/\(name)", contents: Data("short".utf8)))
    #expect(throws: StoreError.self) { try keys() }
  }
}
