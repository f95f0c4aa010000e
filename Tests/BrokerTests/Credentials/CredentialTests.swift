import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// What units load as credentials.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct CredentialTests {
  private typealias Offer = UnitCredentials.Offer

  private func rig(
    _ credentials: UnitCredentials = UnitCredentials(), clock: ManualClock = ManualClock(),
    store: MemoryStore = MemoryStore(), provider settings: ProviderSettings = .plain()
  ) async throws -> Rig {
    try await Rig(clock: clock, store: store, configuration: configuration(credentials, settings))
  }

  private func configuration(
    _ credentials: UnitCredentials, _ settings: ProviderSettings = .plain()
  ) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.plain([NamingProvider(settings)])
    configuration.credentials = credentials
    return configuration
  }

  private func signedIn(_ standing: Standing = .good, age: Duration = .zero) async throws -> MemoryStore {
    let store = MemoryStore()
    try await store.signIn("work", age: age, standing: standing)
    return store
  }

  private func load(
    _ id: String, _ rig: Rig, unit: String = "backup.service", as caller: Caller = .root
  ) async -> Result<String, RPCError> {
    var caller = caller
    caller.unit = unit
    return await rig.broker.credential(CredentialRequest(unit: unit, id: id, caller: caller)).map(\.exposed)
  }

  private func refusal(_ id: String, _ rig: Rig, unit: String = "backup.service") async -> RPCError? {
    if case .failure(let error) = await load(id, rig, unit: unit) { return error }
    return nil
  }

  @Test("An id is the configured account, otherwise the account of that name")
  func ids() async throws {
    let store = try await signedIn()
    try await store.signIn("home")
    let rig = try await rig(
      UnitCredentials(offers: [
        Offer(id: "mail-token", account: account("work")), Offer(id: "grantd.home", account: account("work")),
      ]), store: store)
    #expect(await load("mail-token", rig) == .success("work-a1"))
    #expect(await load("grantd.work", rig) == .success("work-a1"))
    #expect(await load("grantd.home", rig) == .success("work-a1"))
    for id in ["mail-tokens", "grantd.", "grantd.a b", "grantd", "Grantd.work", "work"] {
      let error = try #require(await refusal(id, rig))
      #expect(error.reason == .unknownAccount && error.hint?.contains("[[credential]]") == true, "\(id)")
    }
    #expect(await refusal("grantd.nobody", rig)?.reason == .unknownAccount)
  }

  @Test("`grantd.ACCOUNT.id_token` is the account's ID token, with its own kind in the audit trail")
  func idToken() async throws {
    func segment(_ text: String) -> String {
      Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
    let now = ManualClock.start.seconds
    let claims = #"{"iss":"https://id.example","sub":"work","aud":"client","iat":\#(now),"exp":\#(now + 3600)}"#
    let text = "\(segment(#"{"alg":"RS256"}"#)).\(segment(claims)).c2ln"
    let store = try await signedIn()
    try await store.commit([
      .putGrant(
        SavedGrant(
          account: account("work"), provider: provider("example"), identity: nil, requestedScopes: ["openid"],
          grantedScopes: ["openid"], refreshToken: Secret("work-r1"), idToken: Secret(text), generation: 1,
          createdAt: ManualClock.start, loggedInAt: ManualClock.start))
    ])
    let rig = try await rig(
      UnitCredentials(offers: [Offer(id: "proof", account: account("work"), kind: .idToken)]), store: store)
    #expect(await load("grantd.work.id_token", rig) == .success(text))
    #expect(await load("proof", rig) == .success(text))
    #expect(await load("grantd.work", rig) == .success("work-a1"))
    #expect(await refusal("grantd.work.id_tokens", rig)?.reason == .unknownAccount)
  }

  @Test("Without `by_account` an id is only a configured account")
  func byAccount() async throws {
    let rig = try await rig(
      UnitCredentials(offers: [Offer(id: "grantd.work", account: account("work"))], byAccount: false),
      store: try await signedIn())
    #expect(await load("grantd.work", rig) == .success("work-a1"))
    #expect(await refusal("grantd.other", rig)?.hint?.contains("by_account") == true)
  }

  @Test("The units that are named get it, and no other")
  func units() async throws {
    let offer = Offer(id: "t", account: account("work"), units: ["backup.service", "mail@*.service"])
    let rig = try await rig(UnitCredentials(offers: [offer]), store: try await signedIn())
    for unit in ["backup.service", "mail@a.service"] {
      #expect(await load("t", rig, unit: unit) == .success("work-a1"))
    }
    for unit in ["backup.service.service", "xbackup.service", "mail@a.socket", "mail.service"] {
      let error = try #require(await refusal("t", rig, unit: unit))
      #expect(error.reason == .notPermitted && error.hint?.contains("mail@*.service") == true)
    }
  }

  @Test("The policy is asked as of any caller")
  func policy() async throws {
    let rig = try await rig(store: try await signedIn())
    let refused = await load("grantd.work", rig, as: .user(1000))
    guard case .failure(let error) = refused else { return #expect(Bool(false), "it was given") }
    #expect(error.reason == .notPermitted)
  }

  @Test("A token that needs approval is not released to a unit, since no user can be asked")
  func confirmed() async throws {
    var rule = Rule(name: "ask", uid: 0, gid: nil, accounts: ["work"], access: [.use])
    rule.confirm = .seconds(60)
    var asking = configuration(UnitCredentials())
    asking.policy.rules = [rule]
    let rig = try await Rig(store: try await signedIn(), configuration: asking)
    let error = await refusal("grantd.work", rig)
    #expect(error?.reason == .notPermitted && error?.message.contains("rule ask requires approval") == true)
    let hint = try #require(error?.hint)
    #expect(hint.contains("`grantctl token work`") && !hint.contains("grantctl approve"))
    #expect(
      hint.hasSuffix(
        "[[rule]]\nuid = 0\nunit = \"backup.service\"\naccounts = [\"work\"]\nmethods = [\"token.get\"]"))
    // Which is right.
    asking.policy.rules.append(
      Rule(
        name: "unit", who: .init(uid: 0, unit: "backup.service"), accounts: ["work"], access: [],
        methods: [TokenGet.name]))
    rig.reading.value = .success(asking)
    _ = try await rig.broker.reload()
    #expect(await load("grantd.work", rig) == .success("work-a1"))
    #expect(await refusal("grantd.work", rig, unit: "other.service")?.reason == .notPermitted)
  }

  @Test("A token that is due is refreshed first, and one with less left than min_ttl too")
  func fresh() async throws {
    let offer = Offer(id: "long", account: account("work"), minimumTTL: .seconds(1800))
    let store = try await signedIn(age: .seconds(2000))
    let rig = try await rig(UnitCredentials(offers: [offer]), store: store)
    rig.transport.answer(.token) { TokenServer.granted($0, lifetime: 3600) }
    #expect(await load("grantd.work", rig) == .success("work-a1"))
    guard case .success(let fresh) = await load("long", rig) else { return #expect(Bool(false), "no token") }
    #expect(fresh != "work-a1" && rig.transport.requests(.token).count == 1)
    #expect(await load("grantd.work", rig) == .success(fresh))
  }

  @Test("Scopes and a resource make a narrowed token")
  func narrowed() async throws {
    let settings = ProviderSettings.plain {
      $0.access.scopes = ["read", "write"]
      $0.refresh.narrowing = .verified
    }
    let offer = Offer(id: "reader", account: account("work"), scopes: ["read"])
    let rig = try await rig(UnitCredentials(offers: [offer]), provider: settings)
    rig.transport.answer(.token) { request in
      let scope = request.form["scope"]?.replacing("+", with: " ") ?? "read write"
      return reply(
        #"{"access_token":"\#(scope)","token_type":"Bearer","expires_in":3600,"refresh_token":"r","scope":"\#(scope)"}"#
      )
    }
    _ = await rig.callBack(try await rig.start())
    #expect(await load("reader", rig) == .success("read"))
    #expect(await load("grantd.work", rig) == .success("read write"))
  }

  @Test("An id of a session is the session's id")
  func session() async throws {
    let store = try await signedIn()
    let token = SavedToken(
      account: account("work"), accessToken: Secret("session-7"), type: SavedToken.session, scopes: [], generation: 2,
      issuedAt: ManualClock.start, expiresAt: nil)
    try await store.commit([.putToken(token)])
    #expect(await load("grantd.work", try await rig(store: store)) == .success("session-7"))
  }

  @Test("An account that has ended, and a provider that fails, are refusals that say what to do")
  func failures() async throws {
    let failure = FailureRecord(message: "revoked", at: ManualClock.start)
    let ended = try await rig(store: try await signedIn(.loginRequired(.refused, failure), age: .seconds(4000)))
    let error = await refusal("grantd.work", ended)
    #expect(error?.reason == .loginRequired && error?.hint?.contains("grantctl login") == true)
    let down = try await rig(store: try await signedIn(age: .seconds(4000)))
    down.transport.answer(.token) { _ in reply("{}", status: 503) }
    #expect(await refusal("grantd.work", down)?.reason == .temporarilyUnavailable)
  }

  @Test("A provider that hangs is waited for, and not longer than systemd waits")
  func hangs() async throws {
    let clock = ManualClock()
    let rig = try await rig(clock: clock, store: try await signedIn(age: .seconds(4000)))
    rig.transport.hold(.token)
    async let answer = refusal("grantd.work", rig)
    #expect(await eventually { rig.transport.held(.token) == 1 && clock.sleepers >= 1 })
    clock.advance(.seconds(49))
    await settle()
    clock.advance(.seconds(2))
    #expect(await answer?.reason == .timedOut)
    rig.transport.release(.token)
  }

  @Test("A reload changes what there is, also for a unit that waits")
  func reloaded() async throws {
    let rig = try await rig(store: try await signedIn(age: .seconds(4000)))
    rig.transport.hold(.token)
    async let waiting = refusal("grantd.work", rig)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    rig.reading.value = .success(configuration(UnitCredentials(byAccount: false)))
    _ = try await rig.broker.reload()
    rig.transport.release(.token)
    #expect(await waiting?.reason == .unknownAccount)
    #expect(await refusal("grantd.work", rig)?.reason == .unknownAccount)
  }

  @Test("Each answer is counted, and recorded with who got what")
  func recorded() async throws {
    let rig = try await rig(store: try await signedIn())
    _ = await load("grantd.work", rig)
    _ = await load("grantd.work", rig)
    _ = await load("nothing", rig)
    let counts = rig.broker.door.requests.all
    #expect(counts[.init(method: "credential", result: "ok")] == 2)
    #expect(counts[.init(method: "credential", result: "unknown_account")] == 1)
    await rig.broker.trail.flush()
    let records = rig.audit.sinceStart
    #expect(records.map(\.count) == [2, 1])
    #expect(records.map(\.entry.account) == ["work", nil] && records.map(\.entry.result) == ["ok", "unknown_account"])
    #expect(records.map(\.entry.detail) == ["grantd.work for backup.service", "nothing for backup.service"])
    #expect(records.allSatisfy { $0.entry.who.unit == "backup.service" && $0.entry.who.uid == 0 })
    #expect(records.first?.entry.generation == 1 && !"\(records)".contains("work-a1"))
  }

  @Test("Refusals by the socket are recorded with the claimed identity, and invented claims do not fill the trail")
  func forged() async throws {
    let rig = try await rig(
      UnitCredentials(offers: [Offer(id: "mail-token", account: account("work"))]), store: try await signedIn())
    let stranger = Caller(uid: 1000, gid: 1000, groups: [], pid: 66, unit: "evil.service")
    for number in 1...100 {
      rig.broker.credentialWithheld(
        .init(
          cause: .foreign, unit: "u\(number).service", id: "mail-token", caller: stranger,
          message: "the name is forged"))
    }
    rig.broker.credentialWithheld(.init(cause: .foreign, message: "the \u{1B}[2Jkernel does not say"))
    await rig.broker.trail.flush()
    let records = rig.audit.sinceStart
    #expect(records.allSatisfy { $0.entry.result == "not_permitted" })
    let forged = records.filter { $0.entry.who == .init(.process(stranger)) }
    let others = try #require(records.first { $0.entry.method == AuditEntry.severalMethods })
    #expect(forged.count == AuditBudgets.unnamed && forged.map(\.count).reduce(others.count, +) == 100)
    #expect(forged.first?.entry.detail == "mail-token for u1.service: the name is forged")
    #expect(forged.first?.entry.account == "work" && forged.first?.pid == 66)
    let unknown = try #require(records.first { $0.entry.who.uid == nil })
    #expect(unknown.entry.detail == "the \\u{1b}[2Jkernel does not say")
    #expect(unknown.sentence == "refused credential to a process that the kernel does not name")
  }

  @Test("A credential that did not get to its unit is recorded beside its release, and among the refusals")
  func undelivered() async throws {
    let rig = try await rig(store: try await signedIn())
    #expect(await load("grantd.work", rig) == .success("work-a1"))
    rig.broker.credentialWithheld(
      .init(
        cause: .undelivered, unit: "backup.service", id: "grantd.work", caller: .root,
        message: "the asking process has ended"))
    let refused = try await rig.call(AuditList.self, .init(refused: true)).records
    #expect(refused.map(\.result) == ["not_delivered"] && refused.map(\.account) == ["work"])
    #expect(refused.first?.detail == "grantd.work for backup.service: the asking process has ended")
    #expect(rig.audit.sinceStart.map(\.entry.result) == ["ok", "not_delivered"])
  }
}
