import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct CallbackTests {
  /// Untrusted callbacks, and whether they look like callbacks of a login.
  static let forgeries: [(String, [String: String?])] = [
    ("no state", ["state": nil]), ("an empty state", ["state": ""]), ("a wrong state", ["state": "forged"]),
    ("a forged error", ["state": "forged", "code": nil, "error": "access_denied"]),
    ("an error without a state", ["state": nil, "code": nil, "error": "access_denied"]),
    ("neither code nor error", ["code": nil]), ("a token", ["access_token": "stolen"]),
  ]

  @Test(arguments: forgeries) func aForgeryLeavesTheLoginPending(_ name: String, _ changes: [String: String?])
    async throws
  {
    let rig = try await Rig()
    let login = try await rig.start()
    #expect(await rig.callBack(login, changes).kind == .refused, "\(changes)")
    #expect(rig.transport.count(.token) == 0)
    #expect(try await rig.waitFor(login).state == .pending)
    #expect(await rig.callBack(login).isCompleted("work"))
  }

  @Test(arguments: ["state", "code", "iss", "error"]) func aDuplicateParameterIsRefused(_ name: String) async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    let url = login.callback() + "&\(name)=1&\(name)=2"
    #expect(await rig.broker.handleCallback(url: url).kind == .refused)
    #expect(try await rig.waitFor(login).state == .pending)
    #expect(await rig.callBack(login).isCompleted("work"))
  }

  @Test func anAnswerOfAnotherIssuerIsRefusedAlsoWhereItIsAnError() async throws {
    let rig = try await Rig(configuration: .plain([OAuthProvider(.discovered())]))
    let login = try await rig.start()
    let forged: [[String: String?]] = [
      ["iss": "https://evil.example"], ["iss": ""],
      ["iss": "https://evil.example", "code": nil, "error": "access_denied"],
    ]
    for changes in forged {
      #expect(await rig.callBack(login, changes).kind == .refused, "\(changes)")
      #expect(try await rig.waitFor(login).state == .pending)
    }
    #expect(await rig.callBack(login, ["iss": "https://id.example"]).isCompleted("work"))
  }

  @Test(arguments: [
    "http://127.0.0.1:8401/callback", "http://127.0.0.1:8400/other", "http://evil.example/callback",
    "https://127.0.0.1:8400/callback",
  ]) func anotherRedirectionEndpointIsRefused(_ endpoint: String) async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    let url = login.callback().replacing("http://127.0.0.1:8400/callback", with: endpoint)
    #expect(await rig.broker.handleCallback(url: url).kind == .refused)
    #expect(rig.transport.count(.token) == 0)
    #expect(await rig.callBack(login).isCompleted("work"))
  }

  @Test func twoCallbacksAtOnceMakeOneExchange() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.transport.hold(.token)
    let first = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    #expect(await rig.callBack(login).kind == .alreadyCompleted)
    #expect(await rig.callBack(login, ["code": nil, "error": "access_denied"]).kind == .alreadyCompleted)
    rig.transport.release(.token)
    #expect(await first.value.isCompleted("work"))
    #expect(await rig.callBack(login).kind == .alreadyCompleted)
    #expect(rig.transport.count(.token) == 1)
  }

  @Test func twoCallbacksThatWaitForMetadataMakeOneExchange() async throws {
    let rig = try await Rig(configuration: .plain([OAuthProvider(.discovered())]))
    let login = try await rig.start()
    _ = try await rig.broker.reload()
    rig.transport.hold(.discovery)
    let both = (0..<2).map { _ in Task { await rig.callBack(login) } }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    await settle()
    rig.transport.release(.discovery)
    let outcomes = [await both[0].value, await both[1].value]
    #expect(outcomes.contains { $0.isCompleted("work") })
    #expect(outcomes.contains { $0.kind == .alreadyCompleted } && rig.transport.count(.token) == 1)
  }

  @Test func theLoginIsSpentOnDiskBeforeTheCodeIsSent() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.store.set(.fails)
    #expect(await rig.callBack(login).kind == .refused)
    #expect(rig.transport.count(.token) == 0)
    rig.store.set(.works)
    rig.transport.hold(.token)
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    #expect(rig.store.logins.isEmpty)
    rig.transport.release(.token)
    #expect(await callback.value.isCompleted("work"))
  }

  @Test func aRefusalOfThePersonEndsTheLogin() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    #expect(await rig.callBack(login, ["code": nil, "error": "access_denied"]).kind == .denied)
    #expect(await rig.reason { try await rig.waitFor(login) } == .loginDenied)
    #expect(await rig.callBack(login).kind == .refused)
    #expect(rig.transport.count(.token) == 0)
  }

  @Test(
    "A failure of the provider ends the login and is not reported as a denial",
    arguments: ["server_error", "temporarily_unavailable"])
  func providerFailed(code: String) async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    #expect(await rig.callBack(login, ["code": nil, "error": code]).kind == .providerFault)
    #expect(await rig.reason { try await rig.waitFor(login) } == .temporarilyUnavailable)
  }

  @Test(
    "an authorization request that the provider refuses is a matter of the configuration, whose key is named",
    arguments: [
      ("invalid_scope", "scopes"), ("unauthorized_client", "client_id"), ("unsupported_response_type", "client_id"),
      ("invalid_target", "resource"),
    ])
  func refusedRequest(code: String, key: String) async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    #expect(await rig.callBack(login, ["code": nil, "error": code]).kind == .providerFault)
    let error = await #expect(throws: RPCError.self) { try await rig.waitFor(login) }
    #expect(error?.reason == .providerMisconfigured && error?.hint?.contains("`\(key)`") == true)
  }

  @Test func anExpiredLoginIsNotTaken() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.clock.advance(.seconds(600))
    #expect(await rig.callBack(login).kind == .expired)
    #expect(await rig.reason { try await rig.waitFor(login) } == .loginExpired)
    #expect(rig.transport.count(.token) == 0)
  }

  @Test func aLoginThatExpiresDuringItsExchangeIsCompleted() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.transport.hold(.token)
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.clock.advance(.seconds(700))
    _ = await rig.broker.tick()
    await settle()
    rig.transport.release(.token)
    #expect(await callback.value.isCompleted("work"))
    #expect(try await rig.waitFor(login).state == .completed)
  }

  static let failures: [(String, ScriptedTransport.Answer, ErrorReason)] = [
    ("the code is refused", TokenServer.refused("invalid_grant"), .providerError),
    ("the client is refused", TokenServer.refused("invalid_client", status: 401), .providerMisconfigured),
    ("the answer is lost", TokenServer.failing(.lost), .temporarilyUnavailable),
  ]

  @Test(arguments: failures.indices) func aCodeIsNeverSentTwice(_ index: Int) async throws {
    let (name, answer, reason) = Self.failures[index]
    let rig = try await Rig()
    let login = try await rig.start()
    rig.transport.answer(.token, answer)
    #expect(await rig.callBack(login).kind == .providerFault)
    #expect(await rig.reason { try await rig.waitFor(login) } == reason, "\(name)")
    #expect(await rig.callBack(login).kind == .refused)
    #expect(rig.transport.count(.token) == 1)
  }

  @Test func anotherPersonIsRefusedAndTheirTokensAreRevoked() async throws {
    let rig = try await Rig(configuration: .plain([NamingProvider()]))
    _ = await rig.callBack(try await rig.start())
    let login = try await rig.start()
    #expect(await rig.callBack(login, code: "mallory").kind == .denied)
    #expect(try await rig.token("work").access_token == "work-a1")
    _ = await rig.broker.tick()
    #expect(await eventually { rig.store.revocations.isEmpty && rig.transport.count(.revocation) == 2 })
    #expect(Set(rig.transport.requests(.revocation).map { $0.form["token"] }) == ["mallory-r1", "mallory-a1"])
    #expect(await rig.callBack(try await rig.start()).isCompleted("work", as: "work"))
  }

  @Test func aNewLoginWithoutARefreshTokenKeepsTheOldOne() async throws {
    let rig = try await Rig()
    _ = await rig.callBack(try await rig.start())
    rig.transport.answer(.token) { TokenServer.granted($0, lifetime: 3600, rotates: false) }
    _ = await rig.callBack(try await rig.start())
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
    #expect(rig.store.grant("work")?.generation == 2)
  }

  @Test func aPastedAddressCompletesTheLogin() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    let foreign = try await rig.call(LoginHandleCallback.self, .init(url: "https://elsewhere.example/?code=1&state=2"))
    #expect(!foreign.handled)
    let done = try await rig.call(LoginHandleCallback.self, .init(url: login.callback()))
    #expect(done.handled && done.login_id == login.login_id)
    #expect(try await rig.token("work").access_token == "work-a1")
  }

  @Test func aLoginThatEndsWhileItsCallbackWaitsIsNotToldToBeCompleted() async throws {
    let rig = try await Rig(configuration: .plain([OAuthProvider(.discovered())]))
    let login = try await rig.start()
    _ = try await rig.broker.reload()
    rig.transport.hold(.discovery)
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    _ = try await rig.call(LoginCancel.self, .init(login_id: login.login_id))
    rig.transport.release(.discovery)
    #expect(await callback.value.kind == .refused)
    #expect(rig.transport.count(.token) == 0)
  }

  /// The clockwork saw the login expire at the moment in which its callback came.
  @Test func anExchangeThatHasBegunIsNotEndedByTheClock() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.clock.advance(.seconds(601))
    await rig.broker.tickThenExchange(login.login_id)
    await settle()
    #expect(try await rig.waitFor(login).state == .pending)
  }

  @Test func aLoginWithoutARefreshTokenDoesNotLoseTheRotationUnderWay() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3700))
    let rig = try await Rig(store: store)
    let login = try await rig.start()
    rig.transport.hold(.token)
    let caller = Task { try await rig.token("work", timeout: 60) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.transport.answer(.token) { request in
      TokenServer.granted(request, lifetime: 3600, rotates: request.form["code"] == nil)
    }
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    // The login's answer comes first.
    rig.transport.releaseOne(.token, last: true)
    await settle()
    rig.transport.release(.token)
    #expect(await callback.value.kind == .completed)
    _ = try await caller.value
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"))
  }

  @Test("An answer that names no login is refused while logins of two providers could be meant")
  func ambiguous() async throws {
    let settings = ["one", "two"].map { ProviderSettings.plain($0) }
    let rig = try await Rig(configuration: .plain(settings.map { OAuthProvider($0) }))
    let logins = [
      try await rig.start(provider: "one", account: "a"), try await rig.start(provider: "two", account: "b"),
    ]
    try await rig.reload(.plain(settings.map { SteppedProvider(settings: $0) }))
    #expect(await rig.callBack(logins[0], ["state": nil]).kind == .refused)
    #expect(rig.transport.count(.token) == 0)
    for login in logins { #expect(try await rig.waitFor(login).state == .pending) }
  }
}

extension Broker {
  fileprivate func tickThenExchange(_ id: String) {
    _ = tick()
    if let id = LoginID(rawValue: id) { logins.table[id]?.phase = .exchanging }
  }
}
