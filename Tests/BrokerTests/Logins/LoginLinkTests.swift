import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import TestSupport
import Testing

@testable import Broker

/// The short address of a login, and whose browser may open it and come back.
@Suite("Whose browser a login is for", .scheduled, .timeLimit(.minutes(5))) struct LoginLinkTests {
  private static let person: UInt32 = 1000, other: UInt32 = 1001
  private static let rules = [person, other].map {
    Rule(name: "r", uid: $0, gid: nil, accounts: ["*"], access: [.login])
  }

  private func rig(_ settings: ProviderSettings = .plain()) async throws -> Rig {
    try await Rig(configuration: .plain([OAuthProvider(settings)], rules: Self.rules))
  }

  private func start(_ rig: Rig, browser: UInt32? = nil, as caller: Caller) async throws -> LoginStart.Result {
    try await rig.call(
      LoginStart.self, .init(provider: "example", account: "work", browser_uid: browser), as: caller)
  }

  private func state(_ login: LoginStart.Result, _ rig: Rig, as caller: Caller) async throws -> LoginState {
    try await rig.call(LoginWait.self, .init(login_id: login.login_id, timeout: 0), as: caller).state
  }

  @Test("The browser's address is short and random, and leads to the request once")
  func once() async throws {
    let rig = try await rig()
    let logins = try await [start(rig, as: .root), start(rig, as: .root)]
    let urls = logins.map { $0.url("browser") ?? "" }
    // In base64url 22 characters bear 128 bits.
    #expect(urls.allSatisfy { $0.hasPrefix("http://127.0.0.1:8400/go/") && $0.utf8.count == 25 + 22 }, "\(urls)")
    #expect(urls[0] != urls[1] && !urls[0].contains(logins[0].query["state"] ?? "?"))
    guard case .request(let request) = await rig.open(logins[0]) else { throw Unexpected() }
    #expect(request == logins[0].url("manual"))
    #expect(await rig.open(logins[0]) == .spent(again: "grantctl login example work"))
    #expect(try await state(logins[0], rig, as: .root) == .pending)
    #expect(await rig.callBack(logins[0]).kind == .completed)
  }

  @Test("An unknown link, or one of an ended or expired login, is refused")
  func gone() async throws {
    let rig = try await rig()
    #expect(await rig.broker.openLogin(token: "unknown", from: .user(0)) == .spent(again: "grantctl login"))
    let again = LoginOpening.spent(again: "grantctl login example work")
    let cancelled = try await start(rig, as: .root)
    _ = try await rig.call(LoginCancel.self, .init(login_id: cancelled.login_id))
    #expect(await rig.open(cancelled) == again)
    let expired = try await start(rig, as: .root)
    rig.clock.advance(.seconds(601))
    #expect(await rig.open(expired) == again)
  }

  @Test("A restart changes nothing: an opened link stays opened, another one opens", arguments: [true, false])
  func restart(_ isOpened: Bool) async throws {
    let before = try await rig()
    let login = try await start(before, browser: Self.person, as: .root)
    if isOpened { _ = await before.open(login, from: .user(Self.person)) }
    let after = try await Rig(clock: before.clock, store: before.store, configuration: .plain(rules: Self.rules))
    #expect(await after.open(login, from: .user(0)) == .otherUser)
    let opening = await after.open(login, from: .user(Self.person))
    #expect(
      opening
        == (isOpened ? .spent(again: "grantctl login example work") : .request(url: login.url("manual") ?? "")))
  }

  @Test(
    "Another user's browser uses up nothing, and the user's own browser continues",
    arguments: [
      (BrowserUser.user(other), LoginOpening.otherUser, CallbackOutcome.otherUser),
      (.user(0), .otherUser, .otherUser), (.user(100_005, owner: other), .otherUser, .otherUser),
      (.unknown, .unknownUser, .unknownUser),
    ])
  func others(_ browser: BrowserUser, _ opening: LoginOpening, _ callback: CallbackOutcome) async throws {
    let rig = try await rig()
    let login = try await start(rig, as: .user(Self.person))
    #expect(await rig.open(login, from: browser) == opening)
    #expect(await rig.broker.handleCallback(url: login.callback(), from: browser) == callback)
    let denied = "\(login.destinations[0].redirect_uri ?? "")?error=access_denied&state=\(login.query["state"] ?? "")"
    #expect(await rig.broker.handleCallback(url: denied, from: browser) == callback)
    #expect(try await state(login, rig, as: .user(Self.person)) == .pending && rig.transport.count(.token) == 0)
    guard case .request = await rig.open(login, from: .user(Self.person)) else { throw Unexpected() }
    #expect(await rig.broker.handleCallback(url: login.callback(), from: .user(Self.person)).kind == .completed)
    // Nor is it told afterwards that it was completed.
    #expect(await rig.broker.handleCallback(url: login.callback(), from: browser) == callback)
    #expect(await rig.open(login, from: browser) == opening)
  }

  @Test("A subordinate user id is its owner's")
  func subordinate() async throws {
    let rig = try await rig()
    let login = try await start(rig, as: .user(Self.person))
    let browser = BrowserUser.user(100_005, owner: Self.person)
    guard case .request = await rig.open(login, from: browser) else { throw Unexpected() }
    #expect(await rig.broker.handleCallback(url: login.callback(), from: browser).kind == .completed)
  }

  @Test("A callback URL passed on the socket is accepted regardless of the browser's user")
  func handedOver() async throws {
    let rig = try await rig()
    let login = try await start(rig, as: .user(Self.person))
    let result = try await rig.call(
      LoginHandleCallback.self, .init(url: login.callback()), as: .user(Self.person))
    #expect(result.handled)
    #expect(try await state(login, rig, as: .user(Self.person)) == .completed)
  }

  @Test(
    "Behind a proxy the browser gets the request itself, and its user is not checked",
    arguments: [BrowserUser.unknown, .user(other)])
  func proxied(_ browser: BrowserUser) async throws {
    let redirect = try RedirectURI("https://broker.example/cb")
    let settings = ProviderSettings.plain { $0.client.redirect = .fixed(redirect) }
    var configuration = BrokerConfiguration.plain([OAuthProvider(settings)], rules: Self.rules)
    configuration.publicOrigin = "https://broker.example"
    let rig = try await Rig(configuration: configuration)
    let login = try await start(rig, as: .user(Self.person))
    #expect(login.url("browser")?.hasPrefix("https://id.example/authorize?") == true && login.linkToken == nil)
    #expect(await rig.broker.handleCallback(url: login.callback(), from: browser).kind == .completed)
  }

  @Test("Root may name whose browser it is; the login stays root's own")
  func browserOfAnother() async throws {
    let rig = try await rig()
    let login = try await start(rig, browser: Self.person, as: .root)
    #expect(await rig.open(login, from: .user(0)) == .otherUser)
    guard case .request = await rig.open(login, from: .user(Self.person)) else { throw Unexpected() }
    #expect(
      await rig.reason { try await state(login, rig, as: .user(Self.person)) } == .unknownLogin,
      "the browser's user has no right to the login")
    #expect(await rig.broker.handleCallback(url: login.callback(), from: .user(Self.person)).kind == .completed)
    #expect(try await state(login, rig, as: .root) == .completed)
  }

  @Test("Other callers may name only themselves")
  func browserOfOthers() async throws {
    let rig = try await rig()
    let reason = await rig.reason { try await start(rig, browser: Self.other, as: .user(Self.person)) }
    #expect(reason == .notPermitted)
    let login = try await start(rig, browser: Self.person, as: .user(Self.person))
    guard case .request = await rig.open(login, from: .user(Self.person)) else { throw Unexpected() }
  }

  @Test("Log lines about refused browsers are limited per minute, and one counts the others")
  func flood() async throws {
    let journal = LoggedLines()
    let rig = try await Rig(logger: journal.logger())
    let login = try await rig.start()
    for _ in 1...1000 { _ = await rig.open(login, from: .user(Self.other)) }
    func lines() -> [String] { journal.all.map(\.text).filter { $0.contains("refused") } }
    #expect(lines().count == Limit.refusalLines)
    #expect(lines().first == "refused a browser of uid 1001: the login of work is for uid 0")
    #expect(
      await rig.clock.reaches(by: .seconds(10)) {
        lines().last == "refused \(1000 - Limit.refusalLines) more browsers at logins of other users"
      })
  }

  @Test("The page and login.wait say who signed in")
  func identity() async throws {
    let rig = try await Rig(configuration: .plain([NamingProvider()]))
    let login = try await rig.start()
    #expect(await rig.callBack(login).isCompleted("work", as: "work"))
    #expect(try await rig.waitFor(login).account?.identity?.subject == "work")
    // What an account of that name has is not who brought a bare code.
    let code = try await rig.call(LoginStart.self, .init(provider: "example", account: "work", exchange: false))
    #expect(await rig.callBack(code).isCompleted("work"))
  }

  @Test("A sign-in that tells no identity is not told as that of the one before")
  func noIdentity() async throws {
    let store = try await MemoryStore.expired("work")
    var before = try #require(store.grant("work"))
    before.identity = Identity(subject: "ada")
    try await store.commit([.putGrant(before)])
    let rig = try await Rig(store: store)
    let login = try await rig.start()
    #expect(await rig.callBack(login).isCompleted("work"))
    #expect(try await rig.waitFor(login).account?.identity == nil)
    #expect(try await rig.view("work").identity?.subject == "ada")
  }
}

private struct Unexpected: Error {}
