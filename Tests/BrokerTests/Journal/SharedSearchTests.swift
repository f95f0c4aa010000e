import Grants
import Testing

@testable import Broker

/// Two brokers on one store, at random.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct SharedSearchTests {
  private static let names = ["work", "home", "bank"]

  @Test("Whatever happens when, no refresh token is sent twice and none is lost", arguments: 0..<25)
  func anything(_ seed: UInt64) async throws {
    var random = Seeded(seed)
    let world = try await SharedWorld(accounts: Self.names)
    var asked: [Task<Void, Never>] = []
    for _ in 0..<60 {
      let site = world.brokers[Int(random.next() % 2)]
      let name = Self.names[Int(random.next() % 3)]
      switch random.next() % 6 {
      case 0, 1, 2: asked.append(Task { _ = await site.reason(name) })
      case 3: await pass(Int(random.next() % 200), world)
      case 4: if random.next() % 2 == 0 { world.provider.hold() } else { world.provider.release() }
      default: _ = await site.broker.tick()
      }
      for _ in 0..<Int(random.next() % 40) { await yieldActor() }
    }
    world.provider.release()
    // Who waits for the other's lease, or to try again, gets its turn; who asked waits for 300 s at most.
    for _ in 0..<40 {
      await pass(10, world)
      for site in world.brokers { _ = await site.broker.tick() }
    }
    for task in asked { await task.value }
    #expect(world.database.overtaken == 0)
    #expect(world.provider.reuses == 0)
    for name in Self.names {
      // A refresh that is due may be under way still.
      #expect(
        await eventually { world.database.disk.grant(name)?.refreshToken == world.provider.live(name) }, "\(name)")
      for site in world.brokers {
        #expect(try await eventually { try await site.token(name) == world.provider.accessToken(name) }, "\(name)")
      }
    }
  }

  /// No machine is suspended: a broker with a lease prolongs it before more time passes.
  private func pass(_ seconds: Int, _ world: SharedWorld) async {
    for _ in 0..<seconds {
      world.clock.advance(.seconds(1))
      #expect(await eventually { world.database.isProlonged(for: .seconds(20)) })
    }
    await settle()
  }
}

private struct Seeded {
  private var state: UInt64
  init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1 }
  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return state >> 33
  }
}
