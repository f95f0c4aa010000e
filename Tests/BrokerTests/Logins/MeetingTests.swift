import BrokerAPI
import Foundation
import Grants
import OAuth
import Synchronization
import Testing

@testable import Broker

/// A login and a refresh of one account that are under way at once: the login wins, in memory and on disk.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct MeetingTests {
  /// Starts a login, and gives the address that the browser would come back to with this code.
  private func callback(_ rig: Rig, code: String) async throws -> String {
    _ = try await rig.call(LoginStart.self, .init(provider: "example", account: "work"))
    let login = try #require(rig.store.logins.first)
    return "\(login.redirectURI)?code=\(code)&state=\(login.state.exposed)"
  }

  @Test("The login is the one on disk, in either order of the writes", arguments: [true, false])
  func whicheverReachesTheStoreFirstTheLogin(_ isLoginFirst: Bool) async throws {
    let rig = try await Rig(store: .expired("work"))
    let url = try await callback(rig, code: "again")
    rig.transport.hold(.token)
    let caller = Task { try await rig.token("work", timeout: 300) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.store.set(.hangs, concerning: isRenewal)
    if !isLoginFirst {
      rig.transport.releaseOne(.token)
      #expect(await eventually { rig.store.hanging == 1 })
    }
    let login = Task { await rig.broker.handleCallback(url: url) }
    #expect(await eventually { rig.transport.count(.token) == 2 })
    rig.transport.release(.token)
    #expect(await eventually { rig.store.hanging == 1 })
    await settle()
    rig.store.set(.works)
    #expect(await login.value.isCompleted("work"))
    _ = try await caller.value
    await settle()
    #expect(try await rig.token("work").access_token == "again-a1")
    #expect(rig.store.token("work")?.accessToken == Secret("again-a1"))
    #expect(rig.store.grant("work")?.refreshToken == Secret("again-r1"))
    let generations = rig.store.log.flatMap { $0 }.compactMap { change -> Int64? in
      if case .putGrant(let grant) = change { grant.generation } else { nil }
    }
    #expect(generations == generations.sorted())
  }

  @Test("A refresh that queued while the broker stopped is not sent, and its token is not taken for lost")
  func aRefreshThatQueuedWhileTheBroker()
    async throws
  {
    let store = try await MemoryStore.expired("work", "home")
    let rig = try await Rig(store: store, configuration: .plain { $0.concurrentPerProvider = 1 })
    rig.transport.hold(.token)
    let first = Task { try await rig.token("work", timeout: 300) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let second = Task { await rig.reason { try await rig.token("home", timeout: 300) } }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 2 })
    let drained = Task { await rig.broker.drain(until: rig.clock.elapsed + .seconds(90)) }
    #expect(await second.value == .shuttingDown)
    rig.transport.release(.token)
    #expect(try await first.value.access_token == "work-a2")
    await rig.clock.passes(by: .milliseconds(20)) { await drained.value }
    #expect(rig.transport.count(.token) == 1)
    #expect(rig.store.intent("home") == nil)
  }

  @Test("Callers, reports, refused refreshes and logouts at random never cross accounts and never hang")
  func callersReportsRefusedRefreshesAndLogoutsAt()
    async throws
  {
    let names = ["work", "home", "lab"]
    for seed in 0..<25 as Range<UInt64> {
      var random = Seeded(state: seed)
      let rig = try await Rig(store: .expired("work", "home", "lab"))
      var tasks: [Task<Void, any Error>] = []
      for _ in 0..<60 {
        let name = names[Int.random(in: 0..<3, using: &random)]
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<5:
          tasks.append(
            Task {
              let asked = rig.clock.now.seconds
              guard let token = try? await rig.token(name) else { return }
              #expect(token.account == name && token.access_token?.hasPrefix("\(name)-a") == true, "seed \(seed)")
              // Time passes while it is returned.
              #expect(token.expires_at.map { $0 > asked } ?? true, "seed \(seed)")
            })
        case 5, 6:
          let generation = Int64.random(in: 1...3, using: &random)
          tasks.append(
            Task {
              _ = try? await rig.call(TokenReportRejected.self, .init(account: name, generation: generation))
            })
        case 7: rig.transport.answer(.token) { _ in HTTPResponse(status: 503) }
        case 8: rig.transport.answer(.token, TokenServer.rotating)
        default: rig.clock.advance(.seconds(Int64.random(in: 1...2000, using: &random)))
        }
        if Bool.random(using: &random) { await yieldActor() }
      }
      // The last one may wait for a timer.
      let begun = tasks
      let ended = Mutex(false)
      let all = Task {
        defer { ended.withLock { $0 = true } }
        for task in begun { try await task.value }
      }
      #expect(await rig.clock.reaches(by: .seconds(1)) { ended.withLock { $0 } }, "seed \(seed) hangs")
      try await all.value
      rig.transport.answer(.token, TokenServer.rotating)
      rig.clock.advance(.seconds(4000))
      for name in names {
        let token = try await rig.token(name)
        #expect(rig.store.token(name)?.accessToken == token.access_token.map { Secret($0) }, "seed \(seed)")
        #expect(await rig.broker.accounts[account(name)]?.intent == nil, "seed \(seed)")
      }
      #expect(await eventually { await rig.broker.engine.leases.inFlight == 0 }, "seed \(seed)")
      #expect(await !rig.broker.journal.isLocked, "seed \(seed)")
    }
  }
}

/// The same numbers each time (SplitMix64).
private struct Seeded: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
