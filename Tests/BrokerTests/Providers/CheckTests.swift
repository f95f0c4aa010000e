import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// `provider.check`: its requests, its results, and that no caller can cause more requests.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct CheckTests {
  private func rig(
    _ settings: ProviderSettings = .discovered(), accounts: [String] = [], rules: [Rule] = []
  ) async throws -> Rig {
    let store = MemoryStore()
    for name in accounts { try await store.signIn(name) }
    return try await Rig(store: store, configuration: .plain([OAuthProvider(settings)], rules: rules))
  }

  private func check(_ rig: Rig, as caller: Caller = .root) async throws -> ProviderCheck.Result {
    try await rig.call(ProviderCheck.self, .init(provider: "example"), as: caller)
  }

  private func dated(_ body: String, seconds: Int64) -> HTTPResponse {
    reply(body, headers: [.init("Date", httpDate(ManualClock.start + .seconds(seconds)))])
  }

  private func httpDate(_ moment: Timestamp) -> String {
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = TimeZone(identifier: "GMT")
    formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
    return formatter.string(from: Date(timeIntervalSince1970: Double(moment.seconds)))
  }

  @Test("All names come in their order, each with words, and each that is not well with a hint")
  func allNames() async throws {
    let rig = try await rig(accounts: ["work"])
    let result = try await check(rig)
    #expect(result.ok && result.checked_at == ManualClock.start.seconds)
    #expect(result.checks.map(\.name) == CheckName.allCases)
    for check in result.checks {
      #expect(!check.message.isEmpty)
      #expect((check.hint != nil) == (check.result == .warning || check.result == .failed), "\(check)")
      #expect((check.account == "work") == [.granted_scopes, .refresh_token].contains(check.name))
    }
  }

  @Test("It fetches the metadata again, and the token endpoint if that is on another host") func whatIsAsked()
    async throws
  {
    let rig = try await rig()
    _ = await rig.broker.providers[provider("example")]?.currentMetadata()
    _ = try await check(rig)
    let asked = rig.transport.requests(.discovery).map(\.url.absoluteString)
    let metadata = "https://id.example/.well-known/oauth-authorization-server"
    #expect(asked == [metadata, metadata, "http://127.0.0.1:8400/check"])
    rig.transport.answer(.discovery) { _ in
      reply(TokenServer.metadata.replacing("https://id.example/token", with: "https://token.example/token"))
    }
    rig.clock.advance(.seconds(5))
    let found = try #require(try await check(rig).checks.first { $0.name == .connection })
    #expect(rig.transport.requests(.discovery).contains { $0.url.host == "token.example" && $0.method == "GET" })
    #expect(found.message.contains("https://token.example answers HTTP 200"))
    #expect(rig.transport.count(.token) == 0)
  }

  static let causes: [(TransportError.Cause, String)] = [
    (.nameLookup, "getent hosts id.example"), (.refused, "Nothing listens at port 443 of id.example"),
    (.unreachable, "the firewall"), (.silence, "curl -v https://id.example/"), (.certificate, "openssl s_client"),
    (.tls, "Does https answer"), (.other, "curl -v"),
  ]

  @Test(
    "Each failure to connect has its own advice, and checks without an answer are skipped", arguments: causes.indices)
  func connection(_ index: Int) async throws {
    let (cause, words) = Self.causes[index]
    let rig = try await rig()
    rig.transport.answer(.discovery) { request throws(TransportError) in
      if request.url.host == "127.0.0.1" { return HTTPResponse(status: 404) }
      throw TransportError(.notSent, "no road", cause: cause)
    }
    let result = try await check(rig)
    #expect(!result.ok)
    let failed = result.checks.filter { $0.result == .failed }
    #expect(failed.map(\.name) == [.connection] && failed.first?.message == "no road")
    #expect(failed.first?.hint?.contains(words) == true, "\(failed.first?.hint ?? "")")
    let skipped = result.checks.filter { $0.result == .skipped }.map(\.name)
    #expect(Set(skipped).isSuperset(of: [.discovery, .issuer, .endpoints, .clock, .pkce]))
  }

  @Test("An answer that never comes is given up after a while") func silence() async throws {
    let rig = try await rig()
    rig.transport.hold(.discovery)
    let asking = Task { try await check(rig) }
    #expect(await eventually { rig.transport.held(.discovery) == 1 && rig.clock.sleepers >= 2 })
    rig.clock.advance(.seconds(10))
    await settle()
    rig.transport.release(.discovery)
    let found = try await asking.value.checks.first { $0.name == .connection }
    #expect(found?.result == .failed && found?.message == "id.example did not answer within 10 s")
  }

  static let clocks: [(server: Int64, result: CheckResult, words: String)] = [
    (0, .ok, "agrees"), (-1, .ok, "agrees"), (1, .ok, "agrees"), (-5, .ok, "agrees"),
    (-6, .warning, "5 s ahead of"), (6, .warning, "6 s behind"), (-31, .warning, "30 s ahead of"),
    (-300, .failed, "299 s ahead of the provider's, more than clock_tolerance (30 s)"),
    (300, .failed, "300 s behind the provider's, more than clock_tolerance (30 s)"),
  ]

  @Test("The clock is compared with the provider's, with allowance for the road", arguments: clocks.indices)
  func clock(_ index: Int) async throws {
    let (server, result, words) = Self.clocks[index]
    let rig = try await rig()
    let answer = dated(TokenServer.metadata, seconds: server)
    rig.transport.answer(.discovery) { _ in answer }
    let found = try #require(try await check(rig).checks.first { $0.name == .clock })
    #expect(found.result == result && found.message.contains(words), "\(found)")
    if result != .ok { #expect(found.hint?.hasPrefix("Check timedatectl") == true) }
  }

  @Test("A slow road explains a part of the difference") func slowRoad() async throws {
    let rig = try await rig()
    let answer = dated(TokenServer.metadata, seconds: 0)
    let clock = rig.clock
    rig.transport.answer(.discovery) { request in
      if request.url.host != "127.0.0.1" { clock.advance(.seconds(8)) }
      return answer
    }
    #expect(try await check(rig).checks.first { $0.name == .clock }?.result == .ok)
  }

  @Test("An answer from a cache is not a stopped clock, for the check and for the status")
  func cached() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(4000))
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(.discovered())]))
    var answer = dated(TokenServer.metadata, seconds: -3000)
    answer.headers.append(.init("Age", "3000"))
    let cached = answer
    rig.transport.answer(.discovery) { _ in cached }
    #expect(try await check(rig).checks.first { $0.name == .clock }?.result == .ok)
    _ = try await rig.token("work")
    let condition = try await rig.call(BrokerStatus.self, NoParams()).provider_conditions?.first
    #expect(abs(try #require(condition?.skew_seconds)) < 5)
  }

  @Test(
    "The callback's port is the broker's, and answers",
    arguments: [
      ("http://127.0.0.1:8400/callback", CheckResult.ok), ("http://127.0.0.1:8401/cb", .failed),
      ("app.example:/cb", .ok), ("https://app.example/cb", .ok),
    ])
  func redirect(_ uri: String, _ result: CheckResult) async throws {
    var settings = ProviderSettings.discovered()
    settings.client.redirect = .fixed(try RedirectURI(uri))
    let rig = try await rig(settings)
    let found = try #require(try await check(rig).checks.first { $0.name == .redirect_uri })
    #expect(found.result == result && found.message.contains(uri))
    await rig.broker.callbackListens(port: nil, others: [8401], addresses: [])
    rig.clock.advance(.seconds(5))
    let later = try await check(rig).checks.first { $0.name == .redirect_uri }
    #expect(later?.result == (uri.contains(":8400") ? .failed : .ok))
  }

  @Test("An account shows scopes that were not granted, and its refresh token's age and lifetime") func accounts()
    async throws
  {
    let store = MemoryStore()
    try await store.signIn("fresh")
    try await store.signIn("none", refreshes: false)
    try await store.signIn(
      "ended", standing: .loginRequired(.refused, FailureRecord(message: "no", at: ManualClock.start)))
    for (name, days) in [("old", 2), ("late", 100)] {
      try await store.signIn(name)
      var grant = try #require(store.grant(name))
      grant.refreshTokenIssuedAt = ManualClock.start - .seconds(86_400 * 28)
      grant.refreshTokenExpiresAt = ManualClock.start + .seconds(86_400 * days)
      grant.grantedScopes = []
      try await store.commit([.putGrant(grant)])
    }
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(.discovered())]))
    let checks = try await check(rig).checks
    func found(_ name: CheckName, _ account: String) -> ProviderCheck.Check? {
      checks.first { $0.name == name && $0.account == account }
    }
    #expect(found(.granted_scopes, "fresh")?.result == .ok)
    #expect(found(.granted_scopes, "old")?.message == "read was asked for and not granted")
    #expect(found(.refresh_token, "fresh")?.result == .ok)
    #expect(found(.refresh_token, "none")?.result == .warning)
    #expect(found(.refresh_token, "ended")?.result == .failed)
    #expect(found(.refresh_token, "late")?.message == "28 days old; ends in 100 days")
    #expect(found(.refresh_token, "old")?.message == "28 days old; ends in 2 days")
    #expect(found(.refresh_token, "old")?.hint == "Before that: `grantctl login example old`.")
    let status = try await rig.call(BrokerStatus.self, NoParams())
    #expect(status.refresh_tokens_ending == 1)
    #expect(try await rig.view("old").refresh_expires_soon == true)
    #expect(try await rig.view("late").refresh_expires_soon == nil)
  }

  @Test("A check under way is shared, and one that just ended too; a reload makes it void") func shared() async throws {
    let rig = try await rig()
    rig.transport.hold(.discovery)
    let callers = (0..<10).map { _ in Task { try await check(rig) } }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    await settle()
    #expect(rig.transport.count(.discovery) == 1)
    rig.transport.release(.discovery)
    for caller in callers { #expect(try await caller.value.ok) }
    func metadataRequests() -> Int { rig.transport.requests(.discovery).filter { $0.url.host == "id.example" }.count }
    #expect(metadataRequests() == 1)
    rig.clock.advance(.milliseconds(4900))
    _ = try await check(rig)
    #expect(metadataRequests() == 1)
    rig.clock.advance(.milliseconds(100))
    _ = try await check(rig)
    #expect(metadataRequests() == 2)
    _ = try await rig.call(BrokerReload.self, NoParams())
    _ = try await check(rig)
    #expect(metadataRequests() == 3)
  }

  @Test("A caller that does not want to wait is informed, and the check continues for the others") func timeout()
    async throws
  {
    let rig = try await rig()
    rig.transport.hold(.discovery)
    let patient = Task { try await check(rig) }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    let hasty = Task {
      await rig.reason { try await rig.call(ProviderCheck.self, .init(provider: "example", timeout: 1)) }
    }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 2 })
    rig.clock.advance(.seconds(1))
    #expect(await hasty.value == .timedOut)
    rig.transport.release(.discovery)
    #expect(try await patient.value.ok)
    #expect(
      await rig.reason { try await rig.call(ProviderCheck.self, .init(provider: "other")) } == .unknownProvider)
  }

  @Test("A caller sees its permitted accounts, even in a shared result") func policy() async throws {
    let rules = [Rule(name: "r", uid: 1000, gid: nil, accounts: ["work"], access: [.observe, .use])]
    let rig = try await rig(accounts: ["work", "home"], rules: rules)
    #expect(Set(try await check(rig).checks.compactMap(\.account)) == ["work", "home"])
    #expect(Set(try await check(rig, as: .user(1000)).checks.compactMap(\.account)) == ["work"])
    #expect(await rig.reason { try await check(rig, as: .user(1001)) } == .notPermitted)
    let status = try await rig.call(BrokerStatus.self, NoParams(), as: .user(1000))
    #expect(status.caller == .init(uid: 1000, access: ["observe": ["work"], "use": ["work"]]))
    let root = try await rig.call(BrokerStatus.self, NoParams())
    #expect(root.caller?.access.count == 5 && root.caller?.access["manage"] == ["*"])
  }

  @Test("The check, the status and the accounts show that a provider is suspended") func suspended() async throws {
    let store = MemoryStore()
    for name in ["home", "lab", "work"] { try await store.signIn(name, age: .seconds(4000)) }
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(.discovered())]))
    rig.transport.answer(.token, TokenServer.refused("invalid_client", status: 401))
    for name in ["home", "lab", "work"] {
      #expect(await rig.reason { try await rig.token(name) } == .providerMisconfigured)
    }
    let found = try #require(try await check(rig).checks.first { $0.name == .condition })
    #expect(found.result == .failed && found.message.contains("invalid_client"))
    #expect(found.hint?.contains("[provider.example]") == true)
    let condition = try #require(try await rig.call(BrokerStatus.self, NoParams()).provider_conditions?.first)
    #expect(condition.condition == "suspended" && condition.retry_at == ManualClock.start.seconds + 900)
    #expect(try await rig.view("work").last_error?.reason == .providerMisconfigured)
  }

  @Test("An account whose provider went from the configuration says that, not that it is tried again")
  func goneProvider() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(4000))
    let rig = try await Rig(store: store)
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    _ = await rig.reason { try await rig.token("work") }
    #expect(try await rig.view("work").last_error?.reason == .temporarilyUnavailable)
    rig.reading.value = .success(.plain([]))
    _ = try await rig.call(BrokerReload.self, NoParams())
    let view = try await rig.view("work")
    #expect(view.state == .actionRequired && view.last_error?.reason == .providerMisconfigured)
    #expect(view.last_error?.message == "provider example is not in the configuration")
  }

  @Test("A failing store is reported with its hint and its start") func store() async throws {
    let rig = try await rig(accounts: ["work"])
    rig.store.set(.fails)
    rig.clock.advance(.seconds(60))
    await rig.broker.callbackListens(port: 8401, others: [], addresses: [])
    rig.clock.advance(.seconds(5))
    let view = try await rig.call(BrokerStatus.self, NoParams()).store
    #expect(view.state == "failing" && view.hint?.isEmpty == false)
    #expect(view.since == ManualClock.start.seconds + 60)
  }
}
