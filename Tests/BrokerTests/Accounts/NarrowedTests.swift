import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

@Suite(.scheduled) struct NarrowedTests {
  private static let scopes = ["read", "write", "admin"]
  private static let files = "https://files.example/"

  /// The answer of a provider that narrows: a token named after the request, and a rotated refresh token.
  private static let narrowing: ScriptedTransport.Answer = { request in
    let spent = request.form["refresh_token"]?.components(separatedBy: "-r") ?? []
    let next = (Int(spent.last ?? "") ?? 0) + 1
    let scope = request.form["scope"]?.replacing("+", with: " ")
    let what = [scope?.replacing(" ", with: "."), request.form["resource"]].compactMap(\.self).joined(separator: "@")
    let name = [what.isEmpty ? "whole" : what, "\(next)"].joined(separator: "-")
    let told = scope.map { ",\"scope\":\"\($0)\"" } ?? ""
    return reply(
      #"{"access_token":"\#(name)","token_type":"Bearer","expires_in":3600,"refresh_token":"\#(spent[0])-r\#(next)"\#(told)}"#
    )
  }

  private func rig(
    age: Duration = .zero, store: MemoryStore = MemoryStore(), clock: ManualClock = ManualClock(),
    signsIn: Bool = true, _ change: (inout ProviderSettings) -> Void = { _ in }
  ) async throws -> Rig {
    if signsIn { try await store.signIn("work", age: age, scopes: Self.scopes) }
    let rig = try await Rig(
      clock: clock, store: store,
      configuration: .plain([
        OAuthProvider(
          .plain("example") {
            $0.refresh.narrowing = .verified
            change(&$0)
          })
      ]) { $0.jitter = 0 })
    rig.transport.answer(.token, Self.narrowing)
    return rig
  }

  private func get(
    _ rig: Rig, _ scopes: [String]? = nil, resource: String? = nil, timeout: Double? = nil
  ) async throws -> TokenGet.Result {
    try await rig.call(
      TokenGet.self, .init(account: "work", scopes: scopes, resource: resource, timeout: timeout))
  }

  private func forms(_ rig: Rig) -> [String?] { rig.transport.requests(.token).map { $0.form["scope"] } }

