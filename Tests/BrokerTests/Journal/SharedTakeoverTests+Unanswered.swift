import BrokerAPI
import Foundation
import Grants
import OAuth
import Testing

@testable import Broker

// Requests that may still be answered after another broker had the lease, or after the end of their run.
extension SharedTakeoverTests {
  @Test("The provider gets time for the request of a run that has ended", arguments: [false, true])
  func endedRun(_ isNextRun: Bool) async throws {
    let world = try await world()
    let lost = try await stopped(world)
    let asked = await asks(world)
    world.database.ends(world.brokers[0].store)
    let next = isNextRun ? try await world.another(of: world.brokers[0]) : world.brokers[1]
    let again = Task { await next.reason("work") }
    let end = world.clock.elapsed + Takeover.pause
    #expect(await eventually { await next.broker.engine.leases.elsewhere.values.map(\.end) == [end] })
    world.clock.advance(Takeover.pause - .milliseconds(1))
    for site in [next, world.brokers[1]] { _ = await site.broker.tick() }
    await settle()
    #expect(world.provider.refreshes == 0)
    world.clock.advance(.milliseconds(1))
    _ = await next.broker.tick()
    #expect(await again.value == nil)
    #expect(world.provider.refreshes == 1)
    await ends(world, lost, asked)
    #expect(world.provider.reuses == 0)
  }

  @Test("An answer is saved at the end of a lease that another broker took, which sent nothing")
  func answered() async throws {
    let world = try await world(.grace(.seconds(300)))
    world.provider.hold()
    let first = Task { await world.brokers[0].reason("work") }
    #expect(await world.isSent())
    world.brokers[0].store.set(.cut)
    world.clock.advance(Limit.lease + .seconds(1))
    // It stops before it sends.
    let (_, lease) = try #require(try await world.takeLease("work"))
    world.brokers[0].store.set(.works)
    world.provider.release()
    #expect(await eventually { world.database.conflicts > 0 })
    #expect(world.database.lease("work")?.fence == lease.fence)
    await world.clock.passes(by: .seconds(10)) { _ = await first.value }
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(world.clock.elapsed < Takeover.delay)
  }

  @Test("A caller that waits for a lease of another broker is served after its end, although the token is still valid")
  func waiting() async throws {
    let (world, lost) = try await refreshing(tokenAge: .seconds(60))
    world.brokers[0].store.set(.cut)
    let other = world.brokers[1]
    let asked = Task {
      try await other.call(TokenReportRejected.self, .init(account: "work", generation: 1, timeout: 300))
    }
    #expect(await eventually { await other.broker.engine.leases.elsewhere.count == 1 })
    world.database.ends(world.brokers[0].store)
    let end = world.clock.elapsed + Takeover.pause
    #expect(await eventually { await other.broker.engine.leases.elsewhere.values.map(\.end) == [end] })
    await world.clock.passes(by: Takeover.pause) { _ = try? await asked.value }
    #expect(try await asked.value.refreshed)
    #expect(try await other.token("work") == "work-a2")
    await ends(world, lost)
    #expect(world.provider.reuses == 0)
  }

  @Test("A broker that took a lease over and sent nothing keeps the wait for the earlier request")
  func givenBack() async throws {
    let world = try await world(.grace(.seconds(300)))
    let other = world.brokers[1]
    world.provider.hold()
    let first = Task { await world.brokers[0].reason("work") }
    #expect(await world.isSent())
    world.brokers[0].store.set(.cut)
    let asked = await asks(world)
    world.provider.stall(1)
    world.clock.advance(Limit.lease + .seconds(1))
    _ = await other.broker.tick()
    #expect(await eventually { world.provider.held == 2 })
    // The second broker's process is stopped until the grace is over.
    world.clock.advance(.seconds(200))
    let late = world.provider.refreshes
    world.provider.release()
    #expect(await eventually { await other.broker.engine.leases.held.isEmpty })
    _ = await other.broker.tick()
    await settle()
    #expect(world.provider.refreshes == late)
    await ends(world, first, asked)
    #expect(await eventually { (try? await other.token("work")) == "work-a2" })
    #expect(world.provider.refreshes == 1 && world.provider.reuses == 0)
  }
}
