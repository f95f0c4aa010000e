import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Two brokers on one store: logins that one begins and the other completes.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct SharedLoginTests {
  @Test("A callback at another broker completes the login there, and callers waiting at the first are informed")
  func elsewhere() async throws {
    let world = try await SharedWorld(accounts: [])
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("home")
    let told = Task { try await site.call(LoginWait.self, .init(login_id: login.login_id, timeout: 300)) }
    #expect(await eventually { world.clock.sleepers == 1 })
    #expect(await other.callBack(login).isCompleted("home"))
    try #require(await eventually { world.clock.sleepers == 0 })
    let result = try await told.value
    #expect(result.state == .completed && result.account?.account == "home")
    #expect(world.provider.codes == ["new"] && world.database.disk.logins.isEmpty)
    #expect(try await other.token("home") == "new-a1")
    #expect(try await site.token("home") == "new-a1")
    #expect(await site.callBack(login).kind == .alreadyCompleted)
    #expect(world.provider.codes == ["new"])
  }

  @Test("If two brokers get one callback, one sends the code and the other reports it as done")
  func once() async throws {
    let world = try await SharedWorld(accounts: [])
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("home")
    site.store.set(.cut)
    let late = Task { await site.callBack(login) }
    #expect(await eventually { site.store.waiting == 1 })
    #expect(await other.callBack(login).isCompleted("home"))
    site.store.set(.works)
    #expect(await late.value.kind == .alreadyCompleted)
    #expect(world.provider.codes == ["new"])
    #expect(await eventually { (try? await site.token("home")) == "new-a1" })
  }

  @Test("A login whose callback was refused by another broker waits on where it began")
  func refused() async throws {
    let world = try await SharedWorld(accounts: [])
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("home")
    let doubled = login.callback() + "&code=other"
    #expect(await other.broker.handleCallback(url: doubled).kind == .refused)
    #expect(await other.broker.logins.unendedCount == 0)
    #expect(await site.callBack(login).isCompleted("home"))
  }

  @Test("Tokens in a fragment are accepted once, at either broker")
  func fragment() async throws {
    let redirect = try RedirectURI("http://127.0.0.1:8400/callback")
    let settings = ProviderSettings.plain {
      $0.client.redirect = .fixed(redirect)
      $0.signIn.isImplicit = true
    }
    let world = try await SharedWorld(accounts: [], providers: [OAuthProvider(settings)])
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("home")
    #expect(await other.broker.awaitsFragment(url: redirect.rawValue))
    let answer = "access_token=a1&token_type=Bearer&expires_in=3600&state=\(login.query["state"] ?? "")"
    let url = "\(redirect.rawValue)#\(answer)"
    site.store.set(.cut)
    let late = Task { await site.broker.handleCallback(url: url) }
    #expect(await eventually { site.store.waiting == 1 })
    #expect(await other.broker.handleCallback(url: url).isCompleted("home"))
    site.store.set(.works)
    #expect(await late.value.kind == .alreadyCompleted)
    #expect(await eventually { (try? await site.token("home")) == "a1" })
    #expect(world.database.disk.logins.isEmpty)
  }

  @Test("If callbacks have no state, one login waits at a provider, at either broker")
  func stateless() async throws {
    let world = try await SharedWorld(accounts: [], providers: [SteppedProvider()])
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("home")
    await #expect(throws: RPCError.self) { _ = try await other.start("bank") }
    let address = "\(login.destinations.last?.redirect_uri ?? "")?code=new"
    #expect(await other.broker.handleCallback(url: address).kind == .completed)
    #expect(world.provider.codes == ["new"])
    _ = try await other.start("bank")
  }

  @Test("A login at a broker with old state is adopted over the stored state")
  func adoptedBehind() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("work")
    world.database.silence(site.store)
    #expect(try await other.token("work") == "work-a2")
    #expect(await site.callBack(login).isCompleted("work"))
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("new-r1"))
    #expect(world.database.disk.grant("work")?.generation == 3)
    #expect(try await eventually { try await other.token("work") == "new-a1" })
  }

  @Test("An account removed by another broker exists again after a login")
  func adoptedAnew() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("work")
    world.database.silence(site.store)
    _ = try await other.call(AccountLogout.self, .init(account: "work"))
    #expect(await site.callBack(login).isCompleted("work"))
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("new-r1"))
    #expect(world.database.disk.grant("work")?.createdAt == world.clock.now)
  }

  @Test("A login is not overwritten by a refresh that another broker had under way")
  func meetsRefresh() async throws {
    let world = try await SharedWorld()
    let (site, other) = (world.brokers[0], world.brokers[1])
    let login = try await site.start("work")
    world.provider.hold()
    let asked = Task { try await other.token("work", timeout: 300) }
    #expect(await world.isSent())
    world.database.silence(other.store)
    #expect(await site.callBack(login).isCompleted("work"))
    world.provider.release()
    #expect(try await asked.value == "new-a1")
    #expect(await eventually { world.database.lease("work")?.holder == nil }, "the lease is given back")
    #expect(world.database.disk.grant("work")?.refreshToken == Secret("new-r1"))
    for _ in 0..<3 {
      _ = await other.broker.tick()
      await settle()
    }
    #expect(world.provider.revoked.isEmpty, "what the refresh brought may be of the login's grant (decision 0030)")
  }
}
