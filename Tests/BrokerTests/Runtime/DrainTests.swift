import BrokerAPI
import Grants
import Logging
import OAuth
import Providers
import TestSupport
import Testing

@testable import Broker

@Suite(.scheduled) struct DrainTests {
  @Test("A refresh in progress is awaited, committed and released to its callers; later callers are refused")
  func aRefreshUnderWayIsAwaitedCommitted()
    async throws
  {
    let store = try await MemoryStore.expired("work", "home")
    let rig = try await Rig(store: store)
    rig.transport.hold(.token)
    let waiting = Task { try await rig.token("work", timeout: 300) }
    #expect(await eventually { rig.transport.held(.token) == 1 && rig.clock.sleepers == 1 })
    let drained = Task { await rig.broker.drain(until: rig.clock.elapsed + .seconds(90)) }
    #expect(await eventually { rig.clock.sleepers == 2 })
    #expect(await rig.reason { try await rig.token("home") } == .shuttingDown)
    rig.transport.release(.token)
    #expect(try await waiting.value.access_token == "work-a2")
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"))
    await rig.clock.passes(by: .milliseconds(20)) { await drained.value }
    #expect(rig.transport.count(.token) == 1)
    #expect(rig.cached("work") == nil)
  }

  @Test("A refresh that does not end keeps the broker no longer than its deadline") func aRefreshThatDoesNotEndKeeps()
    async throws
  {
    let (rig, waiting, drained) = try await drainedWhileRefreshing(within: .seconds(10))
    rig.clock.advance(.seconds(10))
    await rig.clock.passes(by: .milliseconds(20)) { await drained.value }
    #expect(await waiting.value == .shuttingDown)
    rig.transport.release(.token)
  }

  /// A stop that has begun while a refresh has no answer yet, and who waits for that.
  private func drainedWhileRefreshing(
    within limit: Duration
  ) async throws -> (rig: Rig, waiting: Task<ErrorReason?, Never>, drained: Task<Void, Never>) {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.hold(.token)
    let waiting = Task { await rig.reason { try await rig.token("work", timeout: 300) } }
    #expect(await eventually { rig.transport.held(.token) == 1 && rig.clock.sleepers == 1 })
    let drained = Task { await rig.broker.drain(until: rig.clock.elapsed + limit) }
    #expect(await eventually { rig.clock.sleepers == 2 })
    return (rig, waiting, drained)
  }

