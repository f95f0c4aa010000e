import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Two brokers on one store: a request whose holder stopped, and the other broker.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct SharedTakeoverTests {
  func world(_ rotation: Rotation = .strict) async throws -> SharedWorld {
    try await SharedWorld(providers: [OAuthProvider(.plain { $0.refresh.rotation = rotation })])
  }

  /// The first broker's request is on its way, and the broker has stopped. The second one knows who has the lease.
  func stopped(_ world: SharedWorld) async throws -> Task<ErrorReason?, Never> {
    world.provider.drop(1)
    let lost = Task { await world.brokers[0].reason("work") }
    #expect(await world.isSent())
    world.brokers[0].store.set(.cut)
    return lost
  }

  func asks(_ world: SharedWorld) async -> Task<ErrorReason?, Never> {
    let asked = Task { await world.brokers[1].reason("work") }
    #expect(await eventually { await world.brokers[1].broker.engine.leases.elsewhere.count == 1 })
    return asked
  }

  /// The first broker refreshes although the token is still valid, and the provider's answer is lost.
  func refreshing(tokenAge: Duration) async throws -> (SharedWorld, Task<ErrorReason?, Never>) {
    let world = try await SharedWorld(accounts: [])
    try await world.database.disk.signIn("work", age: tokenAge)
    for site in world.brokers { await site.broker.engine.changedElsewhere([account("work")]) }
    world.provider.drop(1)
    let lost = Task { () -> ErrorReason? in
      _ = try? await world.brokers[0].call(AccountRefresh.self, .init(account: "work", timeout: 300))
      return nil
    }
    #expect(await eventually { world.provider.held == 1 })
    return (world, lost)
  }

  func ends(_ world: SharedWorld, _ tasks: Task<ErrorReason?, Never>...) async {
    world.brokers[0].store.set(.works)
    world.provider.release()
    await world.clock.passes(by: .seconds(10)) { for task in tasks { _ = await task.value } }
  }

  @Test(
    "An unanswered request is taken over by the kind of rotation",
    arguments: [
      (Rotation.none, Limit.lease), (.grace(.seconds(211)), Limit.lease), (.grace(.seconds(209)), Takeover.delay),
      (.grace(.seconds(60)), Takeover.delay),
      (.strict, Takeover.delay),
    ])
  func kinds(_ rotation: Rotation, _ time: Duration) async throws {
    let world = try await world(rotation)
    let lost = try await stopped(world)
    let asked = await asks(world)
    world.clock.advance(time - .seconds(1))
    _ = await world.brokers[1].broker.tick()
    await settle()
    #expect(world.provider.refreshes == 0)
    world.clock.advance(.seconds(2))
    _ = await world.brokers[1].broker.tick()
    _ = await asked.value
    #expect(try await world.brokers[1].token("work", timeout: 300) == "work-a2")
    await ends(world, lost)
    #expect(world.provider.reuses == 0)
  }

  @Test("A caller learns which machine has the lease and how long it may last; `now` with manage access takes it")
  func demanded() async throws {
    let world = try await world()
    let lost = try await stopped(world)
    let site = world.brokers[1]
    let asked = Task { () -> RPCError? in
      do {
        _ = try await site.token("work", timeout: 30)
        return nil
      } catch { return error as? RPCError }
    }
    #expect(await eventually { await site.broker.engine.leases.elsewhere.count == 1 })
    world.clock.advance(.seconds(31))
    let error = try #require(await asked.value)
    #expect(error.reason == .temporarilyUnavailable && error.message.contains("node1"))
    #expect(error.retry_after == 569)
    #expect(try await site.call(AccountRefresh.self, .init(account: "work", now: true)).refreshed)
    #expect(world.provider.refreshes == 1)
    await ends(world, lost)
    #expect(world.provider.reuses == 0)
  }

  @Test("During the wait callers get the token that is still valid")
  func cached() async throws {
    let (world, lost) = try await refreshing(tokenAge: .seconds(3500))
    #expect(try await world.brokers[1].token("work") == "work-a1")
    await ends(world, lost)
  }

  @Test("A lease returns the intent on disk: the requests that another broker sent count")
  func countsOn() async throws {
    let world = try await world()
    let (store, lease) = try #require(try await world.takeLease("work", attempts: 5))
    await store.release(lease)
    world.provider.hold()
    let asked = Task { try await world.brokers[0].token("work", timeout: 300) }
    #expect(await world.isSent())
    #expect(world.database.disk.intent("work")?.attempts == 6)
    #expect(await world.brokers[0].broker.accounts[account("work")]?.intent?.attempts == 6)
    world.provider.release()
    #expect(try await asked.value == "work-a2")
  }

  // MARK: The latest time to send

  @Test("A request that waited longer than its lease is not sent, and the lease is given back")
  func tooLate() async throws {
    let world = try await world()
    let (site, other) = (world.brokers[0], world.brokers[1])
    world.provider.stall(1)
    let late = Task { try await site.token("work", timeout: 300) }
    #expect(await world.isSent())
    // The process is stopped: it prolongs nothing.
    site.store.set(.cut)
    world.clock.advance(Takeover.delay + .seconds(1))
    #expect(try await other.token("work") == "work-a2")
    site.store.set(.works)
    world.provider.release()
    _ = try? await late.value
    #expect(await eventually { (try? await site.token("work")) == "work-a2" })
    #expect(world.provider.refreshes == 1 && world.provider.reuses == 0)
    #expect(await eventually { await site.broker.engine.leases.held.isEmpty })
    #expect(world.database.disk.grant("work")?.standing == .good)
  }

  @Test("A request that waits while its lease is prolonged is sent in time")
  func prolonged() async throws {
    let world = try await world()
    world.provider.hold()
    let asked = Task { try await world.brokers[0].token("work", timeout: 300) }
    #expect(await world.isSent())
    for _ in 0..<6 {
      world.clock.advance(.seconds(30))
      #expect(await eventually { world.database.isProlonged(for: .seconds(100)) })
    }
    let latest = await world.brokers[0].broker.engine.leases.held.values.first?.latestSend ?? .zero
    #expect(latest > world.clock.elapsed && latest <= world.database.lease("work")?.until ?? .zero)
    world.provider.release()
    #expect(try await asked.value == "work-a2")
  }

  // MARK: Another client

  @Test("A machine with another client neither leases nor sends, and its callers learn why")
  func otherClient() async throws {
    let world = try await SharedWorld(
      accounts: [], others: [OAuthProvider(.plain { $0.client.id = "another" })])
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("home")
    #expect(await site.callBack(login).isCompleted("home"))
    #expect(await eventually { (try? await other.token("home")) == "new-a1" })
    world.clock.advance(.seconds(3700))
    #expect(await other.reason("home") == .providerMisconfigured)
    _ = await other.broker.tick()
    await settle()
    #expect(world.provider.refreshes == 0 && world.database.lease("home") == nil)
    #expect(try await site.token("home") == "new-a2")
    #expect(await eventually { (try? await other.token("home")) == "new-a2" })
  }
}
