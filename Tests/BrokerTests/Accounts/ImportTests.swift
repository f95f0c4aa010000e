import BrokerAPI
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct ImportTests {
  private func importing(_ rig: Rig) -> Task<ErrorReason?, Never> {
    Task {
      await rig.reason {
        try await rig.call(
          AccountImport.self, .init(account: "work", provider: "example", refresh_token: SecretText("old-r1")))
      }
    }
  }

  /// Imported refresh tokens are refused; codes are taken.
  private func rig() async throws -> Rig {
    let rig = try await Rig()
    rig.transport.answer(.token) { request throws(TransportError) in
      request.form["refresh_token"] == "old-r1"
        ? try TokenServer.refused("invalid_grant")(request) : try TokenServer.rotating(request)
    }
    return rig
  }

  @Test("One that never worked leaves nothing behind") func nothing() async throws {
    let rig = try await rig()
    #expect(await importing(rig).value == .loginRequired)
    #expect(rig.store.grant("work") == nil)
    #expect(await rig.reason { try await rig.token("work") } == .unknownAccount)
  }

  @Test("One that fails while a login adopts the account does not forget the login") func adopted() async throws {
    let rig = try await rig()
    let login = try await rig.start()
    // The next writer of the account is the login, then the removal.
    rig.store.set(.hangs) { changes in
      changes.contains { if case .putGrant(let grant) = $0 { grant.standing != .good } else { false } }
    }
    let imported = importing(rig)
    #expect(await eventually { rig.store.hanging == 1 })
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.count(.token) == 2 })
    await settle()
    rig.store.set(.hangs, concerning: isRenewal)
    #expect(await eventually { rig.store.hanging == 1 })
    await settle()
    rig.store.set(.works)
    #expect(await callback.value.kind == .completed)
    #expect(await imported.value == .loginRequired)
    #expect(try await rig.token("work").access_token == "work-a1")
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
  }

  // MARK: Whose it is

  private static let signer = Caller(uid: 1001, gid: 1001, groups: [], pid: 7)

  /// An account of "work" whose grant has ended. Who has uid 1001 may sign in.
  private func ended(userinfo: Bool = true) async throws -> Rig {
    let store = MemoryStore()
    let standing = Standing.loginRequired(.refused, FailureRecord(message: "over", at: ManualClock.start))
    try await store.signIn("work", age: .seconds(7200), standing: standing)
    let rig = try await Rig(store: store, configuration: Self.configuration(userinfo: userinfo))
    rig.transport.answer(.token, TokenServer.rotating)
    return rig
  }

  private static func configuration(userinfo: Bool = true) -> BrokerConfiguration {
    let settings = ProviderSettings.plain {
      $0.refresh.narrowing = .verified
      if userinfo { $0.server.endpoints[.userinfo] = "https://id.example/userinfo" }
    }
    let rules = [Rule(name: "signer", uid: 1001, gid: nil, accounts: ["*"], access: [.login, .use])]
    return .plain([OAuthProvider(settings)], rules: rules)
  }

  private func bring(
    _ rig: Rig, _ token: String = "their-r1", replacing: Bool? = nil, as caller: Caller = signer
  ) async throws -> AccountView {
    try await rig.call(
      AccountImport.self,
      .init(
        account: "work", provider: "example", refresh_token: SecretText(token), replace_identity: replacing),
      as: caller)
  }

  @Test("UserInfo names another user: no token is released, and a login fails")
  func anotherPerson() async throws {
    let rig = try await ended()
    rig.transport.answer(.userinfo) { _ in reply(#"{"sub":"mallory"}"#) }
    let error = await #expect(throws: RPCError.self) { try await bring(rig) }
    #expect(error?.reason == .loginRequired && error?.message.contains("mallory") == true)
    #expect(await rig.reason { try await rig.token("work") } == .loginRequired)
    #expect(rig.cached("work") == nil)
    let saved = rig.store.grant("work")
    #expect(saved?.refreshToken == nil && saved?.identity?.subject == "work")
  }

  @Test("No user is named: refused, unless the caller may manage the account and confirms it")
  func nobodyNamed() async throws {
    let rig = try await ended(userinfo: false)
    #expect(await rig.reason { try await bring(rig) } == .loginRequired)
    #expect(await rig.reason { try await rig.token("work") } == .loginRequired)
    #expect(rig.store.grant("work")?.refreshToken != nil, "it may be the only one there is")
    #expect(try await rig.view("work").state == .degraded)
    #expect(await rig.reason { try await bring(rig, replacing: true) } == .notPermitted)
    _ = try await bring(rig, replacing: true, as: .root)
    #expect(try await rig.token("work").access_token?.isEmpty == false)
    #expect(rig.store.grant("work")?.identity == nil)
    // Each import was of the same refresh token, which can be used once.
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("A refresh token that is imported again during its refresh is sent once, and no other replaces it")
  func again() async throws {
    let rig = try await ended()
    rig.transport.answer(.userinfo) { _ in reply(#"{"sub":"work"}"#) }
    rig.transport.hold(.token)
    let imports = (0..<3).map { _ in Task { try await bring(rig).state } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    await settle()
    #expect(await rig.reason { try await bring(rig, "other-r1") } == .temporarilyUnavailable)
    rig.transport.release(.token)
    for task in imports { #expect(try await task.value == .ok) }
    #expect(rig.transport.count(.token) == 1)
    #expect(rig.store.grant("work")?.kind == .imported)
  }

  @Test("The refresh token that an import was given in exchange is not lost when the first one is imported again")
  func rotated() async throws {
    let rig = try await ended()
    rig.transport.answer(.userinfo, TokenServer.failing(.notSent))
    #expect(await rig.reason { try await bring(rig) } == .temporarilyUnavailable)
    let rotated = try #require(rig.store.grant("work")?.refreshToken)
    rig.transport.answer(.userinfo) { _ in reply(#"{"sub":"work"}"#) }
    // By a broker that was started since, too.
    let second = try await Rig(clock: rig.clock, store: rig.store, configuration: Self.configuration())
    second.transport.answer(.token, TokenServer.rotating)
    second.transport.answer(.userinfo) { _ in reply(#"{"sub":"work"}"#) }
    for rig in [second, rig] {
      #expect(try await bring(rig).state == .ok)
      #expect(rig.store.grant("work")?.refreshToken == rotated)
    }
    #expect(rig.transport.count(.token) + second.transport.count(.token) == 1)
  }

  @Test("The account's own user: the token is released only after UserInfo has answered, even after a restart")
  func ownPerson() async throws {
    let rig = try await ended()
    rig.transport.answer(.userinfo, TokenServer.failing(.notSent))
    #expect(await rig.reason { try await bring(rig) } == .temporarilyUnavailable)
    #expect(await rig.reason { try await rig.token("work") } == .temporarilyUnavailable)
    #expect(rig.cached("work") == nil)
    #expect(rig.transport.count(.userinfo) == 1, "the provider is not asked with each request")
    // The next run asks again.
    let second = try await Rig(clock: rig.clock, store: rig.store, configuration: Self.configuration())
    second.transport.answer(.token, TokenServer.rotating)
    second.transport.hold(.userinfo)
    second.transport.answer(.userinfo) { _ in reply(#"{"sub":"work"}"#) }
    let asked = (0..<5).map { _ in Task { try await second.token("work").generation } }
    #expect(await eventually { second.transport.held(.userinfo) == 1 })
    await settle()
    #expect(second.cached("work") == nil)
    second.transport.release(.userinfo)
    for task in asked { _ = try await task.value }
    #expect(second.transport.count(.userinfo) == 1)
    #expect(second.store.grant("work")?.kind == .imported)
    #expect(try await second.view("work").state == .ok)
  }

  @Test(
    "An answer without a user releases nothing and keeps the refresh token for a later answer",
    arguments: [
      reply(#"{"sub":""}"#), reply("<html>", status: 200), reply(#"{"error":"forbidden"}"#, status: 403),
      reply("not found", status: 404), reply(#"{"error":"invalid_request"}"#, status: 400), reply("", status: 503),
    ])
  func unclear(_ answer: HTTPResponse) async throws {
    let rig = try await ended()
    rig.transport.answer(.userinfo) { _ in answer }
    #expect(await rig.reason { try await bring(rig) } != nil)
    #expect(await rig.reason { try await rig.token("work") } != nil)
    #expect(rig.cached("work") == nil && rig.transport.count(.userinfo) == 1)
    #expect(rig.store.grant("work")?.refreshToken != nil)
    // It can be imported once more during this time.
    #expect(await rig.reason { try await bring(rig) } != nil)
    rig.transport.answer(.userinfo) { _ in reply(#"{"sub":"work"}"#) }
    rig.clock.advance(.seconds(61))
    #expect(try await rig.token("work").access_token?.isEmpty == false)
    #expect(rig.store.grant("work")?.kind == .imported)
  }

  @Test("A provider that left the configuration ends no import") func noProvider() async throws {
    let rig = try await ended()
    rig.transport.answer(.userinfo, TokenServer.failing(.notSent))
    #expect(await rig.reason { try await bring(rig) } == .temporarilyUnavailable)
    rig.clock.advance(.seconds(10))
    try await rig.reload(.plain([]))
    #expect(await rig.reason { try await rig.token("work") } == .providerMisconfigured)
    #expect(rig.store.grant("work")?.refreshToken != nil)
    try await rig.reload(Self.configuration())
    rig.transport.answer(.userinfo) { _ in reply(#"{"sub":"work"}"#) }
    rig.clock.advance(.seconds(61))
    _ = try await rig.token("work")
  }

  @Test("UserInfo refuses the token: a fresh one is asked with, once", arguments: [true, false])
  func refusedByUserInfo(always: Bool) async throws {
    let rig = try await ended()
    rig.transport.answer(.userinfo) { request in
      always || rig.transport.count(.userinfo) < 2 ? HTTPResponse(status: 401) : reply(#"{"sub":"work"}"#)
    }
    let told = await rig.reason { try await bring(rig) }
    #expect(told == (always ? .loginRequired : nil))
    #expect(rig.transport.count(.token) == 2 && rig.transport.count(.userinfo) == 2)
    #expect(rig.store.grant("work")?.refreshToken != nil)
    rig.clock.advance(.seconds(61))
    #expect(await rig.reason { try await rig.token("work") } == told)
    #expect(rig.transport.count(.token) == 2)
  }

  @Test("A token that UserInfo refuses is replaced again after an hour, not earlier")
  func refusedLater() async throws {
    let rig = try await ended()
    rig.transport.answer(.token) { TokenServer.granted($0, lifetime: 86_400) }
    rig.transport.answer(.userinfo) { _ in HTTPResponse(status: 401) }
    #expect(await rig.reason { try await bring(rig) } == .loginRequired)
    rig.clock.advance(.seconds(61))
    rig.transport.answer(.userinfo) { _ in reply("", status: 503) }
    #expect(await rig.reason { try await rig.token("work") } != nil)
    rig.clock.advance(.seconds(61))
    rig.transport.answer(.userinfo) { _ in HTTPResponse(status: 401) }
    #expect(await rig.reason { try await rig.token("work") } == .loginRequired)
    #expect(rig.transport.count(.token) == 2)
    rig.clock.advance(.seconds(3700))
    let before = rig.transport.count(.token)
    #expect(await rig.reason { try await rig.token("work") } == .loginRequired)
    #expect(rig.transport.count(.token) == before + 1)
  }

  @Test("A narrowed token of an import whose own token has ended begins a refresh") func narrowedLater() async throws {
    let rig = try await ended()
    rig.transport.answer(.userinfo, TokenServer.failing(.notSent))
    #expect(await rig.reason { try await bring(rig) } == .temporarilyUnavailable)
    rig.transport.answer(.userinfo) { _ in reply(#"{"sub":"work"}"#) }
    rig.clock.advance(.seconds(7200))
    let params = TokenGet.Params(account: "work", resource: "https://api.example/")
    #expect(await rig.reason { try await rig.call(TokenGet.self, params) } == nil)
  }

  @Test("A request for a narrowed token finds out whose the import is by the login's own token")
  func narrowed() async throws {
    let rig = try await ended()
    rig.transport.answer(.userinfo) { _ in reply(#"{"sub":"work"}"#) }
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    #expect(await rig.reason { try await bring(rig) } == .temporarilyUnavailable)
    rig.transport.answer(.token, TokenServer.rotating)
    rig.clock.advance(.seconds(120))
    let params = TokenGet.Params(account: "work", resource: "https://api.example/")
    #expect(await rig.reason { try await rig.call(TokenGet.self, params) } == nil)
    #expect(rig.transport.requests(.token).compactMap { $0.form["resource"] }.count == 1)
    #expect(rig.store.grant("work")?.kind == .imported)
  }
}