  /// A renewal that the disk did not take, and who waits for it.
  private func renewalInMemory() async throws -> (rig: Rig, waiting: Task<ErrorReason?, Never>) {
    let rig = try await Rig(store: .expired("work"))
    rig.store.set(.fails, concerning: isRenewal)
    let waiting = Task { await rig.reason { try await rig.token("work", timeout: 300) } }
    #expect(
      await eventually {
        guard case .committing = await rig.broker.accounts[account("work")]?.phase else { return false }
        return await rig.broker.storeFailure != nil
      })
    return (rig, waiting)
  }

  @Test("A renewal that waited for the disk is saved by the stop where the disk works by then")
  func savedAtLast() async throws {
    let (rig, waiting) = try await renewalInMemory()
    rig.store.set(.works)
    await rig.clock.passes(by: .milliseconds(20)) {
      await rig.broker.drain(until: rig.clock.elapsed + .seconds(40))
    }
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(await rig.broker.unsaved().isEmpty)
    _ = await waiting.value
  }

  @Test("A renewal that the disk refuses ends the wait for answers, and is listed as unsaved")
  func unsaved() async throws {
    let (rig, waiting) = try await renewalInMemory()
    let began = rig.clock.elapsed
    // The time for answers does not have to pass, but that for the last tries.
    await rig.clock.passes(by: .milliseconds(20)) { await rig.broker.drain(until: began + .seconds(40)) }
    #expect(rig.clock.elapsed - began < .seconds(40))
    #expect(await waiting.value == .storeFailure)
    let unsaved = try #require(await rig.broker.unsaved().first).read(.whole)
    #expect(unsaved.grant.refreshToken == Secret("work-r2"))
  }

  @Test(
    "A disk that hangs does not keep the broker from ending, and its changes are listed as unsaved",
    .timeLimit(.minutes(5)))
  func hangingDisk() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    rig.store.set(.hangs)
    await rig.broker.journal.keep(account("work"))
    let drained = Task { await rig.broker.drain(until: rig.clock.elapsed + .seconds(10)) }
    await rig.clock.passes { await drained.value }
    #expect(await rig.broker.unsaved().map(\.account) == [account("work")])
    rig.store.set(.works)
  }

  @Test("Time in which the process was stopped does not count for the stop: answers of that time are read")
  func frozen() async throws {
    let (rig, waiting, drained) = try await drainedWhileRefreshing(within: .seconds(40))
    // The lid is closed for an hour; the answer is there when it is opened.
    rig.clock.advance(.seconds(3600))
    await settle()
    rig.transport.release(.token)
    await rig.clock.passes(by: .milliseconds(20)) { await drained.value }
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"))
    _ = await waiting.value
  }

  @Test("Unread answers at the end are listed by account with their possible effect")
  func unread() async throws {
    let logged = LoggedLines()
    let store = try await MemoryStore.expired("work", "home")
    let kept = ProviderSettings.plain("steady") { $0.refresh.rotation = .none }
    try await store.signIn("robot", provider: "steady", age: .seconds(4000))
    let rig = try await Rig(
      store: store, configuration: .plain([OAuthProvider(.plain()), OAuthProvider(kept)]),
      logger: logged.logger(.warning))
    let login = try await rig.start(account: "new")
    rig.transport.hold(.token)
    let asked = ["work", "robot"].map { name in Task { try? await rig.token(name, timeout: 300) } }
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.token) == 3 })
    let drained = Task { await rig.broker.drain(until: rig.clock.elapsed + .seconds(40)) }
    // The callers wait with one timer, and the drain with its own.
    #expect(await eventually { rig.clock.sleepers == 2 })
    rig.clock.advance(.seconds(40))
    await rig.clock.passes(by: .milliseconds(20)) { await drained.value }
    let lines = logged.all.map { "\($0.metadata["account"].map { "\($0)" } ?? "-"): \($0.text)" }
    #expect(
      lines.sorted() == [
        "new: stopped before the answer to the sign-in of new was read",
        "work: stopped before the answer to the refresh of work was read: its refresh token may be spent",
      ])
    #expect(logged.all.allSatisfy { "\($0.metadata["hint"] ?? "")".contains("grantctl login example") })
    rig.transport.release(.token)
    for task in asked { _ = await task.value }
    _ = await callback.value
  }

  @Test("A token that is still valid is released until the end, even if a refresh is due")
  func aTokenThatIsStillValidIs() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3590))
    try await store.signIn("busy", age: .seconds(4000))
    let rig = try await Rig(store: store)
    rig.transport.hold(.token)
    let waiting = Task { await rig.reason { try await rig.token("busy", timeout: 300) } }
    #expect(await eventually { rig.transport.held(.token) == 1 && rig.clock.sleepers == 1 })
    let drained = Task { await rig.broker.drain(until: rig.clock.elapsed + .seconds(9)) }
    #expect(await eventually { rig.clock.sleepers == 2 })
    #expect(try await rig.token("work").access_token == "work-a1")
    rig.transport.release(.token)
    #expect(await waiting.value == nil)
    await rig.clock.passes(by: .milliseconds(20)) { await drained.value }
  }

  @Test("Waiting logins are informed, and none begins") func loginsThatWaitAreToldAndNone() async throws {
    let rig = try await Rig()
    let login = try await rig.call(LoginStart.self, .init(provider: "example"))
    let waiting = Task {
      await rig.reason { try await rig.call(LoginWait.self, .init(login_id: login.login_id, timeout: 300)) }
    }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 1 })
    await rig.broker.drain(until: rig.clock.elapsed + .seconds(10))
    #expect(await waiting.value == .shuttingDown)
    #expect(await rig.reason { try await rig.call(LoginStart.self, .init(provider: "example")) } == .shuttingDown)
    #expect(rig.store.logins.count == 1, "it goes on after the restart")
  }
}
