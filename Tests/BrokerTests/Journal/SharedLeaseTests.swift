import BrokerAPI
import Foundation
import Grants
import OAuth
import Testing

@testable import Broker

/// Leases that end, that are late, and that others take.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct SharedLeaseTests {
  @Test("If the holder of a lease has stopped, another broker continues when the request has certainly ended")
  func gone() async throws {
    let world = try await SharedWorld()
    world.provider.drop(1)
    let lost = Task { await world.brokers[0].reason("work") }
    #expect(await world.isSent())
    let early = Task { await world.brokers[1].reason("work") }
    #expect(await eventually { await world.brokers[1].broker.engine.leases.elsewhere.count == 1 })
    world.brokers[0].store.set(.cut)
    world.clock.advance(Limit.lease)
    _ = await world.brokers[1].broker.tick()
    await settle()
    #expect(world.provider.refreshes == 0, "the request may have been acted on")
    world.clock.advance(Takeover.delay - Limit.lease)
    _ = await early.value
    #expect(try await world.brokers[1].token("work", timeout: 300) == "work-a2")
    // The request that never came to the provider fails now, and must not overwrite what the other wrote.
    world.brokers[0].store.set(.works)
    world.provider.release()
    _ = await lost.value
    await settle()
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(try await world.brokers[0].token("work") == "work-a2")
  }

  @Test("An answer after the end of its lease is kept if no other broker renewed the grant")
  func late() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    let asked = Task { try await world.brokers[0].token("work", timeout: 300) }
    // Another has the lease now, and gives it back without having sent anything.
    let (store, lease) = try await world.loseLease("work")
    await store.release(lease)
    world.brokers[0].store.set(.works)
    world.provider.release()
    #expect(try await asked.value == "work-a2")
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(world.database.conflicts > 0)
    #expect(try await world.brokers[1].token("work") == "work-a2")
    #expect(world.provider.reuses == 0)
  }

  @Test("An answer that arrives after an old copy of the database was restored is saved over it")
  func restored() async throws {
    let world = try await SharedWorld()
    let old = try #require(world.database.disk.grant("work"))
    #expect(try await world.brokers[0].token("work") == "work-a2")
    world.clock.advance(.seconds(3600))
    world.provider.hold()
    let asked = Task { try await world.brokers[0].token("work", timeout: 300) }
    #expect(await world.isSent())
    try await world.database.join().commit([.putGrant(old), .removeTokens(account("work"))])
    await settle()
    world.provider.release()
    #expect(try await asked.value == "work-a3")
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r3"))
    #expect(world.provider.reuses == 0)
  }

  @Test("A prolonged lease counts from its request, however late the store answers")
  func countsFromAsking() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    world.brokers[0].store.set(.slow)
    let asked = Task { try await world.brokers[0].token("work", timeout: 300) }
    #expect(await eventually { world.brokers[0].store.waiting == 1 && world.clock.sleepers == 1 })
    world.clock.advance(.seconds(50))
    world.brokers[0].store.set(.works)
    #expect(await world.isSent())
    // It is prolonged every 30 s: the first time is over.
    #expect(await eventually { world.database.lease("work")?.until == .seconds(50) + Limit.lease })
    world.provider.release()
    #expect(try await asked.value == "work-a2")
  }

  @Test("A lease that was granted longer ago than it lasts is asked for again before anything is sent")
  func grantedTooLate() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    world.brokers[0].store.set(.slow)
    let late = Task { try await world.brokers[0].token("work", timeout: 300) }
    #expect(await eventually { world.brokers[0].store.waiting == 1 && world.clock.sleepers == 1 })
    world.clock.advance(Limit.lease + .seconds(1))
    let asked = Task { try await world.brokers[1].token("work", timeout: 300) }
    #expect(await eventually { await world.brokers[1].broker.engine.leases.elsewhere.count == 1 })
    world.brokers[0].store.set(.works)
    #expect(await eventually { world.provider.held == 1 })
    #expect((world.database.lease("work")?.fence ?? 0) == 2)
    world.provider.release()
    #expect(try await asked.value == "work-a2")
    #expect(try await late.value == "work-a2")
    #expect(world.provider.reuses == 0)
  }

  @Test("A lease that ended during its holder's sleep is prolonged if no other broker took it")
  func revived() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    let holder = Task { try await world.brokers[0].token("work", timeout: 300) }
    #expect(await world.isSent())
    world.clock.advance(Limit.lease + .seconds(1))
    #expect(await eventually { world.database.isProlonged() })
    let asked = Task { try await world.brokers[1].token("work", timeout: 300) }
    #expect(await eventually { await world.brokers[1].broker.engine.leases.elsewhere.count == 1 })
    #expect(world.provider.refreshes == 1)
    world.provider.release()
    #expect(try await holder.value == "work-a2")
    #expect(try await asked.value == "work-a2")
    #expect(world.provider.reuses == 0)
  }

  @Test("A holder is informed when its lease was taken, and no longer prolongs it")
  func taken() async throws {
    let world = try await SharedWorld()
    world.provider.drop(1)
    let lost = Task { await world.brokers[0].reason("work") }
    _ = try await world.loseLease("work")
    world.brokers[0].store.set(.works)
    // Who waits for the token sleeps on; the holder's timer does not.
    #expect(await eventually { world.clock.sleepers == 1 })
    await settle()
    #expect(world.clock.sleepers == 1)
    world.provider.release()
    #expect(await eventually { await world.brokers[0].broker.engine.leases.held.isEmpty })
    world.clock.advance(.seconds(300))
    _ = await lost.value
  }

  @Test("A lease that was given back while its refusal was on its way is asked for again at once")
  func heldNoMore() async throws {
    let world = try await SharedWorld()
    let (store, lease) = try #require(try await world.takeLease("work", attempts: 1))
    let site = world.brokers[0]
    site.store.set(.slow)
    let asked = Task { try await site.token("work", timeout: 300) }
    #expect(await eventually { site.store.waiting == 1 })
    await store.release(lease)
    await settle()
    site.store.set(.works)
    try #require(await eventually { world.provider.refreshes == 1 })
    #expect(try await asked.value == "work-a2")
  }

  @Test("An answer that came after another broker renewed the grant is not revoked: that could end the renewed one")
  func overtaken() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    let asked = Task { try await world.brokers[0].token("work", timeout: 300) }
    let (store, lease) = try await world.loseLease("work")
    var grant = try #require(world.database.disk.grant("work"))
    (grant.refreshToken, grant.generation) = (Secret("work-r9"), 2)
    let token = SavedToken(
      account: grant.account, accessToken: Secret("work-a9"), type: "Bearer", scopes: ["read"], generation: 2,
      issuedAt: world.clock.now, expiresAt: world.clock.now + .seconds(3600))
    try await store.commit([.putGrant(grant), .putToken(token), .removeIntent(grant.account)])
    await store.release(lease)
    world.brokers[0].store.set(.works)
    world.provider.release()
    #expect(try await asked.value == "work-a9")
    #expect(await eventually { await world.brokers[0].broker.engine.leases.held.isEmpty })
    _ = await world.brokers[0].broker.tick()
    await settle()
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r9"))
    #expect(world.database.disk.revocations.isEmpty && world.provider.revoked.isEmpty)
  }

  @Test("An answer is kept where a login that brought no refresh token came first")
  func meetsLoginWithout() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    let asked = Task { try await world.brokers[0].token("work", timeout: 300) }
    #expect(await world.isSent())
    // The login goes on with the refresh token whose successor is on its way.
    var grant = try #require(world.database.disk.grant("work"))
    (grant.generation, grant.loggedInAt) = (2, world.clock.now)
    try await world.database.join().commit([.putGrant(grant), .removeTokens(account("work"))])
    let other = world.brokers[1]
    #expect(await eventually { await other.broker.accounts[account("work")]?.saved.generation == 2 })
    // It finds the answer before it would send the token that was used for it.
    world.database.silence(other.store)
    world.provider.release()
    #expect(try await asked.value == "work-a2")
    let kept = world.database.disk.grant("work")
    #expect(kept?.refreshToken == Secret("work-r2") && kept?.generation == 3 && kept?.loggedInAt == grant.loggedInAt)
    #expect(try await world.brokers[1].token("work") == "work-a2")
    #expect(world.provider.reuses == 0)
  }

  @Test("A logout during a refresh also removes an account that another broker saved in the interim")
  func logoutDuringRefresh() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    let asked = Task { await world.brokers[0].reason("work") }
    #expect(await world.isSent())
    var grant = try #require(world.database.disk.grant("work"))
    grant.generation = 2
    try await world.database.join().commit([.putGrant(grant)])
    _ = try await world.brokers[0].call(AccountLogout.self, .init(account: "work", revoke: false))
    world.provider.release()
    #expect(await asked.value == .unknownAccount)
    #expect(world.database.disk.grant("work") == nil)
  }

  @Test("An obsolete answer is discarded, and the account continues")
  func overtakenAtOneGeneration() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    let asked = Task { await world.brokers[0].reason("work") }
    let (store, _) = try await world.loseLease("work")
    // As a sign-out does, which counts no token.
    var grant = try #require(world.database.disk.grant("work"))
    grant.refreshToken = nil
    let told = FailureRecord(message: "signed out", at: world.clock.now)
    grant.standing = .loginRequired(.signedOut, told)
    try await store.commit([.putGrant(grant), .removeIntent(account("work"))])
    world.brokers[0].store.set(.works)
    world.provider.release()
    try #require(await eventually { await world.brokers[0].phase("work") == .idle })
    #expect(await asked.value == .loginRequired)
    #expect(world.database.disk.grant("work")?.standing == .loginRequired(.signedOut, told))
  }
}
