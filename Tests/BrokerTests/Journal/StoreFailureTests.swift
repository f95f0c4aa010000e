import BrokerAPI
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A disk that is full, gone or damaged, seen from the broker.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct StoreFailureTests {
  private func rig(_ rotation: Rotation = .strict) async throws -> Rig {
    let store = try await MemoryStore.expired("work")
    try await store.signIn("valid")
    let settings = ProviderSettings.plain { $0.refresh.rotation = rotation }
    return try await Rig(store: store, configuration: .plain([OAuthProvider(settings)]))
  }

  /// The store is tried again until it works.
  private func mended(_ rig: Rig) async -> Bool {
    for _ in 0..<60 {
      await settle()
      if await rig.broker.journal.failure == nil { return true }
      rig.clock.advance(.seconds(1))
    }
    return false
  }

  @Test("While the disk is full valid tokens are served, no rotation is risked, and work resumes later")
  func diskFull() async throws {
    let rig = try await rig()
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(events: ["store.failed", "store.recovered"]), on: session)
    rig.store.set(.fails)
    for _ in 0..<5 { #expect(await rig.reason { try await rig.token("work") } == .storeFailure) }
    #expect(try await rig.token("valid").access_token == "valid-a1")
    #expect(rig.cached("valid") != nil)
    let status = try await rig.call(BrokerStatus.self, NoParams())
    #expect(status.store.state == "failing" && status.summary.contains("cannot be written"))
    #expect(await rig.reason { try await rig.token("work") } == .storeFailure)
    rig.clock.advance(.seconds(3600))
    #expect(rig.transport.count(.token) == 0)

    rig.store.set(.works)
    #expect(await mended(rig))
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(session.types == ["store.failed", "store.recovered"])
  }

  @Test("A disk that accepts everything except intents counts as failing, not as recovered")
  func intentsAlone() async throws {
    let rig = try await rig()
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(events: ["store.failed", "store.recovered"]), on: session)
    rig.store.set(.fails) { $0.contains { if case .putIntent = $0 { true } else { false } } }
    #expect(await rig.reason { try await rig.token("work") } == .storeFailure)
    await settle()
    #expect(session.types == ["store.failed"] && rig.transport.count(.token) == 0)
    // Callers continue to ask; it is reported less and less often.
    for _ in 0..<300 {
      rig.clock.advance(.seconds(1))
      #expect(await rig.reason { try await rig.token("work") } == .storeFailure)
      await settle()
    }
    #expect((8...60).contains(session.types.count), "\(session.types.count) events")
    rig.store.set(.works)
    #expect(await mended(rig))
    #expect(try await rig.token("work").access_token == "work-a2")
  }

  @Test("A provider without rotation is still asked, and its answer is saved later")
  func withoutRotation() async throws {
    let rig = try await rig(.none)
    rig.transport.answer(.token) { TokenServer.granted($0, lifetime: 3600, rotates: false) }
    rig.store.set(.fails)
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(rig.store.token("work")?.accessToken == Secret("work-a1"))
    rig.store.set(.works)
    #expect(await mended(rig))
    #expect(await eventually { rig.store.token("work")?.accessToken == Secret("work-a2") })
    #expect(rig.store.intent("work") == nil)
  }

  @Test("A declared account has no rotation to lose: it is refreshed while another waits for the disk")
  func declared() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3590))
    var configuration = BrokerConfiguration.plain([OAuthProvider(.plain { $0.refresh.rotation = .strict })])
    configuration.accounts = [
      DeclaredAccount(name: account("robot"), provider: provider("example"), source: .clientCredentials)
    ]
    let rig = try await Rig(store: store, configuration: configuration)
    // No refresh token comes with it, and none would be kept.
    rig.transport.answer(.token) { TokenServer.granted($0, lifetime: 3600) }
    _ = try await rig.token("robot")
    rig.clock.advance(.seconds(3700))
    rig.store.set(.fails)
    #expect(await rig.reason { try await rig.token("work") } == .storeFailure)
    #expect(try await rig.token("robot").generation == 2)
    // By itself too.
    rig.clock.advance(.seconds(3700))
    _ = await rig.broker.tick()
    #expect(await eventually { (try? await rig.view("robot").generation) == 3 })
    #expect(rig.transport.requests(.token).allSatisfy { $0.form["grant_type"] == "client_credentials" })
    #expect(try await rig.call(BrokerStatus.self, NoParams()).store.held_back == 1)
    rig.store.set(.works)
    #expect(await mended(rig))
    #expect(await eventually { rig.store.token("robot")?.generation == 3 })
    #expect(try await rig.token("work").access_token == "work-a2")
  }

  @Test("A provider that rotates against its setting is not trusted: its token is released after the commit only")
  func rotatesAllTheSame() async throws {
    let rig = try await rig(.none)
    rig.store.set(.fails)
    #expect(await rig.reason { try await rig.token("work", timeout: 5) } == .storeFailure)
    #expect(rig.transport.count(.token) == 1)
    rig.store.set(.works)
    #expect(await mended(rig))
    #expect(await eventually { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("The end of a grant that could not be saved is saved later")
  func anEndIsNotForgotten() async throws {
    let rig = try await rig()
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    rig.store.set(.fails) { changes in
      changes.contains { if case .putGrant = $0 { true } else { false } }
    }
    // The second attempt waits for the store, as each refresh that could lose a refresh token.
    #expect(await rig.reasonInTime { try await rig.token("work") } == .storeFailure)
    #expect(rig.store.grant("work")?.standing == .good)
    rig.store.set(.works)
    #expect(await mended(rig))
    #expect(await eventually { if case .loginRequired = rig.store.grant("work")?.standing { true } else { false } })
  }

  @Test(
    "A missing or damaged database is rebuilt from memory with all its content",
    arguments: [
      StoreError.missing(path: "memory"), .corrupt(path: "memory", detail: "database disk image is malformed"),
    ])
  func rebuilt(_ error: StoreError) async throws {
    let rig = try await rig()
    let login = try await rig.start(account: "home")
    rig.store.finds(error)
    rig.store.set(.fails)
    await rig.broker.journal.examine()
    #expect(await rig.broker.journal.failure == error)
    rig.store.set(.works)
    #expect(await mended(rig))
    let rebuilt = try #require(rig.store.rebuilt.first)
    #expect(Set(rebuilt.grants.map(\.account.rawValue)) == ["work", "valid"])
    #expect(Set(rebuilt.tokens.map(\.account.rawValue)) == ["work", "valid"])
    #expect(rebuilt.logins.map(\.id.rawValue) == [login.login_id])
    #expect(rebuilt.values["callback.port"] == "8400")
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"))
  }

  /// The waits between two tries are long by then.
  private func failForAMinute(_ rig: Rig) async {
    rig.store.set(.fails)
    #expect(await rig.reason { try await rig.token("work") } == .storeFailure)
    await pass(60, rig)
  }

  private func pass(_ seconds: Int, _ rig: Rig, while goesOn: () async -> Bool = { true }) async {
    for _ in 0..<seconds where await goesOn() {
      rig.clock.advance(.seconds(1))
      await settle()
    }
  }

  @Test("One that is lost soon after a long full disk is rebuilt at once")
  func lostAfterOutage() async throws {
    let rig = try await rig()
    await failForAMinute(rig)
    rig.store.set(.works)
    _ = try await rig.call(AccountLogout.self, .init(account: "valid"))
    #expect(await rig.broker.journal.failure == nil)
    rig.store.finds(.missing(path: "memory"))
    await rig.broker.journal.examine()
    // The clock does not advance.
    #expect(await eventually { rig.store.rebuilt.count == 1 })
  }

  @Test("One that is lost during a long full disk is rebuilt soon after space is available")
  func lostInOutage() async throws {
    let rig = try await rig()
    await failForAMinute(rig)
    rig.store.finds(.missing(path: "memory"))
    await pass(40, rig) { await rig.broker.journal.failure?.isLoss != true }
    #expect(await rig.broker.journal.failure == .missing(path: "memory"))
    rig.store.set(.works)
    await pass(3, rig)
    #expect(await eventually { rig.store.rebuilt.count == 1 })
  }

  @Test("Nothing is committed to the old database while the new one is written, and nothing forgotten comes back")
  func rebuiltMeanwhile() async throws {
    let rig = try await rig()
    rig.store.finds(.missing(path: "memory"))
    // A commit that was under way before the check: its success proves nothing.
    rig.store.set(.hangs)
    let early = Task { await rig.reason { try await rig.token("work", timeout: 600) } }
    #expect(await eventually { rig.store.hanging == 1 })
    await rig.broker.journal.examine()
    rig.store.set(.hangs) { $0.isEmpty }
    await settle()
    #expect(await rig.broker.journal.failure == .missing(path: "memory"))
    await pass(20, rig) { rig.store.hanging == 0 }
    #expect(rig.store.hanging == 1, "the new database is being written")
    #expect(await rig.reason { _ = try await rig.call(AccountLogout.self, .init(account: "valid")) } == .storeFailure)
    rig.store.set(.works)
    #expect(await mended(rig))
    #expect(await eventually { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
    _ = try await rig.call(AccountLogout.self, .init(account: "valid"))
    #expect(rig.store.grant("valid") == nil && rig.store.rebuilt.count == 1)
    _ = await early.value
  }

  @Test("Damage that no check sees during commits is found at the stop, which rebuilds it")
  func damagedAtStop() async throws {
    let rig = try await rig()
    rig.store.set(.hangs)
    Task { await rig.broker.journal.commitOrWarn([.putValue("last", "1")], "the last commit") }
    #expect(await eventually { rig.store.hanging == 1 })
    rig.store.finds(.corrupt(path: "memory", detail: "another program wrote to it"))
    await rig.broker.journal.examine()
    #expect(await rig.broker.journal.failure == nil)
    let stop = Task { await rig.broker.drain(until: rig.clock.elapsed + .seconds(40)) }
    await settle()
    rig.store.set(.works)
    await stop.value
    #expect(rig.store.rebuilt.count == 1)
    #expect(await rig.broker.storeFailure == nil)
  }

  @Test("A commit that hangs makes the store slow, and no other caller waits for it")
  func slow() async throws {
    let rig = try await rig()
    rig.store.set(.hangs)
    let caller = Task { await rig.reason { try await rig.token("work", timeout: 6) } }
    #expect(await eventually { rig.store.hanging == 1 })
    #expect(await !rig.broker.journal.isSlow)
    rig.clock.advance(.seconds(6))
    #expect(await rig.broker.journal.isSlow)
    #expect(await caller.value == .timedOut)
    #expect(try await rig.token("valid").access_token == "valid-a1")
    rig.store.set(.works)
    #expect(await eventually { await !rig.broker.journal.isSlow })
    #expect(try await rig.token("work").access_token == "work-a2")
  }

  @Test("A token that a resource server refused does not come back after a restart")
  func refusedStaysRefused() async throws {
    let rig = try await rig()
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    let report = TokenReportRejected.Params(account: "valid", generation: 1)
    #expect(await rig.reason { try await rig.call(TokenReportRejected.self, report) } == .temporarilyUnavailable)
    let restarted = try await Rig(clock: rig.clock, store: rig.store)
    #expect(restarted.cached("valid") == nil)
    rig.clock.advance(.seconds(5))
    #expect(try await restarted.token("valid").access_token == "valid-a2")
  }
}
