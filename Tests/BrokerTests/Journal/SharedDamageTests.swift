import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A row of a shared database that another broker wrote and that cannot be read.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct SharedDamageTests {
  /// The second broker has renewed the account without the first one's knowledge, and the row cannot be read.
  private func damaged() async throws -> (SharedWorld, SharedSite) {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    for broker in world.brokers { world.database.silence(broker.store) }
    #expect(try await world.brokers[1].token("work") == "work-a2")
    site.store.cannotRead([account("work")])
    return (world, site)
  }

  @Test("A sign-in replaces a row that cannot be read")
  func login() async throws {
    let (world, site) = try await damaged()
    let before = world.database.revision(account("work"))
    #expect(await site.callBack(try site.start("work")).kind == .completed)
    #expect(world.database.revision(account("work")) != before)
    #expect(world.database.disk.grant("work")?.loggedInAt == world.clock.now)
    #expect(world.provider.revoked.isEmpty)
  }

  @Test("A sign-out removes a row that cannot be read")
  func logout() async throws {
    let (world, site) = try await damaged()
    _ = try await site.call(AccountLogout.self, .init(account: "work"))
    #expect(world.database.disk.grant("work") == nil)
    #expect(await site.reason("work") == .unknownAccount)
  }

  @Test("A sign-in that is refused lets no refresh send the token from before a row that cannot be read")
  func refusedLogin() async throws {
    let (world, site) = try await damaged()
    await site.broker.accounts.follow(account("work"), replacing: true)
    #expect(await site.reason("work") == .temporarilyUnavailable)
    #expect(world.provider.reuses == 0)
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
  }

  @Test("A row that cannot be read is written again if its revision is that of memory")
  func ownState() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    let before = world.database.revision(account("work"))
    site.store.cannotRead([account("work")])
    await site.broker.accounts.changedElsewhere([account("work")])
    await settle()
    #expect(world.database.revision(account("work")) != before)
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
  }

  @Test("The other columns of a row that cannot be read do not show that memory is newer")
  func editedGeneration() async throws {
    let (world, site) = try await damaged()
    var edited = try #require(world.database.disk.grant("work"))
    edited.generation = -1
    try await world.database.join().commit([.putGrant(edited)])
    await site.broker.accounts.changedElsewhere([account("work")])
    await settle()
    #expect(world.database.disk.grant("work")?.generation == -1)
    #expect(await site.reason("work") == .temporarilyUnavailable)
    #expect(world.provider.reuses == 0)
  }

  /// The readable part of the row that the other broker left.
  enum Left: CaseIterable { case token, spentToken, nothing }

  @Test(
    "An answer after the end of its lease replaces a row that cannot be read, unless that has another refresh token",
    arguments: Left.allCases)
  func late(left: Left) async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    world.provider.hold()
    let asked = Task { try? await site.token("work", timeout: 300) }
    let (store, lease) = try await world.loseLease("work")
    var grant = try #require(world.database.disk.grant("work"))
    grant.generation += 1
    if left == .token { grant.refreshToken = Secret("another") }
    try await store.commit([.putGrant(grant)])
    await store.release(lease)
    site.store.cannotRead([account("work")], salvageable: left != .nothing)
    site.store.set(.works)
    world.provider.release()
    // Another token is that of a later renewal, which only its broker can refresh.
    if left == .token {
      #expect(await eventually { await site.broker.engine.leases.held.isEmpty })
      #expect(world.database.disk.grant("work")?.refreshToken == Secret("another"))
      world.clock.advance(.seconds(301))
    }
    #expect(await asked.value == (left == .token ? nil : "work-a2"))
    #expect(world.database.disk.grant("work")?.refreshToken == Secret(left == .token ? "another" : "work-r2"))
    #expect(world.provider.reuses == 0 && world.provider.revoked.isEmpty)
  }

  // MARK: Another copy of the database

  @Test("An account that a further copy lacks is not taken for one that was removed from the first")
  func furtherCopy() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    for broker in world.brokers { world.database.silence(broker.store) }
    site.store.finds(copyWith: [account("work")])
    let other = world.database.join()
    try await other.commit([.removeGrant(account("work"))])
    // The account was made after the second copy, which is found by the read.
    site.store.beforeNextRead { site.store.finds(copyWith: []) }
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(!site.store.isOtherCopy)
  }

  @Test("A refresh that meets the copy waits for its comparison")
  func refreshDuringComparison() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    for broker in world.brokers { world.database.silence(broker.store) }
    try await world.database.join().commit([.removeGrant(account("work"))])
    site.store.finds(copyWith: [])
    #expect(await site.reason("work") == .temporarilyUnavailable)
    #expect(world.database.conflicts <= 2)
    #expect(world.provider.refreshes == 0)
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    #expect(!site.store.isOtherCopy)
    world.clock.advance(.seconds(300))
    #expect(try await site.token("work", timeout: 300) == "work-a2")
  }

  @Test("A refresh token that is on its way is not sent by another broker that has the copy")
  func refreshUnderWay() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    world.provider.hold()
    let asked = Task { try await site.token("work", timeout: 300) }
    #expect(await world.isSent())
    world.database.silence(other.store)
    world.database.loses("work")
    site.store.finds(copyWith: [])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    #expect(!site.store.isOtherCopy)
    // The token in memory is being spent.
    #expect(world.database.disk.grant("work") == nil)
    world.provider.release()
    #expect(try await asked.value == "work-a2")
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(world.provider.reuses == 0 && world.provider.revoked.isEmpty)
  }

  /// The login on disk, an earlier one with a spent refresh token, and a token of fewer scopes.
  private static func logins(_ world: SharedWorld) throws -> (present: SavedGrant, earlier: SavedGrant, SavedToken) {
    let present = try #require(world.database.disk.grant("work"))
    var earlier = present
    earlier.loggedInAt = present.loggedInAt - .seconds(86_400)
    earlier.refreshToken = Secret("spent")
    let narrowed = SavedToken(
      account: present.account, key: .init(scope: "read"), accessToken: Secret("narrowed"), type: "Bearer",
      scopes: ["read"], generation: 9, issuedAt: world.clock.now, expiresAt: world.clock.now + .seconds(3600))
    return (present, earlier, narrowed)
  }

  @Test("The end of a refresh removes the tokens that the copy has of an earlier login")
  func tokensOfEarlierLogin() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    let (_, earlier, narrowed) = try Self.logins(world)
    world.provider.hold()
    let asked = Task { try await site.token("work", timeout: 300) }
    #expect(await world.isSent())
    for broker in world.brokers { world.database.silence(broker.store) }
    try await world.database.join().commit([.putGrant(earlier), .removeIntent(earlier.account), .putToken(narrowed)])
    #expect(world.database.disk.narrowed("work").count == 1)
    site.store.finds(copyWith: [earlier.account])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    world.provider.release()
    #expect(try await asked.value == "work-a2")
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(world.database.disk.token("work")?.accessToken == Secret("work-a2"))
    #expect(world.database.disk.narrowed("work").isEmpty)
    #expect(world.provider.reuses == 0)
  }

  @Test("The end of a refresh leaves the tokens that another broker with the same login has in the copy")
  func tokensOfSameLogin() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    let (same, earlier, narrowed) = try Self.logins(world)
    world.provider.hold()
    let asked = Task { try await site.token("work", timeout: 300) }
    #expect(await world.isSent())
    for broker in world.brokers { world.database.silence(broker.store) }
    let other = world.database.join()
    try await other.commit([.putGrant(earlier), .removeIntent(earlier.account)])
    site.store.finds(copyWith: [earlier.account])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    try await other.commit([.putGrant(same), .putToken(narrowed)])
    world.provider.release()
    #expect(try await asked.value == "work-a2")
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(world.database.disk.narrowed("work").values.map(\.accessToken) == [Secret("narrowed")])
    #expect(world.provider.reuses == 0)
  }

  @Test("A report during a refresh does not write the refresh token that is being sent to the copy")
  func reportUnderWay() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    let token = try await site.call(TokenGet.self, .init(account: "work"))
    world.provider.hold()
    let asked = Task { try await site.call(AccountRefresh.self, .init(account: "work", timeout: 300)).generation }
    #expect(await eventually { world.provider.held == 1 })
    world.database.silence(other.store)
    world.database.loses("work")
    site.store.finds(copyWith: [])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    let report = Task {
      try? await site.call(
        TokenReportRejected.self, .init(account: "work", generation: token.generation, timeout: 300))
    }
    await settle()
    #expect(world.database.disk.grant("work") == nil)
    #expect(await site.broker.journal.failure == nil)
    world.provider.release()
    #expect(try await asked.value == token.generation + 1)
    _ = await report.value
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r3"))
    #expect(world.provider.reuses == 0 && world.provider.revoked.isEmpty)
  }

  @Test("An account that another broker wrote to the copy and that was removed then does not come back")
  func logoutAfterCopy() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    let grant = try #require(world.database.disk.grant("work"))
    world.provider.hold()
    let asked = Task { await site.reason("work") }
    #expect(await world.isSent())
    world.database.silence(world.brokers[1].store)
    world.database.loses("work")
    site.store.finds(copyWith: [])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    let other = world.database.join()
    try await other.commit([.putGrant(grant)])
    await settle()
    try await other.commit([.removeGrant(account("work"))])
    await settle()
    #expect(await site.broker.accounts[account("work")] == nil)
    world.provider.release()
    #expect(await asked.value == .unknownAccount)
    #expect(world.database.disk.grant("work") == nil)
  }

  @Test("A login is written over an earlier login in the copy, even if another broker changes that")
  @BrokerActor func touchedCopy() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    #expect(try await site.token("work") == "work-a2")
    for broker in world.brokers { world.database.silence(broker.store) }
    var earlier = try #require(world.database.disk.grant("work"))
    earlier.loggedInAt = earlier.loggedInAt - .seconds(86_400)
    earlier.refreshToken = Secret("spent")
    try await world.database.join().commit([.putGrant(earlier), .removeTokens(account("work"))])
    site.store.finds(copyWith: [account("work")])
    let copy = try #require(try await site.store.otherCopy())
    try await site.broker.keep(over: copy)
    // Before the account is saved.
    world.database.touches("work")
    site.store.keptOverCopy(copy.number)
    await settle()
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r2"))
  }

  @Test("Only the broker with a request under way refreshes an account that two brokers write back to the copy")
  func twoKeepers() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    world.provider.hold()
    let asked = Task { try await site.token("work", timeout: 300) }
    #expect(await world.isSent())
    world.database.loses("work")
    for broker in world.brokers { broker.store.finds(copyWith: []) }
    world.clock.advance(Limit.examination)
    for broker in world.brokers {
      _ = await broker.broker.tick()
      await settle()
    }
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r1"))
    let second = Task { try await other.token("work", timeout: 300) }
    await settle()
    #expect(world.provider.held == 1)
    world.provider.release()
    #expect(try await asked.value == "work-a2")
    #expect(try await second.value == "work-a2")
    #expect(world.provider.reuses == 0 && world.provider.refreshes == 1)
  }

  @Test("If the request under way fails, the account is written to the copy that lacks it")
  func failureUnderWay() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    world.provider.drop(1)
    let lost = Task { await site.reason("work") }
    #expect(await world.isSent())
    world.database.silence(world.brokers[1].store)
    world.database.loses("work")
    site.store.finds(copyWith: [])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    world.provider.release()
    #expect(await world.clock.reaches(by: .seconds(1)) { world.database.disk.grant("work") != nil })
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("work-r1"))
    world.clock.advance(.seconds(300))
    _ = await lost.value
  }

  /// Why a revocation that the copy lacks is not wanted any more.
  enum End: CaseIterable { case none, laterLogin, removal }

  @Test("A revocation that the copy lacks is written back, unless it is done or obsolete", arguments: End.allCases)
  func revocation(end: End) async throws {
    let providers = [NamingProvider(.plain { $0.logout.revocation = .bearer })]
    let world = try await SharedWorld(accounts: [], providers: providers)
    let site = world.brokers[0]
    #expect(await site.callBack(try await site.start("home")).kind == .completed)
    let grant = try #require(world.database.disk.grant("home"))
    let revocations = site.broker.logout.revocations
    var revocation = await revocations.new(
      Secret("old"), "refresh_token", end == .laterLogin ? revocations.context(of: grant) : [:],
      provider: provider("example"))
    revocation.retryAt = world.clock.now + .seconds(1000)
    if end == .laterLogin { revocation.expiresAt = revocation.expiresAt - .seconds(1) }
    await revocations.takeOver([revocation])
    site.store.finds(copyWith: [account("home")], removedRevocations: end == .removal ? [revocation.id] : [])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    #expect(world.database.disk.revocations.map(\.id) == (end == .none ? [revocation.id] : []))
    _ = await revocations.follow()
    #expect(await revocations.count == (end == .none ? 1 : 0))
  }

  @Test("A logout during the comparison tells that its revocation is queued")
  func logoutDuringComparison() async throws {
    let providers = [OAuthProvider(.plain { $0.logout.revocation = .bearer })]
    let world = try await SharedWorld(providers: providers)
    let site = world.brokers[0]
    site.store.finds(copyWith: [account("work")])
    let steps = try await site.call(AccountLogout.self, .init(account: "work")).steps
    #expect(steps.first { $0.step == "revoke_refresh_token" }?.result == "queued")
    #expect(await site.broker.logout.revocations.count > 0)
  }

  @Test(
    "A registration that the copy lacks is written back, unless it was removed there since",
    arguments: [nil, -1, 1] as [Int64?])
  func registration(removed: Int64?) async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    let made = try registration("made", at: world.clock.now)
    await site.broker.clients.registrations.takeOver([made])
    site.store.finds(
      copyWith: [account("work")],
      removedRegistrations: removed.map { [made.provider: made.createdAt + .seconds($0)] } ?? [:])
    world.clock.advance(Limit.examination)
    _ = await site.broker.tick()
    await settle()
    #expect(world.database.disk.registrations.map(\.provider) == (removed == 1 ? [] : [made.provider]))
  }

  @Test("A removed registration in a notification is kept while the copy is compared")
  func registrationDuringComparison() async throws {
    let world = try await SharedWorld()
    let site = world.brokers[0]
    let made = try registration("made", at: world.clock.now)
    await site.broker.clients.registrations.takeOver([made])
    site.store.finds(copyWith: [account("work")])
    await site.broker.clients.registrations.changedElsewhere([made.provider])
    #expect(await site.broker.clients.registrations.saved[made.provider] == made)
  }

  private func registration(_ name: String, at time: Timestamp) throws -> SavedRegistration {
    try SavedRegistration(
      provider: provider(name), issuer: #require(Issuer(rawValue: "https://issuer.example")), discovery: .openID,
      clientID: "client", clientSecret: nil, authMethod: "none", scopes: ["read"], redirectURI: nil,
      managementToken: nil, managementURL: nil, secretExpiresAt: nil, createdAt: time)
  }
}