  @Test("Callers of one user that wait for the same token are charged once for all")
  func sharedBudget() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rule = Rule(name: "user", uid: 1000, gid: nil, accounts: ["*"], access: [.use])
    let rig = try await Rig(
      store: store, configuration: .plain([OAuthProvider(.plain { $0.refresh.narrowing = .verified })], rules: [rule]))
    rig.transport.hold(.token)
    let params = TokenGet.Params(account: "work", resource: "https://api.example/", timeout: 300)
    let callers = (0..<80).map { _ in
      Task { await rig.reason { try await rig.call(TokenGet.self, params, as: .user(1000)) } }
    }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    await settle()
    rig.transport.release(.token)
    for caller in callers { #expect(await caller.value == nil) }
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("Waiters of two tokens of one account: one request for each, one at a time, and each gets its own")
  func twoTokens() async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let callers = (0..<100).map { index in
      Task { try await get(rig, index.isMultiple(of: 2) ? ["read"] : ["write"], timeout: 300).access_token }
    }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 100 })
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.transport.releaseOne(.token)
    // The caller that waited for the other one begins the next request.
    #expect(await eventually { rig.transport.held(.token) == 1 && rig.transport.count(.token) == 2 })
    #expect(rig.transport.mostInFlight == 1)
    rig.transport.release(.token)
    var given: [String: Int] = [:]
    for (index, caller) in callers.enumerated() {
      let token = try await caller.value
      #expect(token?.hasPrefix(index.isMultiple(of: 2) ? "read-" : "write-") == true)
      given[token ?? "", default: 0] += 1
    }
    #expect(given.values.sorted() == [50, 50])
    #expect(rig.transport.count(.token) == 2 && rig.transport.mostInFlight == 1)
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r3"))
  }

  @Test("The account's token is released during the refresh of a narrowed one, by the cache too")
  func wholeMeanwhile() async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let narrowed = Task { try await get(rig, ["read"]) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    #expect(rig.cached("work") != nil)
    #expect(try await get(rig).access_token == "work-a1")
    rig.transport.release(.token)
    #expect(try await narrowed.value.access_token == "read-2")
    #expect(rig.cached("work") != nil)
    #expect(try await get(rig).access_token == "work-a1")
    #expect(rig.store.token("work")?.accessToken == Secret("work-a1"))
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("Forty callers with forty wishes are all served in their time, a request each; 32 tokens are kept")
  func manyWishes() async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let callers = (0..<40).map { index in
      Task { try await get(rig, resource: "https://api.example/\(index)", timeout: 300).access_token }
    }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 40 })
    rig.transport.release(.token)
    for (index, caller) in callers.enumerated() {
      #expect(try await caller.value?.hasPrefix("https://api.example/\(index)-") == true)
    }
    // Who runs late may find its token displaced by 32 others, and asks again.
    #expect((40...42).contains(rig.transport.count(.token)))
    #expect(rig.transport.mostInFlight == 1)
    #expect(rig.store.narrowed("work").count == Grant.Narrowed.most)
    #expect(rig.store.token("work")?.accessToken == Secret("work-a1"))
  }

  @Test("Refused wishes are bounded too, and take no token's place")
  func manyRefusals() async throws {
    let rig = try await rig()
    for index in 0..<Grant.Narrowed.most { _ = try await get(rig, resource: "https://good.example/\(index)") }
    rig.transport.answer(.token, TokenServer.refused("invalid_target"))
    for index in 0..<100 {
      // The provider's gate lets so many through in a while.
      rig.clock.advance(.seconds(1))
      #expect(await rig.reason { try await get(rig, resource: "https://bad.example/\(index)") } == .scopeNotGranted)
    }
    let kept = await rig.broker.accounts[account("work")]?.narrowed.count ?? 0
    #expect(kept <= Grant.Narrowed.most + 1)
    #expect(rig.store.narrowed("work").count == Grant.Narrowed.most)
    let asked = rig.transport.count(.token)
    for index in 0..<Grant.Narrowed.most { _ = try await get(rig, resource: "https://good.example/\(index)") }
    #expect(rig.transport.count(.token) == asked)
  }

  @Test("Tokens end independently: an expired one is refreshed by itself, and none before a request")
  func expiry() async throws {
    let rig = try await rig()
    _ = try await get(rig, ["read"])
    rig.clock.advance(.seconds(1800))
    #expect(try await get(rig, ["write"]).access_token == "write-3")
    rig.clock.advance(.seconds(1795))
    #expect(try await get(rig, ["read"]).access_token == "read-4")
    #expect(try await get(rig, ["write"]).access_token == "write-3")
    #expect(try await get(rig).access_token == "whole-5")
    #expect(forms(rig) == ["read", "write", "read", nil])
    #expect(try await get(rig, ["read"]).expires_in == 3600)
    #expect(try await get(rig, ["write"]).expires_in == 1805)
  }

  @Test("The scheduler refreshes each narrowed token once per use, and the account's own token always")
  func clockwork() async throws {
    let rig = try await rig()
    _ = try await get(rig, ["read"])
    let clockwork = Task { await rig.broker.run() }
    defer { clockwork.cancel() }
    func pass(_ hours: Int) async {
      for _ in 0..<hours * 120 {
        #expect(await eventually { rig.clock.sleepers == 1 })
        rig.clock.advance(.seconds(30))
        await settle()
      }
    }
    await pass(1)
    #expect(forms(rig).filter { $0 == "read" }.count == 2)
    #expect(forms(rig).filter { $0 == nil }.count == 1)
    // There was no further request.
    await pass(2)
    #expect(forms(rig).filter { $0 == "read" }.count == 2)
    #expect(forms(rig).filter { $0 == nil }.count >= 3)
  }

  @Test("Stored narrowed tokens are served after a restart, and refreshed after their first use")
  func restart() async throws {
    let store = MemoryStore()
    let clock = ManualClock()
    let first = try await rig(store: store, clock: clock)
    _ = try await get(first, ["read"])
    _ = try await get(first, resource: Self.files)
    let second = try await rig(store: store, clock: clock, signsIn: false)
    #expect(try await get(second, ["read"]).access_token == "read-2")
    #expect(try await get(second, resource: Self.files).access_token == "\(Self.files)-3")
    #expect(try await get(second).access_token == "work-a1")
    #expect(second.transport.count(.token) == 0)
    clock.advance(.seconds(3700))
    #expect(try await get(second, ["read"]).access_token == "read-4")
  }

  @Test(
    "A refusal of the narrowing is remembered for a time and does not change the account",
    arguments: ["invalid_scope", "invalid_target"])
  func refusal(code: String) async throws {
    let rig = try await rig()
    rig.transport.answer(.token, TokenServer.refused(code))
    for _ in 0..<3 { #expect(await rig.reason { try await get(rig, ["read"]) } == .scopeNotGranted) }
    #expect(rig.transport.count(.token) == 1)
    #expect(try await rig.view("work").state == .ok)
    #expect(rig.store.intent("work") == nil && rig.store.grant("work")?.standing == .good)
    #expect(rig.cached("work") != nil)
    rig.transport.answer(.token, Self.narrowing)
    #expect(await rig.reason { try await get(rig, ["read"]) } == .scopeNotGranted)
    #expect(try await get(rig, ["write"]).access_token == "write-2")
    rig.clock.advance(.seconds(901))
    #expect(try await get(rig, ["read"]).access_token == "read-3")
  }

  @Test("The same answer for the account's own token concerns the provider's settings")
  func refusedWhole() async throws {
    let rig = try await rig(age: .seconds(4000))
    rig.transport.answer(.token, TokenServer.refused("invalid_scope"))
    #expect(await rig.reason { try await get(rig) } == .providerMisconfigured)
  }

  @Test("All who wait for a refused wish learn it by one request; who waits for another is served")
  func refusedTogether() async throws {
    let rig = try await rig()
    rig.transport.answer(.token) { request throws(TransportError) in
      guard request.form["scope"] == "read" else { return try Self.narrowing(request) }
      return try TokenServer.refused("invalid_scope")(request)
    }
    rig.transport.hold(.token)
    let refused = (0..<20).map { _ in Task { await rig.reason { try await get(rig, ["read"]) } } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let served = Task { try await get(rig, ["write"]).access_token }
    #expect(await eventually { await rig.broker.runtime.waiters.count == 21 })
    rig.transport.release(.token)
    for caller in refused { #expect(await caller.value == .scopeNotGranted) }
    #expect(try await served.value == "write-2")
    #expect(rig.transport.count(.token) == 2)
  }

  @Test("The end of the grant ends all; tokens that are still valid are released to their end")
  func ended() async throws {
    let rig = try await rig()
    _ = try await get(rig, ["read"])
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    #expect(await rig.reason { try await get(rig, ["write"]) } == .loginRequired)
    #expect(try await get(rig, ["read"]).access_token == "read-2")
    #expect(try await get(rig).access_token == "work-a1")
    rig.clock.advance(.seconds(3601))
    #expect(await rig.reason { try await get(rig, ["read"]) } == .loginRequired)
  }

  @Test("An outage met by a narrowed refresh takes nothing from the account's own token") func outage() async throws {
    let rig = try await rig()
    rig.transport.answer(.token, TokenServer.failing(.notSent))
    #expect(await rig.reason { try await get(rig, ["read"]) } == .temporarilyUnavailable)
    #expect(try await get(rig).access_token == "work-a1")
    rig.transport.answer(.token, Self.narrowing)
    rig.clock.advance(.seconds(60))
    #expect(try await get(rig, ["read"]).access_token?.hasPrefix("read-") == true)
    #expect(rig.store.token("work")?.accessToken == Secret("work-a1"))
  }

  @Test("A report of a narrowed token is on disk with it at once, and has it refreshed once for all")
  func rejected() async throws {
    let rig = try await rig()
    let read = try await get(rig, ["read"])
    _ = try await get(rig, ["write"])
    rig.transport.hold(.token)
    let reports = (0..<20).map { _ in
      Task { try await rig.call(TokenReportRejected.self, .init(account: "work", generation: read.generation)) }
    }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    #expect(rig.store.narrowed("work").values.map(\.reports.count).sorted() == [0, 1])
    // The others continue during this time.
    #expect(rig.cached("work") != nil)
    #expect(try await get(rig, ["write"]).access_token == "write-3")
    rig.transport.release(.token)
    var refreshed = 0
    for report in reports { refreshed += try await report.value.refreshed ? 1 : 0 }
    #expect(refreshed >= 1)
    #expect(try await get(rig, ["read"]).access_token == "read-4")
    #expect(forms(rig) == ["read", "write", "read"])
  }

  @Test("A login during the refresh of a narrowed token replaces it: no older token is released")
  func login() async throws {
    let rig = try await rig()
    _ = try await get(rig, ["write"])
    rig.transport.answer(.token) { request throws(TransportError) in
      request.form["code"] == nil ? try Self.narrowing(request) : TokenServer.granted(request, lifetime: 3600)
    }
    rig.transport.hold(.token)
    let before = Task { try? await get(rig, ["read"], timeout: 30).access_token }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let login = try await rig.start()
    let back = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token, last: true)
    _ = await back.value
    #expect(rig.store.narrowed("work").isEmpty)
    rig.transport.release(.token)
    _ = await before.value
    #expect(rig.store.grant("work")?.refreshToken?.exposed.hasPrefix("work-r") == true)
    #expect(rig.store.narrowed("work").values.allSatisfy { $0.generation > (rig.store.token("work")?.generation ?? 0) })
  }

  @Test("An answer that cannot be saved is not released and not lost") func unsaved() async throws {
    let rig = try await rig()
    rig.store.set(.fails, concerning: isRenewal)
    #expect(await rig.reason { try await get(rig, ["read"], timeout: 1) } == .storeFailure)
    #expect(try await get(rig).access_token == "work-a1")
    rig.store.set(.works)
    rig.clock.advance(.seconds(5))
    #expect(await eventually { rig.store.grant("work")?.refreshToken == Secret("work-r2") })
    #expect(try await get(rig, ["read"]).access_token == "read-2")
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("with narrow_tokens = false fewer scopes are served by the whole token") func notNarrowing() async throws {
    let rig = try await rig { $0.refresh.narrowing = .never }
    #expect(try await get(rig, ["read"]).access_token == "work-a1")
    #expect(await rig.reason { try await get(rig, resource: Self.files) } == .scopeNotGranted)
    #expect(rig.transport.count(.token) == 0)
  }

  @Test(
    "A resource whose answer looks like the end of the grant ends it only if the grant did end",
    arguments: [true, false])
  func doubted(isDead: Bool) async throws {
    let rig = try await rig()
    rig.transport.answer(.token) { request throws(TransportError) in
      isDead || request.form["resource"] != nil
        ? try TokenServer.refused("invalid_grant")(request) : try TokenServer.rotating(request)
    }
    let told = await rig.reason { try await get(rig, resource: "https://bad.example/") }
    #expect(told == (isDead ? .loginRequired : .scopeNotGranted))
    #expect(rig.transport.count(.token) == 2)
    // Its access token is valid: the account has a second attempt after the token's end.
    #expect(try await rig.view("work").state == (isDead ? .degraded : .ok))
  }
}
