import BrokerAPI
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// Answers to refreshes that come after their time, from a provider whose refresh tokens are good once.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct LateAnswerTests {
  /// Its request is with the provider, and its caller waits.
  private func asked(
    _ rig: Rig, _ name: String = "work", as number: Int = 1
  ) async -> Task<ErrorReason?, Never> {
    rig.transport.hold(.token)
    let caller = Task { await rig.reason { try await rig.token(name, timeout: 300) } }
    #expect(await eventually { rig.transport.held(.token) == number })
    return caller
  }

  private func phase(_ rig: Rig, _ name: String = "work") async -> Grant.Phase? {
    await rig.broker.accounts[account(name)]?.phase
  }

  private func isOverdue(_ rig: Rig, _ name: String = "work") async -> Bool {
    await eventually { if case .overdue? = await phase(rig, name) { true } else { false } }
  }

  @Test("Callers are informed in time, nothing else is sent, and the late answer is committed and released")
  func taken() async throws {
    let rig = try await Rig(store: .expired("work"))
    let session = FakeSession(.root)
    _ = try await rig.call(
      EventsSubscribe.self, .init(events: ["token.failed", "token.refreshed", "login.required"]), on: session)
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    #expect(await caller.value == .temporarilyUnavailable)
    #expect(session.types == ["token.failed"])
    // Neither its own wait, nor another caller, nor the network's return sends the refresh token again.
    for _ in 0..<4 {
      rig.clock.advance(.seconds(60))
      await rig.broker.recheck(.networkUp)
      _ = await rig.broker.tick()
      #expect(await rig.reason { try await rig.token("work") } == .temporarilyUnavailable)
    }
    #expect(rig.transport.count(.token) == 1)
    #expect(try await rig.view("work").state == .degraded)
    rig.transport.release(.token)
    #expect(await eventually { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(try await rig.view("work").state == .ok)
    #expect(rig.store.intent("work") == nil && session.types == ["token.failed", "token.refreshed"])
  }

  @Test("If the machine sleeps longer than the token lives, the answer is followed by another refresh")
  func slept() async throws {
    let rig = try await Rig(store: .expired("work"))
    let early = await asked(rig)
    rig.clock.advance(.seconds(7200))
    #expect(await early.value == .timedOut)
    let late = Task { try await rig.token("work", timeout: 30).access_token }
    await settle()
    rig.transport.release(.token)
    #expect(try await late.value == "work-a3")
    #expect(rig.transport.count(.token) == 2)
  }

  @Test("The message about a late answer is true")
  func told() async throws {
    let rig = try await Rig(store: .expired("work"))
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    _ = await caller.value
    rig.clock.advance(.seconds(88))
    let error = await #expect(throws: RPCError.self) { try await rig.token("work") }
    #expect(error?.message == "no fresh token for account work: no answer in time" && error?.retry_after == 30)
    let hint = error?.hint ?? ""
    #expect(hint.contains("of 88 s ago is awaited for 212 s more") && hint.contains("could end the grant"), "\(hint)")
    rig.transport.giveUp(.token)
  }

  @Test("A token with time left is released while the answer to its refresh is late")
  func stillGood() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3590))
    let rig = try await Rig(store: store)
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    #expect(await caller.value == nil)
    #expect(try await rig.token("work").access_token == "work-a1")
    rig.transport.release(.token)
    #expect(await eventually { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
  }

  private static let user = Caller.user(1001)

  private func users() -> BrokerConfiguration {
    .plain(rules: [Rule(name: "user", uid: 1001, gid: nil, accounts: ["*"], access: [.use])])
  }

  @Test(
    "With `manage` another request can be sent; the late answer no longer counts after its answer")
  func askedAgain() async throws {
    let rig = try await Rig(store: .expired("work"), configuration: users())
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    #expect(await caller.value == .temporarilyUnavailable)
    let params = AccountRefresh.Params(account: "work", timeout: 1, now: true)
    #expect(await rig.reason { try await rig.call(AccountRefresh.self, params, as: Self.user) } == .notPermitted)
    #expect(await isOverdue(rig))
    let again = Task { try await rig.call(AccountRefresh.self, .init(account: "work", now: true)) }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token, last: true)
    #expect(try await again.value.refreshed)
    let token = try await rig.token("work").access_token
    let refreshToken = rig.store.grant("work")?.refreshToken
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"late","refresh_token":"late-r","token_type":"Bearer","expires_in":3600}"#)
    }
    rig.transport.release(.token)
    await settle()
    #expect(try await rig.token("work").access_token == token)
    #expect(rig.store.grant("work")?.refreshToken == refreshToken)
  }

  @Test("The late answer is accepted if it comes first, or if the later request was refused")
  func lateAfterAll() async throws {
    for isRefused in [false, true] {
      let rig = try await Rig(store: .expired("work"))
      let caller = await asked(rig)
      rig.transport.timeOut(.token)
      #expect(await caller.value == .temporarilyUnavailable)
      let again = Task {
        await rig.reason { try await rig.call(AccountRefresh.self, .init(account: "work", now: true)) }
      }
      #expect(await eventually { rig.transport.held(.token) == 2 })
      rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
      if isRefused {
        rig.transport.releaseOne(.token, last: true)
        #expect(await again.value == .loginRequired)
      }
      rig.transport.answer(.token, TokenServer.rotating)
      rig.transport.releaseOne(.token)
      #expect(await eventually { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
      #expect(try await rig.token("work").access_token == "work-a2")
      rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
      rig.transport.release(.token)
      _ = await again.value
      #expect(try await rig.view("work").state == .ok)
    }
  }

  @Test("If no answer comes, it is repeated")
  func givenUp() async throws {
    let rig = try await Rig(store: .expired("work"))
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    #expect(await caller.value == .temporarilyUnavailable)
    rig.transport.giveUp(.token)
    #expect(await eventually { await phase(rig) == .idle })
    rig.transport.release(.token)
    rig.clock.advance(.seconds(60))
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(rig.transport.count(.token) == 2)
  }

  @Test("A refusal that comes late ends the grant as ever")
  func refused() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    #expect(await caller.value == .temporarilyUnavailable)
    rig.transport.release(.token)
    #expect(await eventually { await rig.reasonInTime { try await rig.token("work") } == .loginRequired })
  }

  @Test("A logout ends the wait for a late answer, whose refresh token is revoked")
  func loggedOut() async throws {
    let rig = try await Rig(store: .expired("work"))
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    #expect(await caller.value == .temporarilyUnavailable)
    _ = try await rig.call(AccountLogout.self, .init(account: "work"))
    rig.transport.release(.token)
    #expect(await eventually { rig.store.revocations.map(\.token) == [Secret("work-r2")] })
    #expect(rig.store.grant("work") == nil)
  }

  @Test(
    "If the refresh can be repeated, the request ends with its limit",
    arguments: [Rotation.none, .grace(.seconds(90))])
  func notStrict(_ rotation: Rotation) async throws {
    let provider = OAuthProvider(.plain { $0.refresh.rotation = rotation })
    let rig = try await Rig(store: .expired("work"), configuration: .plain([provider]))
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    #expect(await caller.value == .temporarilyUnavailable)
    #expect(await phase(rig) == .idle)
  }

  @Test("A grace that is over before the request could be sent again is none")
  func shortGrace() async throws {
    let provider = OAuthProvider(.plain { $0.refresh.rotation = .grace(.seconds(30)) })
    let rig = try await Rig(store: .expired("work"), configuration: .plain([provider]))
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    #expect(await caller.value == .temporarilyUnavailable)
    rig.transport.release(.token)
    #expect(await eventually { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("Late answers take no other account's place, up to a bound; beyond it they keep theirs")
  func places() async throws {
    let names = (0..<Limit.lateAnswers + 12).map { "account-\($0)" }
    let store = MemoryStore()
    for name in names { try await store.signIn(name, age: .seconds(4000)) }
    let rig = try await Rig(
      store: store,
      configuration: .plain {
        $0.concurrentPerProvider = 4
        $0.outageThreshold = .max
      })
    rig.transport.hold(.token)
    let callers = names.map { name in Task { await rig.reason { try await rig.token(name, timeout: 300) } } }
    var sent = 4
    while sent < Limit.lateAnswers + 4 {
      #expect(await eventually { rig.transport.held(.token) == sent })
      rig.transport.timeOut(.token)
      sent += 4
    }
    #expect(await eventually { rig.transport.held(.token) == Limit.lateAnswers + 4 })
    rig.transport.timeOut(.token)
    #expect(await eventually { await rig.broker.engine.leases.late.count == Limit.lateAnswers })
    await settle()
    #expect(rig.transport.count(.token) == Limit.lateAnswers + 4)
    // Each that ends frees its slot, if it had one: never more than four in addition to the late ones.
    rig.transport.release(.token)
    for caller in callers { _ = await caller.value }
    #expect(await eventually { await rig.broker.engine.leases.inFlight == 0 })
    #expect(await rig.broker.engine.leases.late.isEmpty)
    #expect(await rig.broker.providers[provider("example")]?.gate.inFlight == 0)
    for name in names { #expect(rig.store.grant(name)?.refreshToken == Secret("\(name)-r2")) }
  }

  @Test("An outage ends with a late answer")
  func outage() async throws {
    let names = (0..<6).map { "account-\($0)" }
    let store = MemoryStore()
    for name in names { try await store.signIn(name, age: .seconds(4000)) }
    let rig = try await Rig(store: store)
    rig.transport.hold(.token)
    let callers = names.prefix(5).map { name in
      Task { await rig.reason { try await rig.token(name, timeout: 300) } }
    }
    #expect(await eventually { rig.transport.held(.token) == 5 })
    rig.transport.timeOut(.token)
    for caller in callers { #expect(await caller.value == .temporarilyUnavailable) }
    #expect(await rig.reason { try await rig.token("account-5") } == .temporarilyUnavailable)
    #expect(rig.transport.count(.token) == 5)
    rig.transport.release(.token)
    #expect(await eventually { rig.store.grant("account-0")?.refreshToken == Secret("account-0-r2") })
    // Not yet time for a probe, but for the first refreshes of a recovery.
    rig.clock.advance(.seconds(1))
    #expect(try await rig.token("account-5", timeout: 300).access_token == "account-5-a2")
  }

  @Test("A drain waits for a late answer, which reaches the disk")
  func drained() async throws {
    let rig = try await Rig(store: .expired("work"))
    let caller = await asked(rig)
    rig.transport.timeOut(.token)
    #expect(await caller.value == .temporarilyUnavailable)
    let drained = Task { await rig.broker.drain(until: rig.clock.elapsed + .seconds(35)) }
    #expect(await eventually { rig.clock.sleepers == 1 })
    rig.transport.release(.token)
    #expect(await eventually { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
    await rig.clock.passes(by: .milliseconds(20)) { await drained.value }
  }
}
