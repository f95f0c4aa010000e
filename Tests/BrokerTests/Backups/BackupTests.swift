import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Sealing
import Synchronization
import Testing

@testable import Broker

/// An administration of a store whose files are numbers. It keeps the content that it packed.
private final class ScriptedStoreAdministration: StoreAdministration {
  struct State {
    var packed: [Backup] = []
    var rotation: Result<KeyRotation, KeyRotationError> = .success(KeyRotation(file: "/key", accounts: 1, remains: []))
    var opening: Result<Backup, BackupError> = .failure(.file(.foreign))
    var size = 300_000
    var isTooLarge = false
  }

  let state = Mutex(State())

  func rotateKey() async throws(KeyRotationError) -> KeyRotation { try state.withLock { $0.rotation }.get() }

  func checkSize() async throws(BackupError) {
    if state.withLock({ $0.isTooLarge }) { throw .file(.tooLarge(limit: 1 << 20)) }
  }

  func pack(_ backup: Backup, with secret: BackupFile.Secret) async throws(BackupError) -> [UInt8] {
    state.withLock { state in
      state.packed.append(backup)
      return (0..<state.size).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    }
  }

  func unpack(_ file: [UInt8], with secret: BackupFile.Secret) async throws(BackupError) -> Backup {
    try state.withLock { $0.opening }.get()
  }
}

