import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Several brokers on one store: what belongs to one of them, and what only one of them does.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct SharedOwnershipTests {
  // MARK: Logins

  @Test("Only the run that started a login lists, cancels or expires it")
  func owner() async throws {
    let world = try await SharedWorld(accounts: [])
    let site = world.brokers[0]
    let login = try await site.start("home")
    let other = try await world.another()
    #expect(try await other.call(LoginList.self, .init()).logins.isEmpty)
    await #expect(throws: RPCError.self) {
      _ = try await other.call(LoginCancel.self, .init(login_id: login.login_id))
    }
    world.clock.advance(.seconds(86_400))
    _ = await other.broker.tick()
    await settle()
    #expect(world.database.disk.logins.count == 1)
    _ = await site.broker.tick()
    #expect(await eventually { world.database.disk.logins.isEmpty })
  }

  @Test("The next run of a broker continues its logins")
  func nextRun() async throws {
    let world = try await SharedWorld(accounts: [])
    let site = world.brokers[0]
    let login = try await site.start("home")
    let next = try await world.another(of: site)
    #expect(try await next.call(LoginList.self, .init()).logins.map(\.login_id) == [login.login_id])
    #expect(world.database.disk.logins.first?.origin?.run == next.store.node?.run)
    #expect(try await site.call(LoginList.self, .init()).logins.count <= 1)
    _ = try await next.call(LoginCancel.self, .init(login_id: login.login_id))
    #expect(world.database.disk.logins.isEmpty)
  }

  @Test("A taken login does not come back")
  func taken() async throws {
    let world = try await SharedWorld(accounts: [])
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("home")
    world.database.silence(site.store)
    #expect(await other.callBack(login).isCompleted("home"))
    let waiting = Task {
      try await site.call(
        LoginWait.self, .init(login_id: login.login_id, timeout: 1, opened: .init(kind: "browser")))
    }
    await settle()
    #expect(world.database.disk.logins.isEmpty)
    world.clock.advance(.seconds(2))
    _ = try? await waiting.value
    #expect(world.database.disk.logins.isEmpty)
  }

  // MARK: Sign-outs, revocations, registrations

  @Test("A sign-out that meets a change by another broker is decided again")
  func signOut() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    world.database.silence(site.store)
    #expect(try await other.token("work") == "work-a2")
    await site.broker.logout.backChannel.signOut(account("work"), at: provider("example")) { _ in true }
    let saved = world.database.disk.grant("work")
    #expect(saved?.refreshToken == nil)
    guard case .loginRequired = saved?.standing else {
      Issue.record("the sign-out is lost")
      return
    }
    _ = await site.broker.tick()
    #expect(await eventually { world.provider.revoked == ["work-r2"] })
  }

  @Test("A revocation is sent by one of the brokers")
  func revokedOnce() async throws {
    let world = try await SharedWorld()
    await world.brokers[0].broker.logout.revocations.queue(
      [(Secret("dead"), "refresh_token")], provider: provider("example"))
    #expect(await eventually { await world.brokers[1].broker.logout.revocations.count == 1 })
    for site in world.brokers { _ = await site.broker.tick() }
    #expect(await eventually { world.database.disk.revocations.isEmpty })
    await settle()
    #expect(world.provider.revoked == ["dead"])
  }

  @Test("A login removes revocations by other brokers that would end its grant")
  func obsolete() async throws {
    let providers = [NamingProvider(.plain { $0.logout.revocation = .bearer })]
    let world = try await SharedWorld(accounts: [], providers: providers)
    let (site, other) = (world.brokers[0], world.brokers[1])
    #expect(await site.callBack(try await site.start("home")).kind == .completed)
    #expect(await eventually { await other.broker.accounts.contains(account("home")) })
    let saved = try #require(world.database.disk.grant("home"))
    world.database.silence(other.store)
    await site.broker.logout.revocations.queue(
      [(Secret("old"), "refresh_token")], site.broker.logout.revocations.context(of: saved),
      provider: provider("example"))
    #expect(world.database.disk.revocations.count == 1)
    #expect(await other.callBack(try await other.start("home")).kind == .completed)
    #expect(world.database.disk.revocations.isEmpty)
    world.clock.advance(.seconds(120))
    _ = await site.broker.tick()
    await settle()
    #expect(world.provider.revoked.isEmpty)
  }

  @Test("A revocation that another copy of the database brings back does not end a later login")
  func returned() async throws {
    let providers = [NamingProvider(.plain { $0.logout.revocation = .bearer })]
    let world = try await SharedWorld(accounts: [], providers: providers)
    let site = world.brokers[0]
    #expect(await site.callBack(try await site.start("home")).kind == .completed)
    let earlier = try #require(world.database.disk.grant("home"))
    let revocation = await site.broker.logout.revocations.new(
      Secret("old"), "refresh_token", site.broker.logout.revocations.context(of: earlier), provider: provider("example")
    )
    world.clock.advance(.seconds(10))
    #expect(await site.callBack(try await site.start("home")).kind == .completed)
    let later = try #require(world.database.disk.grant("home"))
    #expect(later.loggedInAt > earlier.loggedInAt)
    for broker in world.brokers { world.database.silence(broker.store) }
    site.store.finds(copyWith: [account("home")])
    try await world.database.join().commit([.putGrant(earlier), .putRevocation(revocation)])
    world.clock.advance(.seconds(120))
    _ = await site.broker.tick()
    await settle()
    #expect(world.database.disk.revocations.isEmpty)
    #expect(world.database.disk.grant("home")?.loggedInAt == later.loggedInAt)
    _ = await site.broker.tick()
    await settle()
    #expect(world.provider.revoked.isEmpty)
  }

  @Test("A registration expects its name to be free, and others follow it")
  func registration() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    world.database.silence(other.store)
    let name = provider("made")
    func registration(_ client: String) throws -> SavedRegistration {
      try SavedRegistration(
        provider: name, issuer: #require(Issuer(rawValue: "https://issuer.example")), discovery: .openID,
        clientID: client,
        clientSecret: nil, authMethod: "none", scopes: ["read"], redirectURI: nil, managementToken: nil,
        managementURL: nil, secretExpiresAt: nil, createdAt: world.clock.now)
    }
    let free = await site.broker.journal.shared(.noRegistration(name))
    try await site.broker.journal.commit([.putRegistration(registration("first"))], expecting: free)
    await #expect(throws: StoreError.conflict) {
      try await other.broker.journal.commit([.putRegistration(registration("second"))], expecting: free)
    }
    await other.broker.clients.registrations.changedElsewhere([name])
    #expect(await other.broker.clients.registrations.saved[name]?.clientID == "first")
    #expect(await other.broker.providers[name] != nil)
    try await site.broker.journal.commit([.removeRegistration(name)])
    await other.broker.clients.registrations.changedElsewhere([name])
    #expect(await other.broker.providers[name] == nil)
  }

  // MARK: What is never written

  @Test("A clock step and a damaged database write nothing to a shared store")
  func writesNothing() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    let revision = world.database.revision(account("work"))
    world.clock.step(.seconds(3600))
    _ = await site.broker.tick()
    await settle()
    #expect(world.database.revision(account("work")) == revision)
    site.store.finds(.corrupt(path: "shared", detail: "a page"))
    await site.broker.journal.examine()
    for _ in 0..<20 {
      world.clock.advance(.seconds(1))
      await settle()
    }
    #expect(site.store.rebuilds == 0)
    #expect(await site.broker.journal.failure != nil)
    site.store.finds(nil)
    for _ in 0..<60 {
      world.clock.advance(.seconds(1))
      await settle()
    }
    #expect(await site.broker.journal.failure == nil)
    #expect(world.database.revision(account("work")) == revision)
  }
}
