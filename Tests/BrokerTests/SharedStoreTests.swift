import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth
import Providers
import Synchronization
import Testing

@testable import Broker

/// Two brokers on one store, at a provider that ends a grant whose refresh token is sent twice.
@Suite(.timeLimit(.minutes(1))) struct SharedStoreTests {
  @Test("Two brokers that are asked at once refresh once, and both hand out the new token")
  func atOnce() async throws {
    let world = try await World()
    world.provider.hold()
    let asked = world.brokers.map { broker in Task { try await broker.token("work") } }
    #expect(await eventually { world.provider.held == 1 })
    await settle()
    #expect(world.provider.held == 1, "the other waits for who has the lease")
    world.provider.release()
    for answer in asked { #expect(try await answer.value == "work-a2") }
    #expect(world.provider.refreshes == 1)
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
  }

  @Test("A broker that is behind the store follows it before it sends anything")
  func behind() async throws {
    let world = try await World()
    #expect(try await world.brokers[0].token("work") == "work-a2")
    world.clock.advance(.seconds(3600))
    #expect(try await world.brokers[1].token("work") == "work-a3")
    #expect(try await world.brokers[0].token("work") == "work-a3")
    #expect(world.provider.refreshes == 2 && world.provider.reuses == 0)
  }

  @Test("Where the lease's holder is gone, another goes on when the lease has ended")
  func gone() async throws {
    let world = try await World()
    world.provider.drop(1)
    let lost = Task { await world.brokers[0].reason("work") }
    #expect(await eventually { world.provider.held == 1 })
    let asked = Task { try await world.brokers[1].token("work", timeout: 300) }
    #expect(await eventually { await world.brokers[1].broker.engine.leasedElsewhere.count == 1 })
    #expect(world.provider.refreshes == 0)
    world.clock.advance(Limit.lease)
    _ = await world.brokers[1].broker.tick()
    #expect(try await asked.value == "work-a2")
    // The request that never came to the provider fails now, and must not overwrite what the other wrote.
    world.provider.release()
    _ = await lost.value
    await settle()
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(try await world.brokers[0].token("work") == "work-a2")
  }

  @Test("An answer that comes after its lease has ended is kept, where nobody else renewed the grant")
  func late() async throws {
    let world = try await World()
    world.provider.hold()
    let asked = Task { try await world.brokers[0].token("work", timeout: 300) }
    #expect(await eventually { world.provider.held == 1 })
    world.clock.advance(Limit.lease + .seconds(1))
    // Another has the lease now, and gives it back without having sent anything.
    let store = world.database.join()
    let intent = RefreshIntent(
      account: account("work"), refreshTokenHash: Secret("work-r1").fingerprint, sentAt: world.clock.now, attempts: 2)
    guard case .granted(let lease) = try await store.lease(intent, for: .seconds(60), expecting: []) else {
      Issue.record("the lease has not ended")
      return
    }
    await store.release(lease)
    world.provider.release()
    #expect(try await asked.value == "work-a2")
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(world.database.conflicts > 0)
    #expect(try await world.brokers[1].token("work") == "work-a2")
    #expect(world.provider.reuses == 0)
  }

  @Test("An account that one broker forgets is gone at the other; one that it gets is there")
  func comingAndGoing() async throws {
    let world = try await World()
    _ = try await world.brokers[0].call(AccountLogout.self, .init(account: "work", revoke: false))
    #expect(await eventually { await world.brokers[1].reason("work") == .unknownAccount })
    try await world.database.disk.signIn("home")
    await world.brokers[1].broker.engine.changedElsewhere(account("home"))
    #expect(try await world.brokers[1].token("home") == "home-a1")
  }
}

/// One of the brokers.
private struct Site: Sendable {
  let broker: Broker
  let router: Router

  func call<M: RPCMethod>(_ method: M.Type, _ params: M.Params) async throws -> M.Result {
    let request = RPCRequest(method: M.name, params: JSON(encoding: params), isNotification: false)
    return try await router.respond(to: request, session: FakeSession(.root)).get().decode(M.Result.self)
  }

  func token(_ account: String, timeout: Double? = nil) async throws -> String? {
    try await call(TokenGet.self, .init(account: account, timeout: timeout)).access_token
  }

  func reason(_ account: String) async -> ErrorReason? {
    do {
      _ = try await token(account, timeout: 300)
      return nil
    } catch {
      return (error as? RPCError)?.reason
    }
  }
}

private struct World: Sendable {
  let clock = ManualClock()
  let database: SharedDatabase
  let provider = StrictProvider()
  let brokers: [Site]

  /// Every token has just expired.
  init(accounts: [String] = ["work"]) async throws {
    database = SharedDatabase(clock)
    for name in accounts { try await database.disk.signIn(name, age: .seconds(3600)) }
    var brokers: [Site] = []
    for _ in 0..<2 {
      let broker = await Broker(
        store: database.join(), transport: provider, surroundings: clock.surroundings,
        identity: BrokerIdentity(version: "0", pid: 1), configuration: .plain(),
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        readConfiguration: { () async throws(RPCError) in .plain() })
      try await broker.start()
      brokers.append(Site(broker: broker, router: Router(broker)))
    }
    self.brokers = brokers
  }
}

/// Rotates with each use; a refresh token that was used ends the grant. Requests are answered as they come, and their
/// answers can be held back on the way.
private final class StrictProvider: Transport {
  private struct State {
    /// How often each account was refreshed.
    var uses: [String: Int] = [:]
    var ended: Set<String> = []
    var isHolding = false
    var waiting: [CheckedContinuation<Void, Never>] = []
    /// So many requests never come here.
    var dropping = 0
    var refreshes = 0
    var reuses = 0
  }

  private let state = Mutex(State())

  var held: Int { state.withLock { $0.waiting.count } }
  var refreshes: Int { state.withLock { $0.refreshes } }
  var reuses: Int { state.withLock { $0.reuses } }
  func live(_ account: String) -> Secret { Secret("\(account)-r\(state.withLock { $0.uses[account] ?? 0 } + 1)") }
  func accessToken(_ account: String) -> String { "\(account)-a\(state.withLock { $0.uses[account] ?? 0 } + 1)" }

  func hold() { state.withLock { $0.isHolding = true } }

  /// The next so many requests are lost on their way, which shows when ``release()`` is called.
  func drop(_ count: Int) { state.withLock { $0.dropping = count } }

  func release() {
    let waiting = state.withLock { state in
      state.isHolding = false
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  func send(_ request: HTTPRequest) async throws(TransportError) -> HTTPResponse {
    let isLost = state.withLock { state in
      guard state.dropping > 0 else { return false }
      state.dropping -= 1
      return true
    }
    if isLost {
      await withCheckedContinuation { continuation in state.withLock { $0.waiting.append(continuation) } }
      throw TransportError(.notSent, "the network was down")
    }
    let answer = answer(request)
    await withCheckedContinuation { continuation in
      let isHeld = state.withLock { state in
        if state.isHolding { state.waiting.append(continuation) }
        return state.isHolding
      }
      if !isHeld { continuation.resume() }
    }
    return answer
  }

  private func answer(_ request: HTTPRequest) -> HTTPResponse {
    let parts = (request.form["refresh_token"] ?? "").components(separatedBy: "-r")
    guard parts.count == 2, let number = Int(parts[1]) else { return reply("{}", status: 404) }
    let isLive = state.withLock { state in
      state.refreshes += 1
      guard !state.ended.contains(parts[0]), number == (state.uses[parts[0]] ?? 0) + 1 else {
        state.reuses += 1
        state.ended.insert(parts[0])
        return false
      }
      state.uses[parts[0], default: 0] += 1
      return true
    }
    return isLive
      ? TokenServer.granted(request, lifetime: 3600) : reply(#"{"error":"invalid_grant"}"#, status: 400)
  }
}
