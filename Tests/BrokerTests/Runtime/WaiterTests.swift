import BrokerAPI
import Grants
import OAuth
import Principals
import Providers
import Synchronization
import Testing

@testable import Broker

/// How many requests may wait, and whose.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct WaiterTests {
  @Test("Waiting requests of one user do not use up the slots of others")
  func share() async throws {
    let rules = [1000, 1001].map { (uid: UInt32) in
      Rule(name: "\(uid)", uid: uid, gid: nil, accounts: ["*"], access: [.use])
    }
    var configuration = BrokerConfiguration.plain(rules: rules)
    configuration.accounts = [.robot(ExchangeSource(from: account("work")))]
    let rig = try await Rig(store: .expired("work", "home"), configuration: configuration)
    rig.transport.answer(.token, TokenServer.trading)
    rig.transport.hold(.token)
    func ask(_ name: String, _ uid: UInt32) -> Task<ErrorReason?, Never> {
      Task {
        await rig.reason {
          try await rig.call(TokenGet.self, .init(account: name, timeout: 300), as: .user(uid))
        }
      }
    }
    let crowd = (0..<Limit.waitersPerHolder + 50).map { _ in ask("work", 1000) }
    #expect(await eventually { await rig.broker.runtime.waiters.count >= Limit.waitersPerHolder })
    await settle()
    let before = await rig.broker.runtime.waiters.count
    // Another user waits, and so does the broker for a token that it trades.
    let others = [ask("home", 1001), ask("robot", 1001)]
    #expect(await eventually { await rig.broker.runtime.waiters.count == before + 3 })
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.release(.token)
    for other in others { #expect(await other.value == nil) }
    var reasons: [ErrorReason?: Int] = [:]
    for caller in crowd { reasons[await caller.value, default: 0] += 1 }
    #expect(reasons == [nil: Limit.waitersPerHolder, .overloaded: 50])
    // The places are free again.
    rig.transport.hold(.token)
    _ = Task { try await rig.call(TokenReportRejected.self, .init(account: "work", generation: 2), as: .user(1000)) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let again = ask("work", 1000)
    rig.transport.release(.token)
    #expect(await again.value == nil)
  }

  @Test("A login.wait ends with its connection, one registration is enough for all, and others wait on")
  func closed() async throws {
    let rig = try await Rig()
    let waiters = rig.broker.runtime.waiters
    let login = try await rig.start()
    let before = await waiters.count
    let (session, other) = (FakeSession(.root), FakeSession(.root))
    let params = LoginWait.Params(login_id: login.login_id, timeout: 300)
    let waits = (0..<3).map { _ in
      Task { await rig.reason { _ = try await rig.call(LoginWait.self, params, on: session) } }
    }
    let last = Task { try await rig.call(LoginWait.self, params, on: other) }
    #expect(await eventually { await waiters.count == before + 4 })
    #expect(session.closing == 1)
    session.close()
    for wait in waits { #expect(await wait.value == .overloaded) }
    #expect(await waiters.count == before + 1)
    #expect(await rig.callBack(login).isCompleted("work"))
    #expect(try await last.value.state == .completed)
  }

  private final class Ended: Sendable {
    let seconds = Mutex<[Int]>([])
  }

  @Test("Each wait ends at its own deadline, in any order, and they share one timer")
  func deadlines() async throws {
    let rig = try await Rig()
    let waiters = rig.broker.runtime.waiters
    let (began, before, sleepers) = (
      await rig.broker.runtime.clock.uptime, await waiters.count, rig.clock.sleepers
    )
    let ended = Ended()
    func wait(_ seconds: Int) -> Task<Void, Never> {
      Task {
        await waiters.wait(for: waiters.newWork(), until: began + .seconds(seconds))
        ended.seconds.withLock { $0.append(seconds) }
      }
    }
    var tasks = [wait(30)]
    #expect(await eventually { await waiters.count == before + 1 })
    tasks += [60, 10, 20].map(wait)
    #expect(await eventually { await waiters.count == before + 4 })
    #expect(rig.clock.sleepers == sleepers + 1)
    for (seconds, all) in [(9, []), (10, [10]), (29, [10, 20]), (31, [10, 20, 30]), (60, [10, 20, 30, 60])] {
      rig.clock.advance(began + .seconds(seconds) - (await rig.broker.runtime.clock.uptime))
      await settle()
      #expect(ended.seconds.withLock { $0 } == all)
    }
    for task in tasks { await task.value }
    // Nothing sleeps for waits that are over.
    #expect(rig.clock.sleepers == sleepers)
  }

  @Test("A wait that ends early does not end another, and the timer that was for it does no harm")
  func wokenEarly() async throws {
    let rig = try await Rig()
    let waiters = rig.broker.runtime.waiters
    let (began, before) = (await rig.broker.runtime.clock.uptime, await waiters.count)
    let (first, second) = (await waiters.newWork(), await waiters.newWork())
    let woken = Task { await waiters.wait(for: first, until: began + .seconds(10)) }
    #expect(await eventually { await waiters.count == before + 1 })
    await waiters.wake(first)
    await woken.value
    let isOver = Mutex(false)
    let other = Task {
      await waiters.wait(for: second, until: began + .seconds(40))
      isOver.withLock { $0 = true }
    }
    #expect(await eventually { await waiters.count == before + 1 })
    rig.clock.advance(.seconds(39))
    await settle()
    #expect(!isOver.withLock { $0 })
    rig.clock.advance(.seconds(1))
    await other.value
    #expect(await waiters.count == before)
  }

  @Test("A request that waits for a slot at the provider leaves it with its connection") func slot() async throws {
    let rig = try await Rig()
    let waiters = rig.broker.runtime.waiters
    let places = await ProviderCallLimiter(waiters)
    let name = try #require(ProviderName(rawValue: "example"))
    let until = await rig.broker.runtime.clock.uptime + .seconds(60)
    var held: [ProviderCallLimiter.Permit] = []
    for _ in 0..<Limit.callsPerHolder { held.append(try await places.acquire(name, for: .user(1000), until: until)) }
    let (before, session) = (await waiters.count, FakeSession(.user(1000)))
    let waiting = Task {
      await rig.reason { _ = try await places.acquire(name, for: .user(1000), until: until, session: session) }
    }
    #expect(await eventually { await waiters.count == before + 1 })
    session.close()
    #expect(await waiting.value == .overloaded)
    #expect(await waiters.count == before)
    await held[0].release()
    _ = try await places.acquire(name, for: .user(1000), until: until)
  }

  /// Asks as user 1000 until all of its share waits, and 50 more; then lets the provider answer.
  private func crowd(
    _ rig: Rig, answered reason: ErrorReason?, _ ask: @escaping @Sendable () async throws -> Void
  ) async throws {
    let waiters = rig.broker.runtime.waiters
    let crowd = (0..<Limit.waitersPerHolder + 50).map { _ in Task { await rig.reason { try await ask() } } }
    #expect(await eventually { await waiters.count >= Limit.waitersPerHolder })
    await settle()
    #expect(await waiters.count < Limit.waitersPerHolder + 10)
    rig.transport.release(.userinfo)
    var reasons: [ErrorReason?: Int] = [:]
    for caller in crowd { reasons[await caller.value, default: 0] += 1 }
    #expect(reasons == [reason: Limit.waitersPerHolder, .overloaded: 50])
  }

  private func rig(_ store: MemoryStore) async throws -> Rig {
    let settings = ProviderSettings.plain { $0.server.endpoints[.userinfo] = "https://id.example/userinfo" }
    let rule = Rule(name: "user", uid: 1000, gid: nil, accounts: ["*"], access: [.use, .login])
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(settings)], rules: [rule]))
    rig.transport.answer(.userinfo) { _ in reply(#"{"sub":"work"}"#) }
    rig.transport.hold(.userinfo)
    return rig
  }

  @Test("Reports that wait for the provider count for the user's share") func reports() async throws {
    let store = MemoryStore()
    try await store.signIn("work", refreshes: false)
    let rig = try await rig(store)
    _ = try await rig.call(TokenGet.self, .init(account: "work"), as: .user(1000))
    let params = TokenReportRejected.Params(account: "work", generation: 1, timeout: 300)
    try await crowd(rig, answered: nil) {
      _ = try await rig.call(TokenReportRejected.self, params, as: .user(1000))
    }
  }

  @Test("Requests that wait until it is known whose an import is are of the user's share") func imports() async throws {
    let store = MemoryStore()
    let standing = Standing.loginRequired(.refused, FailureRecord(message: "over", at: ManualClock.start))
    try await store.signIn("work", age: .seconds(7200), standing: standing)
    let rig = try await rig(store)
    rig.transport.answer(.token, TokenServer.rotating)
    let params = AccountImport.Params(account: "work", provider: "example", refresh_token: SecretText("their-r1"))
    let importing = Task { await rig.reason { try await rig.call(AccountImport.self, params) } }
    #expect(await eventually { rig.transport.held(.userinfo) == 1 })
    try await crowd(rig, answered: nil) {
      _ = try await rig.call(TokenGet.self, .init(account: "work", timeout: 300), as: .user(1000))
    }
    #expect(await importing.value == nil)
  }
}
