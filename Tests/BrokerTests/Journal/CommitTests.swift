import BrokerAPI
import Grants
import OAuth
import Testing

@testable import Broker

/// A committed state is on disk before anyone is answered.
@Suite(.scheduled) struct CommitTests {
  @Test("No caller sees a new token before it is on disk") func nobodySeesANewTokenBeforeIt() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.store.set(.hangs, concerning: isRenewal)
    let caller = Task { try await rig.token("work") }
    #expect(await eventually { rig.store.hanging == 1 })
    await settle()
    #expect(rig.cached("work") == nil)
    #expect(try await rig.view("work").generation == 1)
    rig.store.set(.works)
    #expect(try await caller.value.access_token == "work-a2")
    #expect(rig.store.token("work")?.accessToken == Secret("work-a2"))
  }

  @Test("Nothing is sent before its intent is on disk") func nothingIsSentBeforeItsIntentIs() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.store.set(.hangs)
    let caller = Task { try await rig.token("work") }
    #expect(await eventually { rig.store.hanging == 1 })
    await settle()
    #expect(rig.transport.count(.token) == 0)
    rig.store.set(.works)
    _ = try await caller.value
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("If the intent cannot be saved, nothing is sent until the store works again")
  func whereTheIntentCannotBeSavedNothing() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.store.set(.fails)
    for _ in 0..<3 { #expect(await rig.reason { try await rig.token("work") } == .storeFailure) }
    #expect(rig.transport.count(.token) == 0)
    rig.store.set(.works)
    rig.clock.advance(.seconds(1))
    #expect(await eventually { await rig.broker.journal.failure == nil })
    #expect(try await rig.token("work").access_token == "work-a2")
  }

  @Test("A rotated refresh token survives a store that fails for a time, and the broker recovers")
  func aRotatedRefreshTokenOutlivesAStore()
    async throws
  {
    let rig = try await Rig(store: .expired("work"))
    rig.store.set(.fails, concerning: isRenewal)
    #expect(await rig.reason { try await rig.token("work") } == .storeFailure)
    #expect(try await rig.call(BrokerStatus.self, NoParams()).store.state == "failing")
    rig.store.set(.works)
    // The renewal tries again, and so does the repair of the store.
    #expect(await eventually { await rig.broker.runtime.waiters.count == 2 })
    rig.clock.advance(.seconds(60))
    #expect(await eventually { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(try await rig.call(BrokerStatus.self, NoParams()).store.state == "ok")
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("A failing store does not delay a token that is still valid") func aFailingStoreKeepsNobodyFromA()
    async throws
  {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3590))
    let rig = try await Rig(store: store)
    rig.store.set(.fails, concerning: isRenewal)
    #expect(try await rig.token("work").access_token == "work-a1")
  }

  @Test("A refresh that failed after a logout does not bring the account back on disk")
  func aRefreshThatFailedAfterALogout() async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    rig.transport.hold(.token)
    let caller = Task { await rig.reason { try await rig.token("work") } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.store.set(.hangs)
    let logout = Task { try await rig.call(AccountLogout.self, .init(account: "work")) }
    #expect(await eventually { rig.store.hanging == 1 })
    rig.transport.release(.token)
    await settle()
    rig.store.set(.works)
    _ = try await logout.value
    _ = await caller.value
    await settle()
    #expect(rig.store.grant("work") == nil)
  }

  @Test(
    "A renewal that meets a logout in the store neither comes back on disk nor stays good", arguments: [0, 1, 2, 3])
  func aRenewalThatMeetsALogoutIn(_ order: Int) async throws {
    let rig = try await Rig(store: .expired("work"))
    rig.transport.hold(.token)
    let caller = Task { await rig.reason { try await rig.token("work") } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.store.set(.hangs)
    let logout: Task<AccountLogout.Result, any Error>
    if order.isMultiple(of: 2) {
      logout = Task { try await rig.call(AccountLogout.self, .init(account: "work")) }
      #expect(await eventually { rig.store.hanging == 1 })
      rig.transport.release(.token)
    } else {
      rig.transport.release(.token)
      #expect(await eventually { rig.store.hanging == 1 })
      logout = Task { try await rig.call(AccountLogout.self, .init(account: "work")) }
    }
    await settle()
    rig.store.set(.works)
    _ = try await logout.value
    _ = await caller.value
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    let revoked = await eventually {
      rig.transport.requests(.revocation).contains { $0.form["token"] == "work-r2" }
    }
    #expect(revoked, "the rotated refresh token is still good at the provider")
    await settle()
    #expect(rig.store.grant("work") == nil)
    #expect(rig.store.token("work") == nil)
  }

  @Test("An intent for a removed account is not saved") func anIntentForAnAccountThatWas()
    async throws
  {
    let rig = try await Rig(store: .expired("work"), configuration: .plain([OAuthProviders.discovered]))
    rig.transport.hold(.discovery)
    let caller = Task { await rig.reason { try await rig.token("work") } }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    let logout = Task { try await rig.call(AccountLogout.self, .init(account: "work", revoke: false)) }
    _ = try await logout.value
    rig.transport.release(.discovery)
    #expect(await caller.value == .unknownAccount)
    await settle()
    #expect(try await rig.call(BrokerStatus.self, NoParams()).store.state == "ok")
    #expect(rig.transport.count(.token) == 0)
  }
}
