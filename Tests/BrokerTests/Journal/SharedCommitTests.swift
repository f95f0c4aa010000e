import BrokerAPI
import Foundation
import Grants
import OAuth
import Testing

@testable import Broker

/// Commits to a shared store: what they expect, and answers that are lost.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct SharedCommitTests {
  @Test("A login after a logout is not overwritten, though its generation is the same as before")
  func sameGeneration() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    world.database.silence(site.store)
    _ = try await other.call(AccountLogout.self, .init(account: "work", revoke: false))
    let login = try await other.start("work")
    #expect(await other.callBack(login).isCompleted("work"))
    #expect(world.database.disk.grant("work")?.generation == 1)
    await site.broker.accounts.saveStanding(of: account("work"), "a test")
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("new-r1"))
    #expect(try await site.token("work") == "new-a1")
  }

  @Test("A refresh whose commit was made, but not answered, is not repeated", arguments: [false, true])
  func lostAnswer(isNoticedLater: Bool) async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    world.provider.hold()
    let asked = Task { try await site.token("work", timeout: 300) }
    #expect(await world.isSent())
    site.store.set(.forgets)
    world.provider.release()
    if isNoticedLater {
      // Neither is the question whether it was made.
      #expect(await eventually { world.database.disk.grant("work")?.refreshToken == Secret("work-r2") })
    }
    #expect(try await asked.value == "work-a2")
    site.store.set(.works)
    world.clock.advance(.seconds(3600))
    #expect(try await site.token("work") == "work-a3")
    #expect(world.database.conflicts == 0 && world.provider.reuses == 0)
  }

  @Test("A commit that was not made, which the caller could not know, is made again")
  func lostCommit() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    world.provider.hold()
    let asked = Task { try await site.token("work", timeout: 300) }
    #expect(await world.isSent())
    site.store.set(.loses)
    world.provider.release()
    #expect(await eventually { site.store.lost > 0 })
    #expect(await eventually { world.database.disk.grant("work")?.refreshToken == Secret("work-r2") })
    #expect(try await asked.value == "work-a2")
    #expect(world.provider.refreshes == 1)
  }

  @Test("An account whose last commit has no answer is written when the store tells about it")
  func settledLater() async throws {
    let world = try await SharedWorld()
    let (site, name) = (world.brokers[0], account("work"))
    site.store.set(.forgets)
    site.store.setLookups(fail: true)
    let saving = Task { _ = await site.broker.accounts.saveStanding(of: name, "a test") }
    await world.clock.passes(by: .seconds(1)) { await saving.value }
    let left = try #require(world.database.revision(name))
    #expect(await site.broker.journal.revision(of: name) != left)
    site.store.set(.works)
    site.store.setLookups(fail: false)
    #expect(await world.clock.reaches(by: .seconds(1)) { await site.isSaved })
    #expect(world.database.conflicts == 0)
    // The journal has no failure from the moment that its store works, before it has written the account.
    #expect(
      await eventually { await site.broker.journal.revision(of: name) == world.database.revision(name) })
  }
}
