import BrokerAPI
import Grants
import OAuth
import Providers
import Synchronization
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct FileReleaseTests {
  private let path = "/run/files/mail"

  private func file(
    _ name: String = "work", path: String? = nil, reader: TokenFile.Reader = .user(1001, gid: 1001, groups: [50]),
    format: TokenFileFormat = .token, scopes: [String]? = nil
  ) -> TokenFile {
    TokenFile(
      place: .init(path: path ?? self.path), name: path ?? self.path, account: account(name), format: format,
      reader: reader, scopes: scopes)
  }

  private func configuration(_ files: [TokenFile], _ rules: [Rule]? = nil) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.plain(
      [OAuthProvider(.plain { $0.refresh.narrowing = .verified })],
      rules: rules ?? [Rule(name: "reader", uid: 1001, gid: nil, accounts: ["*"], access: [.use])])
    configuration.files = files
    return configuration
  }

  private func rig(
    _ files: MemoryFiles, _ configuration: BrokerConfiguration, store: MemoryStore? = nil
  ) async throws -> Rig {
    let own = MemoryStore()
    if store == nil { try await own.signIn("work") }
    let rig = try await Rig(store: store ?? own, configuration: configuration, tokenFiles: files)
    rig.transport.answer(.token, TokenServer.rotating)
    return rig
  }

  private func reload(_ rig: Rig, _ configuration: BrokerConfiguration) async throws {
    rig.reading.value = .success(configuration)
    _ = try await rig.broker.reload()
  }

  @Test("The file has the token, and each new one at once") func fresh() async throws {
    let files = MemoryFiles()
    let rig = try await rig(files, configuration([file(), file(path: "/run/files/header", format: .header)]))
    #expect(await eventually { files[path] == "work-a1" && files.count == 2 })
    #expect(files["/run/files/header"] == "Authorization: Bearer work-a1\n")
    _ = try await rig.call(AccountRefresh.self, .init(account: "work"))
    #expect(await eventually { files[path] != "work-a1" })
    #expect(files[path] == (try await rig.token("work").access_token))
    // Once for each token, though the account changes more often.
    #expect(await eventually { files.writes == 4 })
    await settle()
    #expect(files.writes == 4)
  }

  @Test("Each written token is recorded for its reader and reported by an event") func trail()
    async throws
  {
    let files = MemoryFiles()
    let rig = try await rig(files, configuration([file()]))
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(events: ["file.written"]), on: session)
    #expect(await eventually { files[path] != nil })
    _ = try await rig.call(AccountRefresh.self, .init(account: "work"))
    #expect(await eventually { session.types.contains("file.written") && files.writes == 2 })
    #expect(
      await eventually {
        await rig.broker.finishTrail()
        return rig.audit.records.count { $0.entry.method == "file" } == 2
      })
    let entries = rig.audit.records.map(\.entry).filter { $0.method == "file" }
    #expect(entries.map(\.generation) == [1, 2])
    #expect(entries.allSatisfy { $0.who.uid == 1001 && $0.rule == "reader" && $0.detail == path && $0.result == "ok" })
  }

  @Test("a file that another program changes or deletes is written again, and reported; after many times more slowly")
  func restored() async throws {
    let files = MemoryFiles()
    let rig = try await rig(files, configuration([file()]))
    #expect(await eventually { files[path] == "work-a1" })
    await settle()
    files.overwrite(path, with: nil)
    #expect(await eventually { files[path] == "work-a1" })
    files.overwrite(path, with: "other")
    #expect(await eventually { files[path] == "work-a1" })
    #expect(await eventually { (try? await rig.call(BrokerStatus.self, .init()).files?.first?.restored) == 2 })
    #expect(try await rig.call(BrokerStatus.self, .init()).files?.first?.restored_at != nil)
    // A new token does not count.
    _ = try await rig.call(AccountRefresh.self, .init(account: "work"))
    #expect(await eventually { files[path] == "work-a2" })
    #expect(try await rig.call(BrokerStatus.self, .init()).files?.first?.restored == 2)
    for _ in 0..<20 {
      files.overwrite(path, with: "other")
      await settle()
    }
    #expect(try await rig.call(BrokerStatus.self, .init()).files?.first?.restored ?? 0 < 12)
  }

  @Test("Without a right there is no file; a rule for a unit gives none, since a reader's unit is unknown")
  func rights() async throws {
    let files = MemoryFiles()
    var unit = Rule(name: "unit", uid: 1001, gid: nil, accounts: ["*"], access: [.use])
    unit.who.unit = "mail.service"
    for rules in [[], [Rule(name: "other", uid: 1002, gid: nil, accounts: ["*"], access: [.use])], [unit]] {
      let rig = try await rig(files, configuration([file()], rules))
      #expect(
        await eventually { (try? await rig.call(BrokerStatus.self, .init()).files?.first?.reason) == "not_permitted" })
      #expect(files.count == 0)
    }
    var asking = Rule(name: "asking", uid: 1001, gid: nil, accounts: ["*"], access: [.use])
    asking.confirm = .seconds(60)
    let rig = try await rig(files, configuration([file()], [asking]))
    #expect(await eventually { (try? await rig.call(BrokerStatus.self, .init()).files?.first?.state) == "absent" })
    #expect(try await rig.call(BrokerStatus.self, .init()).files?.first?.message?.contains("cannot wait") == true)
    #expect(files.count == 0)
    let group = Rule(name: "group", uid: nil, gid: 50, accounts: ["*"], access: [.use])
    for reader in [TokenFile.Reader.group(50), .user(1001, gid: 1001, groups: [50])] {
      _ = try await self.rig(files, configuration([file(reader: reader)], [group]))
      #expect(await eventually { files[path] == "work-a1" })
      files[path] = nil
    }
  }

  @Test("The file of a reader who left the group of the rule is removed") func leftGroup() async throws {
    let files = MemoryFiles()
    let rule = Rule(name: "group", uid: nil, gid: 50, accounts: ["*"], access: [.use])
    let rig = try await rig(files, configuration([file()], [rule]))
    #expect(await eventually { files[path] == "work-a1" })
    files.groups.withLock { $0[1001] = [1001] }
    _ = try await rig.call(AccountRefresh.self, .init(account: "work"))
    #expect(await eventually { files[path] == nil })
  }

  @Test("A cap on scopes narrows the token of the file, or there is none") func caps() async throws {
    let files = MemoryFiles()
    let store = MemoryStore()
    try await store.signIn("work", scopes: ["mail", "files"])
    var rule = Rule(name: "mail", uid: 1001, gid: nil, accounts: ["*"], access: [.use])
    rule.scopes = ["mail"]
    let rig = try await rig(files, configuration([file()], [rule]), store: store)
    #expect(await eventually { files[path] != nil })
    #expect(rig.transport.requests(.token).last?.form["scope"] == "mail")
    try await reload(rig, configuration([file(scopes: ["files"])], [rule]))
    #expect(await eventually { files.count == 0 })
  }

  @Test("It is removed by a logout, by a right that is taken, by a reload without it, and at the next start")
  func removed() async throws {
    let files = MemoryFiles()
    let store = MemoryStore()
    try await store.signIn("work")
    let whole = configuration([file()])
    var rig = try await rig(files, whole, store: store)
    #expect(await eventually { files[path] != nil })
    // Else the broker looks at the file again after the next one has removed it.
    await settle()
    try await reload(rig, configuration([file()], []))
    #expect(await eventually { files.count == 0 })
    try await reload(rig, whole)
    #expect(await eventually { files[path] != nil })
    try await reload(rig, configuration([]))
    #expect(await eventually { files.count == 0 })
    try await reload(rig, whole)
    #expect(await eventually { files[path] != nil })
    await settle()
    // A broker that was killed, and one that has another configuration after it.
    rig = try await self.rig(files, configuration([]), store: store)
    #expect(await eventually { files.count == 0 })
    rig = try await self.rig(files, whole, store: store)
    #expect(await eventually { files[path] != nil })
    await settle()
    _ = try await rig.call(AccountLogout.self, .init(account: "work"))
    #expect(await eventually { files.count == 0 })
    rig = try await self.rig(files, configuration([]), store: store)
    #expect(await eventually { await rig.broker.journal.values["files"] == "[]" })
  }

  @Test("A file is removed within a second while a refresh for it hangs") func removedMeanwhile() async throws {
    let files = MemoryFiles()
    let rig = try await rig(files, configuration([file()]))
    #expect(await eventually { files[path] != nil })
    await settle()
    rig.transport.hold(.token)
    rig.clock.advance(.seconds(4000))
    #expect(await eventually { rig.transport.held(.token) == 1 })
    await settle()
    try await reload(rig, configuration([]))
    rig.clock.advance(.seconds(1))
    #expect(await eventually { files.count == 0 })
    rig.transport.release(.token)
  }

  @Test("A grant that has ended has no file; an outage leaves the last one") func ended() async throws {
    let files = MemoryFiles()
    let rig = try await rig(files, configuration([file()]))
    #expect(await eventually { files[path] != nil })
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    rig.clock.advance(.seconds(4000))
    #expect(await eventually { (try? await rig.call(BrokerStatus.self, .init()).files?.first?.state) == "stale" })
    #expect(files[path] == "work-a1")
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    rig.clock.advance(.seconds(400))
    _ = await rig.reasonInTime { try await rig.token("work") }
    #expect(await eventually { files.count == 0 })
    #expect(try await rig.call(BrokerStatus.self, .init()).files?.first?.reason == "login_required")
  }

  @Test("A failing disk is reported and tried again") func failing() async throws {
    let files = MemoryFiles()
    files.fail(TokenFileFailure("no room", hint: "Make some."))
    let rig = try await rig(files, configuration([file()]))
    #expect(await eventually { (try? await rig.call(BrokerStatus.self, .init()).files?.first?.message) == "no room" })
    files.fail(nil)
    rig.clock.advance(.seconds(6))
    #expect(await eventually { files[path] == "work-a1" })
    #expect(await eventually { (try? await rig.call(BrokerStatus.self, .init()).files?.first?.state) == "ok" })
  }

  @Test("The status has the files of accounts that the caller may observe") func status() async throws {
    let files = MemoryFiles()
    let rules = [
      Rule(name: "reader", uid: 1001, gid: nil, accounts: ["*"], access: [.use]),
      Rule(name: "looker", uid: 1002, gid: nil, accounts: ["home"], access: [.observe]),
    ]
    let rig = try await rig(files, configuration([file()], rules))
    #expect(await eventually { files[path] != nil })
    #expect(try await rig.call(BrokerStatus.self, .init()).files?.map(\.path) == [path])
    #expect(try await rig.call(BrokerStatus.self, .init(), as: .user(1002)).files == nil)
  }
}