@Suite("Backups through the socket", .scheduled, .timeLimit(.minutes(5))) struct BackupTests {
  private let administration = ScriptedStoreAdministration()
  private let passphrase = SecretText("correct horse battery")

  private func rig(rules: [Rule] = [], store: MemoryStore = MemoryStore()) async throws -> Rig {
    try await Rig(store: store, configuration: .plain(rules: rules), administration: administration)
  }

  private func backup(_ names: [String], change: (inout StoredState) -> Void = { _ in }) async throws -> Backup {
    let store = MemoryStore()
    for name in names { try await store.signIn(name) }
    var state = try await store.load()
    change(&state)
    return Backup(host: "b.example", madeAt: ManualClock.start, version: "0", state: state)
  }

  /// As far as the look.
  private func look(_ rig: Rig, _ backup: Backup, on session: FakeSession) async throws -> String {
    administration.state.withLock { $0.opening = .success(backup) }
    let id = try await rig.call(StoreRestore.self, .init(size: 3), on: session).restore_id
    _ = try await rig.call(StoreRestorePart.self, .init(restore_id: id, offset: 0, data: "AAEC"), on: session)
    let seen = try await rig.call(StoreRestoreLook.self, .init(restore_id: id, passphrase: passphrase), on: session)
    #expect(seen.host == "b.example" && seen.accounts == backup.state.grants.count)
    return id
  }

  private func restore(_ rig: Rig, _ backup: Backup, replace: Bool = false) async throws -> StoreRestoreApply.Result {
    let session = FakeSession(.root)
    let id = try await look(rig, backup, on: session)
    return try await rig.call(
      StoreRestoreApply.self, .init(restore_id: id, moved: true, replace: replace), on: session)
  }

  // MARK: Making

  @Test("A backup comes in parts that are the whole, and is gone with the last")
  func parts() async throws {
    let store = MemoryStore()
    for name in ["work", "home"] { try await store.signIn(name) }
    let rig = try await rig(store: store)
    let session = FakeSession(.root)
    let made = try await rig.call(StoreBackup.self, .init(passphrase: passphrase), on: session)
    #expect(made.size == 300_000 && made.accounts == 2)
    var bytes: [UInt8] = []
    while bytes.count < made.size {
      let part = try await rig.call(
        StoreBackupPart.self, .init(backup_id: made.backup_id, offset: bytes.count), on: session)
      bytes += try #require(Data(base64Encoded: part.data))
    }
    #expect(bytes == (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
    await #expect(throws: RPCError.self) {
      try await rig.call(StoreBackupPart.self, .init(backup_id: made.backup_id, offset: 0), on: session)
    }
    let packed = try #require(administration.state.withLock { $0.packed.last })
    #expect(Set(packed.state.grants.map(\.account.rawValue)) == ["work", "home"])
    #expect(packed.host == "a.example" && packed.state.logins.isEmpty && packed.state.values.isEmpty)
  }

  @Test("One that is too large is refused before it is made") func tooLarge() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await rig(store: store)
    administration.state.withLock { $0.isTooLarge = true }
    #expect(await rig.reason { try await rig.call(StoreBackup.self, .init(passphrase: passphrase)) } == .overloaded)
    #expect(administration.state.withLock { $0.packed.isEmpty })
  }

  @Test("Many accounts are backed up and restored in turns with everything else") func turns() async throws {
    let names = (0..<600).map { "a\($0)" }
    let store = MemoryStore()
    for name in names { try await store.signIn(name) }
    let rig = try await rig(store: store)
    func turns(_ work: @escaping @Sendable () async throws -> Void) async throws -> Int {
      let isDone = Mutex(false)
      let task = Task {
        try await work()
        isDone.withLock { $0 = true }
      }
      var turns = 0
      while !isDone.withLock({ $0 }) {
        await yieldActor()
        turns += 1
        if task.isCancelled { break }
      }
      try await task.value
      return turns
    }
    let passphrase = passphrase
    // Batches of 256 accounts, three times; of 16, three times.
    let made = try await turns {
      _ = try await rig.call(StoreBackup.self, .init(passphrase: passphrase), on: FakeSession(.root))
    }
    #expect(made >= 3 * names.count / Batch.light)
    let backup = try await backup(names)
    let session = FakeSession(.root)
    let id = try await look(rig, backup, on: session)
    let restored = try await turns {
      _ = try await rig.call(StoreRestoreApply.self, .init(restore_id: id, moved: true, replace: true), on: session)
    }
    #expect(restored >= 3 * names.count / Batch.heavy)
  }

  private static let manages = Rule(name: "m", who: .init(uid: 1000), accounts: ["*"], access: [.manage])
  private static let uses = Rule(name: "u", who: .init(uid: 1000), accounts: ["*"], access: [.use])

  @Test(
    "A caller needs `manage` for all accounts, with full tokens and without approval",
    arguments: [
      ([], false), ([manages], false), ([uses], false), ([manages, uses], true),
      ([Rule(name: "some", who: .init(uid: 1000), accounts: ["wo*"], access: [.manage, .use])], false),
      ([manages, Rule(name: "some", who: .init(uid: 1000), accounts: ["wo*"], access: [.use])], false),
      ([manages, Rule(name: "cap", who: .init(uid: 1000), accounts: ["*"], access: [.use], scopes: ["read"])], false),
      (
        [
          manages,
          Rule(name: "ask", who: .init(uid: 1000), accounts: ["*"], access: [.use], confirm: .seconds(60)),
        ], false
      ),
      (
        [
          manages, Rule(name: "ask", who: .init(uid: 1000), accounts: ["*"], access: [.use], confirm: .seconds(60)),
          Rule(name: "b", who: .init(uid: 1000), accounts: ["*"], access: [], methods: ["store.backup"]),
        ], true
      ),
    ] as [([Rule], Bool)])
  func allowed(rules: [Rule], isAllowed: Bool) async throws {
    let store = MemoryStore()
    for name in ["work", "home"] { try await store.signIn(name) }
    let rig = try await rig(rules: rules, store: store)
    let reason = await rig.reason {
      try await rig.call(StoreBackup.self, .init(passphrase: passphrase), as: .user(1000))
    }
    #expect(reason == (isAllowed ? nil : .notPermitted))
    #expect(administration.state.withLock { $0.packed.count } == (isAllowed ? 1 : 0))
  }

  @Test("A rule with approval also applies to root; a separate rule for backups lifts it only for backups")
  func asked() async throws {
    let store = MemoryStore()
    for name in ["work", "home"] { try await store.signIn(name) }
    let asks = Rule(name: "ask", who: .init(uid: 0), accounts: ["home"], access: [.use], confirm: .seconds(60))
    let rig = try await rig(rules: [asks], store: store)
    let session = FakeSession(.root)
    let refused = await #expect(throws: RPCError.self) {
      try await rig.call(StoreBackup.self, .init(passphrase: passphrase), on: session)
    }
    #expect(
      refused?.reason == .notPermitted
        && refused?.message.hasSuffix("rule ask requires approval of each release") == true
    )
    let lines = "[[rule]]\nuid = 0\naccounts = [\"*\"]\nmethods = [\"store.backup\"]"
    #expect(refused?.hint?.hasSuffix("\n" + lines) == true)
    let backups = Rule(name: "b", who: .init(uid: 0), accounts: ["*"], access: [], methods: [StoreBackup.name])
    rig.reading.value = .success(.plain(rules: [asks, backups]))
    _ = try await rig.broker.reload()
    #expect(try await rig.call(StoreBackup.self, .init(passphrase: passphrase), on: session).accounts == 2)
    #expect(try await rig.call(PolicyExplain.self, .init(account: "home")).confirm?.rule == "ask")
  }

  @Test("It belongs to its connection, and concurrent ones are limited")
  func owners() async throws {
    let rig = try await rig()
    let (first, second) = (FakeSession(.root), FakeSession(.root))
    let made = try await rig.call(StoreBackup.self, .init(passphrase: passphrase), on: first)
    let part = StoreBackupPart.Params(backup_id: made.backup_id, offset: 0)
    await #expect(throws: RPCError.self) { try await rig.call(StoreBackupPart.self, part, on: second) }
    _ = try await rig.call(StoreBackupPart.self, part, on: first)
    _ = try await rig.call(StoreRestore.self, .init(size: 10), on: second)
    let third = FakeSession(.root)
    #expect(await rig.reason { try await rig.call(StoreRestore.self, .init(size: 10), on: third) } == .overloaded)
    first.close()
    #expect(await eventually { await rig.broker.upkeep.backups.transfers.count == 1 })
    let id = try await rig.call(StoreRestore.self, .init(size: 10), on: third).restore_id
    // No idle caller keeps a slot.
    rig.clock.advance(Transfers.idle + .seconds(1))
    await #expect(throws: RPCError.self) {
      try await rig.call(StoreRestorePart.self, .init(restore_id: id, offset: 0, data: "AAEC"), on: third)
    }
    _ = try await rig.call(StoreRestore.self, .init(size: 10), on: third)
    // It expects no answer: it may be closed when it is silent. Its end is awaited once.
    #expect(!third.isHeldOpen && third.closing == 1)
  }

  @Test("Parts that do not fit are refused, and a backup that has not come whole is not opened")
  func badParts() async throws {
    let rig = try await rig()
    let session = FakeSession(.root)
    for size in [0, -1, Transfers.bytes + 1] {
      await #expect(throws: RPCError.self) { try await rig.call(StoreRestore.self, .init(size: size), on: session) }
    }
    let id = try await rig.call(StoreRestore.self, .init(size: 5), on: session).restore_id
    for (offset, data) in [(1, "AAEC"), (0, "no base64!"), (0, ""), (0, "AAECAwQFBgc=")] {
      await #expect(throws: RPCError.self, "\(offset) \(data)") {
        try await rig.call(StoreRestorePart.self, .init(restore_id: id, offset: offset, data: data), on: session)
      }
    }
    _ = try await rig.call(StoreRestorePart.self, .init(restore_id: id, offset: 0, data: "AAEC"), on: session)
    let error = await #expect(throws: RPCError.self) {
      try await rig.call(StoreRestoreLook.self, .init(restore_id: id, passphrase: passphrase), on: session)
    }
    #expect(error?.message.contains("2 bytes of the backup have not come yet") == true)
    await #expect(throws: RPCError.self) {
      try await rig.call(StoreRestoreApply.self, .init(restore_id: id, moved: true), on: session)
    }
  }

  @Test("A wrong passphrase is reported as such, and another may be tried")
  func secrets() async throws {
    let rig = try await rig()
    let session = FakeSession(.root)
    let id = try await rig.call(StoreRestore.self, .init(size: 3), on: session).restore_id
    _ = try await rig.call(StoreRestorePart.self, .init(restore_id: id, offset: 0, data: "AAEC"), on: session)
    let params = StoreRestoreLook.Params(restore_id: id, passphrase: passphrase)
    for error in [
      BackupFile.Failure.foreign, .newer("x"), .wrongPassphrase, .wrongKey, .needsKey, .needsPassphrase, .truncated,
      .damaged("x"),
    ] {
      administration.state.withLock { $0.opening = .failure(.file(error)) }
      let said = await #expect(throws: RPCError.self) { try await rig.call(StoreRestoreLook.self, params, on: session) }
      #expect(said?.reason == .invalidBackup && said?.hint?.isEmpty == false)
    }
    for params in [
      StoreRestoreLook.Params(restore_id: id), .init(restore_id: id, passphrase: passphrase, key: SecretText("AAAA")),
      .init(restore_id: id, key: SecretText("no base64!")),
    ] {
      await #expect(throws: RPCError.self) { try await rig.call(StoreRestoreLook.self, params, on: session) }
    }
    let whole = try await backup(["work"])
    administration.state.withLock { $0.opening = .success(whole) }
    #expect(try await rig.call(StoreRestoreLook.self, params, on: session).accounts == 1)
  }

  @Test("The trail of each account records the backup, its reader, and the restored accounts")
  func recorded() async throws {
    let store = MemoryStore()
    for name in ["home", "work"] { try await store.signIn(name) }
    let rig = try await rig(rules: [Self.manages, Self.uses], store: store)
    for _ in 1...2 { _ = try await rig.call(StoreBackup.self, .init(passphrase: passphrase), as: .user(1000)) }
    rig.clock.advance(Transfers.idle + .seconds(1))
    _ = try await restore(rig, try await backup(["new", "work"]), replace: true)
    func of(_ account: String) async throws -> [AuditList.Line] {
      try await rig.call(AuditList.self, .init(account: account)).records.reversed()
    }
    let work = try await of("work")
    #expect(work.map { "\($0.action.rawValue) \($0.method)" } == ["release store.backup", "admin store.restore_apply"])
    #expect(work.first?.uid == 1000 && work.first?.scopes == ["read"] && work.first?.provider == "example")
    #expect(work.first?.rule == "u" && work.first?.count == 2)
    #expect(work.last?.detail == "replaced from a backup of b.example" && work.last?.uid == 0)
    #expect(try await of("new").map(\.detail) == ["restored from a backup of b.example"])
    #expect(try await of("home").map(\.method) == ["store.backup"])
    // And the request itself, of no account.
    #expect(rig.audit.records.contains { $0.entry.method == StoreBackup.name && $0.entry.account == nil })
  }

  @Test("More accounts than the trail counts at a time are recorded all the same")
  func recordedMany() async throws {
    let rig = try await rig()
    let count = Limit.auditLines * 2 + 500
    await rig.broker.door.audit.record(count, by: Batch.light, for: .process(.root)) {
      AuditEntry(action: .release, method: StoreBackup.name, account: "a\($0)", who: .init(.process(.root)))
    }
    await rig.broker.trail.flush()
    #expect(Set(rig.audit.sinceStart.compactMap(\.entry.account)).count == count)
  }

  // MARK: Applying

  @Test("Restored accounts are on disk and served; existing ones are kept")
  func restored() async throws {
    let store = MemoryStore()
    try await store.signIn("home")
    let rig = try await rig(store: store)
    let result = try await restore(rig, try await backup(["work", "home"]))
    #expect(result == .init(restored: ["work"], kept: ["home"]))
    #expect(store.grant("work")?.refreshToken?.exposed == "work-r1")
    #expect(try await rig.token("work").access_token == "work-a1")
    #expect(rig.cached("work") != nil)
  }

  @Test("Replaced accounts are those of the backup, and their generation increases")
  func replaced() async throws {
    let store = MemoryStore()
    try await store.signIn("home")
    let rig = try await rig(store: store)
    let backup = try await backup(["home"]) { state in
      state.grants[0].refreshToken = Secret("other-r1")
      state.tokens[0].accessToken = Secret("other-a1")
    }
    #expect(try await restore(rig, backup, replace: true) == .init(replaced: ["home"]))
    let token = try await rig.token("home")
    #expect(token.access_token == "other-a1" && token.generation == 2)
    #expect(store.grant("home")?.generation == 2 && store.token("home")?.generation == 2)
    #expect(store.grant("home")?.refreshToken?.exposed == "other-r1")
  }

  @Test("Refreshes of replaced accounts end first, including new ones during the wait for another")
  func refreshing() async throws {
    let store = MemoryStore()
    for name in ["home", "work"] { try await store.signIn(name) }
    let rig = try await rig(store: store)
    rig.transport.hold(.token)
    func reject(_ name: String, _ count: Int) async -> Task<TokenReportRejected.Result, any Error> {
      let task = Task { try await rig.call(TokenReportRejected.self, .init(account: name, generation: 1)) }
      #expect(await eventually { rig.transport.held(.token) == count })
      return task
    }
    // The later one in order: the earlier one has been looked at when it begins.
    let first = await reject("work", 1)
    let backup = try await backup(["home", "work"])
    let restored = Task { try await restore(rig, backup, replace: true) }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 2 })
    let second = await reject("home", 2)
    rig.transport.releaseOne(.token)
    _ = try await first.value
    await settle()
    #expect(rig.store.grant("work")?.generation == 2 && rig.store.grant("home")?.generation == 1)
    rig.transport.release(.token)
    _ = try await second.value
    #expect(try await restored.value == .init(replaced: ["home", "work"]))
    // Not over a generation that came after.
    #expect(rig.store.grant("work")?.generation == 3 && rig.store.grant("home")?.generation == 3)
  }

  @Test("However many wait, a restore and a login without a refresh token wait for the refreshes under way")
  func manyWaiters() async throws {
    let store = MemoryStore()
    for name in ["home", "work"] { try await store.signIn(name) }
    let rig = try await rig(store: store)
    let login = try await rig.start(account: "home")
    let backup = try await backup(["work"])
    rig.transport.answer(.token) { request in
      TokenServer.granted(request, lifetime: 3600, rotates: request.form["code"] == nil)
    }
    rig.transport.hold(.token)
    let refreshes = ["home", "work"].map { name in
      Task { try await rig.call(TokenReportRejected.self, .init(account: name, generation: 1)) }
    }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    let waiters = rig.broker.runtime.waiters
    let end = rig.clock.elapsed + .seconds(3600)
    let crowd = (0..<Limit.waiters - 2).map { number in
      Task { await waiters.wait(for: .work(.max - UInt64(number)), until: end) }
    }
    #expect(await eventually { await waiters.count == Limit.waiters })
    let callback = Task { await rig.callBack(login, code: "again") }
    #expect(await eventually { rig.transport.held(.token) == 3 })
    rig.transport.releaseOne(.token, last: true)
    let restored = Task { try await restore(rig, backup, replace: true) }
    #expect(await eventually { await waiters.count == Limit.waiters + 2 })
    await settle()
    #expect(rig.store.grant("home")?.generation == 1 && rig.store.grant("work")?.generation == 1)
    rig.transport.release(.token)
    for refresh in refreshes { _ = try await refresh.value }
    #expect(await callback.value.kind == .completed)
    #expect(try await restored.value == .init(replaced: ["work"]))
    #expect(rig.store.grant("home")?.refreshToken == Secret("home-r2"))
    #expect(rig.store.grant("home")?.generation == 3 && rig.store.grant("work")?.generation == 3)
    rig.clock.advance(.seconds(3600))
    for waiter in crowd { await waiter.value }
  }

  @Test("Without the word that the other broker is stopped nothing happens")
  func notMoved() async throws {
    let rig = try await rig()
    let session = FakeSession(.root)
    let id = try await look(rig, try await backup(["work"]), on: session)
    await #expect(throws: RPCError.self) {
      try await rig.call(StoreRestoreApply.self, .init(restore_id: id, moved: false), on: session)
    }
    #expect(rig.store.grant("work") == nil)
    _ = try await rig.call(StoreRestoreApply.self, .init(restore_id: id, moved: true), on: session)
    #expect(rig.store.grant("work") != nil)
  }

  @Test("If the disk refuses all writes, nothing is restored, and it can be repeated")
  func unwritable() async throws {
    let rig = try await rig()
    let session = FakeSession(.root)
    let id = try await look(rig, try await backup(["work"]), on: session)
    rig.store.set(.fails)
    let params = StoreRestoreApply.Params(restore_id: id, moved: true)
    #expect(await rig.reason { try await rig.call(StoreRestoreApply.self, params, on: session) } == .storeFailure)
    #expect(try await rig.call(AccountList.self, .init()).accounts.isEmpty)
    rig.store.set(.works)
    #expect(try await rig.call(StoreRestoreApply.self, params, on: session).restored == ["work"])
  }

  @Test("A provider without configuration is named, and pending revocations are still sent")
  func rest() async throws {
    let rig = try await rig()
    rig.transport.answer(.revocation) { _ in reply("{}") }
    let now = ManualClock.start
    func revocation(_ id: String, token: String, expiresAt: Timestamp) -> PendingRevocation {
      PendingRevocation(
        id: id, provider: provider("example"), token: Secret(token), hint: "refresh_token", attempts: 3,
        retryAt: now + .seconds(3600), expiresAt: expiresAt)
    }
    let backup = try await backup(["work", "far"]) { state in
      state.grants[state.grants.firstIndex { $0.account.rawValue == "far" }!].provider = provider("elsewhere")
      state.revocations = [
        revocation("r1", token: "old", expiresAt: now + .seconds(60)),
        revocation("r2", token: "over", expiresAt: now - .seconds(1)),
        revocation("r3", token: "work-r1", expiresAt: now + .seconds(60)),
      ]
    }
    let result = try await restore(rig, backup)
    #expect(result.restored == ["far", "work"])
    #expect(result.warnings == ["provider elsewhere is not configured here: its accounts wait until it is"])
    #expect(rig.store.revocations.map(\.id) == ["r1"])
  }

  @Test("Accounts of the configuration, and of a client that is another one here, are left out")
  func leftOut() async throws {
    func registration(_ name: String, _ client: String) -> SavedRegistration {
      SavedRegistration(
        provider: provider(name), issuer: Issuer(rawValue: "https://id.example")!, discovery: .oauth, clientID: client,
        clientSecret: nil, authMethod: "none", scopes: [], redirectURI: nil, managementToken: nil, managementURL: nil,
        secretExpiresAt: nil, createdAt: ManualClock.start)
    }
    let backup = try await backup(["a", "b", "c", "d"]) { state in
      for (index, name) in ["made", "same", "example"].enumerated() {
        state.grants[state.grants.firstIndex { $0.account.rawValue == ["a", "b", "c"][index] }!].provider =
          provider(name)
      }
      state.grants[state.grants.firstIndex { $0.account.rawValue == "d" }!].kind = .clientCredentials
      state.registrations = [registration("made", "x"), registration("same", "x"), registration("example", "x")]
    }
    func plan(_ known: [SavedRegistration]) throws -> Restoration {
      try Restoration(
        of: backup.state, into: [:], of: 0,
        registrations: Dictionary(uniqueKeysWithValues: known.map { ($0.provider, $0) }),
        configured: [provider("example")], declared: [], replacing: false)
    }
    let new = try plan([])
    #expect(new.result.restored == ["a", "b"] && new.result.left_out.map(\.account) == ["c", "d"])
    #expect(Set(new.registrations.map(\.provider.rawValue)) == ["made", "same"])
    let other = try plan([registration("made", "y"), registration("same", "x")])
    #expect(other.result.restored == ["b"] && other.result.left_out.map(\.account) == ["a", "c", "d"])
    #expect(other.registrations.isEmpty)
  }

  // MARK: The key

  @Test("A key that cannot be changed here: the message says how it is changed and lists the remaining steps")
  func key() async throws {
    let rig = try await rig()
    administration.state.withLock {
      $0.rotation = .success(KeyRotation(file: "/key", accounts: 3, remains: ["a is left"]))
    }
    let result = try await rig.call(StoreRotateKey.self, NoParams())
    #expect(result.key_file == "/key" && result.accounts == 3 && result.warnings == ["a is left"])
    administration.state.withLock { $0.rotation = .failure(.fixed(source: "/run/credentials/grantd.key")) }
    let fixed = await #expect(throws: RPCError.self) { try await rig.call(StoreRotateKey.self, NoParams()) }
    #expect(fixed?.reason == .keyNotReplaceable && fixed?.hint?.contains("grantd.key.previous") == true)
    administration.state.withLock {
      $0.rotation = .failure(.unwritable(file: "/key.next", detail: "Read-only file system"))
    }
    let unwritable = await #expect(throws: RPCError.self) { try await rig.call(StoreRotateKey.self, NoParams()) }
    #expect(unwritable?.reason == .keyNotReplaceable && unwritable?.message.contains("/key.next") == true)
    administration.state.withLock { $0.rotation = .failure(.store(MemoryStore.failure)) }
    #expect(await rig.reason { try await rig.call(StoreRotateKey.self, NoParams()) } == .storeFailure)
    #expect(await rig.reason { try await rig.call(StoreRotateKey.self, NoParams(), as: .user(1000)) } == .notPermitted)
  }
}
