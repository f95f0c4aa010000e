import Broker
import Foundation
import Grants
import Logging
import OAuth
import SQLiteStore
import Sealing
import TestSupport
import Testing

@testable import grantd

/// The emergency copy of tokens that the state folder refuses at a stop, and the messages about it.
@Suite struct EmergencyStoreTests {
  /// A folder that is removed after the test.
  private final class Folder {
    let path = NSTemporaryDirectory() + "grantd-emergency-\(UUID().uuidString.prefix(8))"
    let key = SealingKey.random(source: "test")
    var state: String { path + "/state" }
    var runtime: String { path + "/runtime" }
    /// The emergency copy in ``runtime``.
    var copy: String { "\(runtime)/\(Places.name(of: state)).unsaved.db" }

    init() throws { try make(path) }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func open() throws -> SQLiteStore { try SQLiteStore.open(folder: state, key: key, pageLimit: nil) }

    func make(_ folder: String, mode: Int = 0o700) throws {
      try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: mode])
      // For any umask.
      try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: folder)
    }

    func write(_ text: String, to file: String) -> Bool {
      FileManager.default.createFile(
        atPath: file, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
    }

    /// Folders that cannot be made, since a file has the name of their parent.
    func refusing(_ names: [String]) -> [String] {
      #expect(write("", to: path + "/file"))
      return names.map { "\(path)/file/\($0)" }
    }
  }

  private static let full = StoreError.unwritable(path: "/state/grantd.db", detail: "No space left on device")

  private func stored(_ name: String) throws -> StoredAccount {
    let (account, provider) = (AccountName(rawValue: name), ProviderName(rawValue: "op"))
    let grant = SavedGrant(
      account: try #require(account), provider: try #require(provider), identity: nil, requestedScopes: [],
      grantedScopes: [], refreshToken: Secret("refresh"), generation: 1, createdAt: Timestamp(milliseconds: 1),
      loggedInAt: Timestamp(milliseconds: 2))
    return StoredAccount(grant: grant, tokens: [], intent: nil)
  }

  private func accounts(_ names: [String]) throws -> [any PackedAccount] {
    try names.map { name -> any PackedAccount in UnpackedAccount(try stored(name)) }
  }

  @Test("if another broker owns the state, the message names the accounts that were not saved, 500 at most")
  func lost() throws {
    let store = EmergencyStore(in: [], state: "/state", isUser: false)
    let owner = StoreError.owned(path: "/state", pid: 42)
    let none = store.lost([], to: owner)
    #expect(none.message == owner.message && none.hint == owner.hint && none.status == 1)
    let two = store.lost(try accounts(["work", "home"]), to: owner)
    #expect(two.message == "\(owner.message); the latest tokens of work, home were not saved")
    let many = store.lost(try accounts((1...502).map { "a\($0)" }), to: owner)
    #expect(many.message.hasSuffix(", a499, a500 and 2 more were not saved"))
  }

  @Test(
    "the hint of a state that cannot be opened names an existing copy, and when it disappears",
    arguments: [(false, "the machine is restarted"), (true, "you log out")])
  func mention(isUser: Bool, end: String) throws {
    let folder = try Folder()
    let store = EmergencyStore(in: [folder.path, folder.runtime], state: folder.state, isUser: isUser)
    var failure = DaemonFailure(message: "it is damaged", hint: "Restore a backup.", status: 65)
    store.mention(in: &failure)
    #expect(failure.hint == "Restore a backup.")
    try folder.make(folder.runtime)
    #expect(folder.write("", to: folder.copy))
    store.mention(in: &failure)
    #expect(
      failure.hint.hasPrefix(
        "Restore a backup. The latest tokens of the last stop are in \(folder.copy), which goes when \(end): "))
    #expect(failure.message == "it is damaged" && failure.status == 65)
  }

  @Test("tokens are saved in the first folder that takes them, and the next start restores them")
  func saves() async throws {
    let folder = try Folder()
    let store = EmergencyStore(
      in: folder.refusing(["socket"]) + [folder.runtime], state: folder.state, isUser: true)
    let state = try folder.open()
    let nothing = await store.save([], with: StoredState(), of: state, because: Self.full)
    #expect(nothing == nil && !FileManager.default.fileExists(atPath: folder.copy))
    let account = state.pack(try stored("work"))
    let failure = try #require(await store.save([account], with: StoredState(), of: state, because: Self.full))
    #expect(
      failure.message
        == "the latest tokens of work could not be saved: \(Self.full.message); they are in \(folder.copy)")
    #expect(failure.hint == "Start grantd again before you log out: the next start takes them over.")
    #expect(failure.status == 1)
    await state.close()

    let (next, lines) = (try folder.open(), LoggedLines())
    try await store.takeOver(into: next, lines.logger())
    #expect(lines.all.map(\.text) == ["restored accounts that could not be saved at the last stop: work"])
    #expect(try await next.load().grants.map(\.account.rawValue) == ["work"])
    #expect(!FileManager.default.fileExists(atPath: folder.copy))
    await next.close()
  }

  @Test("if no folder takes the tokens, the message has the reason of each folder once")
  func refused() async throws {
    let folder = try Folder()
    let store = EmergencyStore(
      in: folder.refusing(["socket", "runtime", "socket"]), state: folder.state, isUser: false)
    let state = try folder.open()
    let accounts = try accounts(["work", "home"])
    let failure = try #require(await store.save(accounts, with: StoredState(), of: state, because: nil))
    let (start, reason) = ("the latest tokens of work, home could not be saved, nor elsewhere: ", "Not a directory")
    #expect(failure.message.hasPrefix(start) && failure.message.ranges(of: reason).count == 2)
    #expect(failure.hint.hasPrefix("Make sure that the disk can be written, start grantd, and sign in again "))
    #expect(failure.status == 1)
    await state.close()
  }

  @Test("a copy that is not a database is moved aside, and does not prevent the start")
  func damaged() async throws {
    let folder = try Folder()
    try folder.make(folder.runtime)
    #expect(folder.write("not a database", to: folder.copy))
    let store = EmergencyStore(in: [folder.runtime], state: folder.state, isUser: false)
    let (state, lines) = (try folder.open(), LoggedLines())
    try await store.takeOver(into: state, lines.logger())
    let line = try #require(lines.all.first)
    #expect(line.level == .error && lines.all.count == 1)
    #expect(line.text.hasPrefix("what could not be saved at the last stop cannot be taken over: "))
    #expect(
      line.whole.hasSuffix(" hint=It is in \(folder.copy).unreadable. Sign in again to accounts that need it."))
    #expect(FileManager.default.fileExists(atPath: folder.copy + ".unreadable"))
    await state.close()
  }

  @Test("a copy that cannot be read now prevents the start: it has the latest tokens")
  func unreadable() async throws {
    let folder = try Folder()
    // Another user could have replaced the copy.
    try folder.make(folder.runtime, mode: 0o777)
    #expect(folder.write("", to: folder.copy))
    let store = EmergencyStore(in: [folder.runtime], state: folder.state, isUser: false)
    let (state, lines) = (try folder.open(), LoggedLines())
    let failure = await #expect(throws: DaemonFailure.self) { try await store.takeOver(into: state, lines.logger()) }
    #expect(
      failure?.hint == "See why \(folder.copy) cannot be read, then start grantd again: it has the latest tokens.")
    #expect(failure?.message.contains("others may write in the folder") == true && failure?.status == 1)
    #expect(FileManager.default.fileExists(atPath: folder.copy))
    await state.close()
  }
}
