import BrokerAPI
import Foundation
import Grants
import OAuth
import Testing

@testable import Broker

/// Two brokers on one store: who refreshes, and who follows.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct SharedStoreTests {
  @Test("Changes that are reported while others are read are read at once")
  func burst() async throws {
    let names = (0..<40).map { "a\($0)" }
    let world = try await SharedWorld(accounts: names)
    let (site, other) = (world.brokers[0], world.brokers[1])
    other.store.set(.slow)
    let before = other.store.reads
    for name in names { #expect(try await site.token(name) == "\(name)-a2") }
    #expect(await eventually { other.store.waiting == 1 })
    await settle()
    other.store.set(.works)
    for name in names { #expect(await eventually { (try? await other.token(name)) == "\(name)-a2" }) }
    #expect(other.store.reads - before <= 3)
    #expect(world.provider.refreshes == names.count)
  }

  @Test("Two brokers asked at once refresh once, and both release the new token")
  func atOnce() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    let asked = world.brokers.map { broker in Task { try await broker.token("work") } }
    #expect(await eventually { world.provider.held == 1 })
    await settle()
    #expect(world.provider.held == 1, "the other waits for the holder of the lease")
    world.provider.release()
    for answer in asked { #expect(try await answer.value == "work-a2") }
    #expect(world.provider.refreshes == 1)
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
  }

  @Test("A broker that is behind the store follows it before it sends anything")
  func behind() async throws {
    let world = try await SharedWorld()
    // It gets no notification: the conflict shows the change, and the token that it finds has expired as well.
    world.database.silence(world.brokers[1].store)
    #expect(try await world.brokers[0].token("work") == "work-a2")
    world.clock.advance(.seconds(3600))
    #expect(try await world.brokers[1].token("work") == "work-a3")
    #expect(try await world.brokers[0].token("work") == "work-a3")
    #expect(world.provider.refreshes == 2 && world.provider.reuses == 0)
  }

  @Test("An account removed at one broker disappears at the other; a new one appears")
  func comingAndGoing() async throws {
    let world = try await SharedWorld()
    _ = try await world.brokers[0].call(AccountLogout.self, .init(account: "work", revoke: false))
    #expect(await eventually { await world.brokers[1].reason("work") == .unknownAccount })
    try await world.database.disk.signIn("home")
    await world.brokers[1].broker.engine.changedElsewhere([account("home")])
    #expect(try await world.brokers[1].token("home") == "home-a1")
  }

  // MARK: What one writes over another

  @Test("An account that is newer in memory never overwrites a later write of another broker")
  func newerInMemory() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    world.provider.drop(1)
    let lost = Task { await site.reason("work") }
    #expect(await world.isSent())
    // The failure cannot be saved, and the lease is not given back.
    site.store.set(.fails)
    world.provider.release()
    _ = await lost.value
    #expect(await eventually { await !site.isSaved })
    for _ in 0..<125 {
      world.clock.advance(.seconds(5))
      await settle()
    }
    #expect(try await other.token("work") == "work-a2")
    site.store.set(.works)
    #expect(await world.clock.reaches(by: .seconds(1)) { await site.isSaved })
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(try await site.token("work") == "work-a2")
    #expect(world.provider.reuses == 0 && world.provider.revoked.isEmpty)
  }

  @Test(
    "An account that a restored copy lacks is written back, unless it was removed from the copy",
    arguments: [true, false])
  func lackedByCopy(isRemoved: Bool) async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    for broker in world.brokers { world.database.silence(broker.store) }
    try await world.database.join().commit([.removeGrant(account("work"))])
    site.store.finds(copyWith: isRemoved ? [account("work")] : [])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    #expect(world.database.disk.grant("work")?.refreshToken == (isRemoved ? nil : Secret("work-r2")))
    guard !isRemoved else { return }
    world.clock.advance(.seconds(3600))
    #expect(try await site.token("work", timeout: 300) == "work-a3")
    #expect(world.provider.reuses == 0 && world.provider.revoked.isEmpty)
  }

  @Test(
    "A login that a restored copy lacks is written over the account's earlier login, with and without a notice",
    arguments: [true, false])
  func laterLogin(isSilent: Bool) async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    if isSilent { for broker in world.brokers { world.database.silence(broker.store) } }
    var earlier = try #require(world.database.disk.grant("work"))
    earlier.loggedInAt = earlier.loggedInAt - .seconds(86_400)
    earlier.refreshToken = Secret("spent")
    site.store.finds(copyWith: [account("work")])
    try await world.database.join().commit([.putGrant(earlier), .removeTokens(account("work"))])
    await settle()
    #expect(try await site.token("work") == "work-a2")
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(!site.store.isOtherCopy)
  }

  @Test("An account whose row in the copy cannot be read ends neither the comparison nor the renewals of the others")
  func unreadableInCopy() async throws {
    let world = try await SharedWorld(accounts: ["home", "work"])
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    site.store.finds(copyWith: [account("home")])
    site.store.cannotRead([account("home")])
    try await world.database.join().commit([.removeGrant(account("work"))])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    #expect(await world.clock.reaches(by: .seconds(1)) { !site.store.isOtherCopy })
    #expect(await world.clock.reaches(by: .seconds(1)) { await site.isSaved })
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(await site.broker.journal.failure == nil)
    world.clock.advance(.seconds(3600))
    #expect(try await site.token("work", timeout: 300) == "work-a3")
  }

  @Test("A notification about a row that cannot be read stops no other account")
  func unreadableChange() async throws {
    let world = try await SharedWorld(accounts: ["home", "work"])
    let site = world.brokers[0]
    site.store.cannotRead([account("home")])
    let both = [account("home"), account("work")]
    let changes = both.compactMap { name in world.database.disk.grant(name.rawValue).map { Change.putGrant($0) } }
    try await world.database.join().commit(changes)
    await settle()
    #expect(await site.broker.journal.failure == nil)
    #expect(try await site.token("work") == "work-a2")
    // Its refresh waits, as after any other failure.
    let reads = site.store.reads
    #expect(await site.reason("home") == .temporarilyUnavailable)
    #expect(site.store.reads - reads < 10)
    #expect(await site.broker.journal.failure == nil)
  }

  @Test("A report is kept if memory follows another broker's write before the report is saved")
  func reportBehindWrite() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    let token = try await site.call(TokenGet.self, .init(account: "work"))
    await site.broker.journal.lock(account("work"))
    let following = Task { await site.broker.accounts.changedElsewhere([account("work")]) }
    await settle()
    let report = Task {
      try await site.call(
        TokenReportRejected.self, .init(account: "work", generation: token.generation, timeout: 300))
    }
    await settle()
    await site.broker.journal.unlock(account("work"))
    await following.value
    #expect(try await report.value.refreshed)
    #expect(try await site.token("work") == "work-a3")
  }

  @Test("A login to an account that the copy lacks is saved while the copy is compared")
  func loginDuringComparison() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    for broker in world.brokers { world.database.silence(broker.store) }
    try await world.database.join().commit([.removeGrant(account("work"))])
    site.store.finds(copyWith: [])
    #expect(await site.callBack(try site.start("work")).kind == .completed)
    #expect(world.database.disk.grant("work") != nil)
    #expect(world.provider.revoked.isEmpty)
  }

  @Test(
    "An account that the copy knows as removed stays if it was signed in to after the removal",
    arguments: [true, false])
  func loginAfterRemoval(isLater: Bool) async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    let login = try #require(world.database.disk.grant("work")).loggedInAt
    for broker in world.brokers { world.database.silence(broker.store) }
    try await world.database.join().commit([.removeGrant(account("work"))])
    site.store.finds(
      copyWith: [], removed: [account("work"): isLater ? login - .seconds(1) : login + .seconds(1)])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    #expect((world.database.disk.grant("work") != nil) == isLater)
    #expect(await (site.broker.accounts[account("work")] != nil) == isLater)
  }

  @Test("If a further copy is found while the first is compared, it is compared too")
  func secondCopy() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    for broker in world.brokers { world.database.silence(broker.store) }
    try await world.database.join().commit([.removeGrant(account("work"))])
    site.store.finds(copyWith: [account("work")])
    site.store.finds(copyWith: [])
    site.store.keptOverCopy(1)
    #expect(site.store.isOtherCopy)
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
  }

  @Test("A page of accounts that cannot be read is compared with the copy later, and nothing is lost")
  func unreadablePage() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    site.store.finds(copyWith: [])
    site.store.failsNextReads(2)
    try await world.database.join().commit([.removeGrant(account("work"))])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    #expect(await world.clock.reaches(by: .seconds(1)) { !site.store.isOtherCopy })
    await settle()
    #expect(await world.clock.reaches(by: .seconds(1)) { await site.isSaved })
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
  }

  @Test("A save without the lease keeps the intent of its holder")
  func intentOfAnother() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    let asked = Task { try await world.brokers[1].token("work") }
    #expect(await world.isSent())
    #expect(world.database.disk.intent("work") != nil)
    await world.brokers[0].broker.accounts.saveStanding(of: account("work"), "a test")
    #expect(world.database.disk.intent("work") != nil)
    world.provider.release()
    #expect(try await asked.value == "work-a2")
    #expect(world.database.disk.intent("work") == nil)
  }

  @Test("A refresh that fails after another broker took its lease writes nothing")
  func failsLate() async throws {
    let world = try await SharedWorld()
    world.provider.drop(1)
    let lost = Task { await world.brokers[0].reason("work") }
    _ = try await world.loseLease("work")
    world.brokers[0].store.set(.works)
    world.provider.release()
    #expect(await eventually { await world.brokers[0].broker.engine.leases.held.isEmpty })
    await settle()
    #expect(world.database.disk.intent("work")?.attempts == 5)
    #expect(world.database.disk.grant("work")?.standing == .good)
    world.clock.advance(.seconds(300))
    _ = await lost.value
  }

  @Test(
    "A logout that meets a refresh by another broker revokes the new refresh token, and nothing brings the account back"
  )
  func logoutMeetsRefresh() async throws {
    let world = try await SharedWorld()
    world.provider.hold()
    let asked = Task { await world.brokers[1].reason("work") }
    #expect(await world.isSent())
    world.database.silence(world.brokers[1].store)
    let gone = Task { try await world.brokers[0].call(AccountLogout.self, .init(account: "work")) }
    #expect(await eventually { world.database.disk.grant("work") == nil })
    world.provider.release()
    _ = try await gone.value
    #expect(await asked.value == .unknownAccount)
    #expect(world.database.disk.grant("work") == nil)
    _ = await world.brokers[1].broker.tick()
    #expect(await eventually { world.provider.revoked.contains("work-r2") })
  }

  @Test("A logout at a broker with old state revokes the stored token")
  func logoutBehind() async throws {
    let world = try await SharedWorld()
    world.database.silence(world.brokers[0].store)
    #expect(try await world.brokers[1].token("work") == "work-a2")
    _ = try await world.brokers[0].call(AccountLogout.self, .init(account: "work"))
    #expect(world.database.disk.grant("work") == nil)
    #expect(world.provider.revoked.first == "work-r2" && !world.provider.revoked.contains("work-r1"))
  }

  @Test(
    "An account that comes back after its refresh was overtaken is numbered on, so that no lease is taken for another")
  func numbers() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    world.provider.hold()
    let asked = Task { try await site.token("work", timeout: 300) }
    #expect(await world.isSent())
    // Another login of the account, whose token is over already.
    var grant = try #require(world.database.disk.grant("work"))
    (grant.refreshToken, grant.generation) = (Secret("work-r2"), 2)
    grant.loggedInAt = world.clock.now
    try await world.database.join().commit([.putGrant(grant), .removeTokens(account("work"))])
    #expect(await eventually { world.provider.held == 2 })
    let keys = await site.broker.engine.leases.held.keys.map(\.attempt)
    #expect(Set(keys).count == 2)
    world.provider.release()
    #expect(try await asked.value == "work-a3")
    #expect(await eventually { await site.broker.engine.leases.held.isEmpty })
    // The lease is released in the store after that.
    #expect(await eventually { world.database.lease("work")?.holder == nil })
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r3"))
  }
}
