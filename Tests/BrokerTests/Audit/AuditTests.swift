import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Testing

@testable import Broker

/// Who got what, who was refused, and who may read of it.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct AuditTests {
  private static let reader = Rule(
    name: "reader", who: .init(unit: "mail.service"), accounts: ["wo*"], access: [.use])
  private static let keeper = Rule(name: "keeper", uid: 1001, gid: nil, accounts: ["work"], access: [.manage])

  private static let mail = Caller(
    uid: 1000, gid: 1000, groups: [], pid: 77, unit: "mail.service", executable: "/usr/bin/mail")

  private func rig(_ change: (inout AuditPolicy) -> Void = { _ in }) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work")
    try await store.signIn("home")
    var configuration = BrokerConfiguration.plain(rules: [Self.reader, Self.keeper])
    change(&configuration.audit)
    return try await Rig(store: store, configuration: configuration)
  }

  private func written(_ rig: Rig) async -> [AuditRecord] {
    await rig.broker.trail.flush()
    return rig.audit.sinceStart
  }

  @Test("Releases of one token to one caller are one record on every path, with caller, token and rule")
  func releases() async throws {
    let rig = try await rig()
    let cache = rig.router.cachedTokens(for: .process(Self.mail))
    for _ in 1...3 {
      #expect(cache.reply(account: "work") != nil)
      rig.clock.advance(.seconds(5))
    }
    // Another process of the same program, and a request with more to it.
    var again = Self.mail
    again.pid = 78
    _ = try await rig.call(TokenGet.self, .init(account: "work", scopes: ["read"]), as: again)
    let records = await written(rig)
    var entry = AuditEntry(action: .release, method: "token.get", account: "work", who: .init(.process(Self.mail)))
    entry.provider = "example"
    entry.scopes = ["read"]
    entry.generation = 1
    entry.rule = "reader"
    #expect(
      records == [
        AuditRecord(
          id: 2, entry: entry, pid: 78, count: 4, first: ManualClock.start, last: ManualClock.start + .seconds(15),
          refuser: AuditSubject(eventsOf: Self.mail.holder))
      ])
    #expect(!"\(records)".contains("work-a1"))
  }

  @Test("A new record has its count before the writer is woken") func counted() async throws {
    let rig = try await rig()
    let entry = AuditEntry(action: .release, method: "token.get", account: "work", who: .init(.process(Self.mail)))
    let line = try #require(rig.broker.trail.line(entry, pid: 77, at: 0))
    #expect(await written(rig).map(\.count) == [1])
    line.again(pid: 77, at: 0)
    #expect(await written(rig).map(\.count) == [2])
  }

  @Test("Another token, another caller and a pause longer than two hours begin another record")
  func apart() async throws {
    let rig = try await rig()
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"work-a2","token_type":"Bearer","expires_in":30000,"refresh_token":"work-r2"}"#)
    }
    let cache = rig.router.cachedTokens(for: .process(Self.mail))
    _ = cache.reply(account: "work")
    _ = rig.cached("work")
    _ = try await rig.call(TokenReportRejected.self, .init(account: "work", generation: 1))
    _ = cache.reply(account: "work")
    rig.clock.advance(.seconds(7201))
    _ = await written(rig)
    #expect(cache.reply(account: "work") != nil)
    let releases = await written(rig).filter { $0.entry.action == .release }
    #expect(releases.map(\.entry.generation) == [1, 1, 2, 2])
    #expect(releases.map(\.entry.who.uid) == [1000, 0, 1000, 1000])
    #expect(releases.allSatisfy { $0.count == 1 })
  }

  @Test("A refusal is recorded with its account and counted, and made-up names do not fill the trail")
  func refusals() async throws {
    let rig = try await rig()
    for _ in 1...100 {
      #expect(
        await rig.reason { try await rig.call(TokenGet.self, .init(account: "home"), as: Self.mail) } == .notPermitted)
    }
    for number in 1...200 {
      _ = await rig.reason { try await rig.call(TokenGet.self, .init(account: "a\(number)"), as: Self.mail) }
    }
    // Unknown names hide no existing account.
    _ = await rig.reason { try await rig.call(AccountGet.self, .init(account: "work"), as: Self.mail) }
    let records = await written(rig)
    #expect(records.first?.entry.account == "home" && records.first?.count == 100)
    #expect(records.last?.entry.account == "work" && records.last?.count == 1)
    #expect(records.allSatisfy { $0.entry.result == "not_permitted" && $0.entry.who.unit == "mail.service" })
    #expect(records.count == 2 + Limit.auditFailuresPerCaller + 1)
    #expect(records.map(\.count).reduce(0, +) == 301)
  }

  @Test("A request refused before the account is known is recorded too, also for methods that change nothing")
  func refusedAtTheDoor() async throws {
    let rig = try await rig()
    _ = await rig.reason { try await rig.call(AccountList.self, .init(), as: .user(1002)) }
    _ = await rig.reason { try await rig.call(BrokerReload.self, NoParams(), as: .user(1002)) }
    // Without a rule the account is not checked either; the record has it.
    _ = await rig.reason { try await rig.call(TokenGet.self, .init(account: "work"), as: .user(1002)) }
    _ = await rig.reason { try await rig.call(TokenGet.self, .init(account: "a\u{1B}[2J"), as: .user(1002)) }
    let records = await written(rig)
    #expect(records.map(\.entry.method) == ["account.list", "broker.reload", "token.get", "token.get"])
    #expect(records.allSatisfy { $0.entry.result == "not_permitted" })
    #expect(records.map(\.entry.account) == [nil, nil, "work", nil])
  }

  @Test("A login's begin and end, a logout, and a change of the rules")
  func others() async throws {
    let rig = try await rig()
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"n","token_type":"Bearer","expires_in":3600,"refresh_token":"r","scope":"read"}"#)
    }
    _ = await rig.callBack(try await rig.start(account: "new", as: .root))
    _ = try await rig.call(AccountLogout.self, .init(account: "new", revoke: false))
    rig.reading.value = .success(.plain(rules: [Self.reader]))
    _ = try await rig.call(BrokerReload.self, NoParams())
    rig.reading.value = .failure(RPCError(.invalidConfiguration, "line 3"))
    _ = try? await rig.broker.reload()
    let records = await written(rig)
    #expect(
      records.map { "\($0.entry.action.rawValue) \($0.entry.method) \($0.entry.account ?? "-") \($0.entry.result)" }
        == [
          "login login.start new ok", "login login.completed new ok", "logout account.logout new ok",
          "policy broker.reload - ok", "policy broker.reload - invalid_configuration",
        ])
    #expect(records[3].entry.detail?.hasPrefix("changed: rules (-keeper); 1 rule, policy ") == true)
    #expect(records.map(\.entry.who.uid) == [0, 0, 0, 0, nil])
  }

  @Test("A caller that manages an account reads its records and no others")
  func readers() async throws {
    let rig = try await rig()
    _ = rig.cached("work")
    _ = rig.cached("home")
    _ = await rig.reason { try await rig.call(AccountList.self, .init(), as: .user(1002)) }
    func read(_ caller: Caller, account: String? = nil) async throws -> [String] {
      try await rig.call(AuditList.self, .init(account: account), as: caller).records.map {
        "\($0.method) \($0.account ?? "-")"
      }
    }
    #expect(try await read(.root) == ["account.list -", "token.get home", "token.get work", "broker.start -"])
    #expect(try await read(.user(1001)) == ["token.get work"])
    #expect(try await read(.user(1001), account: "work") == ["token.get work"])
    #expect(await rig.reason { _ = try await read(.user(1001), account: "home") } == .notPermitted)
    #expect(await rig.reason { _ = try await read(Self.mail) } == .notPermitted)
  }

  @Test("It is read page by page, to the last record")
  func pages() async throws {
    let rig = try await rig()
    for uid in 1...7 { _ = rig.cached("work", as: Caller(uid: 0, gid: 0, groups: [], pid: 5, unit: "u\(uid).service")) }
    var seen: [Int64] = []
    var before: Int64?
    repeat {
      let page = try await rig.call(AuditList.self, .init(limit: 3, before: before))
      #expect(page.records.count <= 3)
      seen += page.records.map(\.id)
      before = page.next
    } while before != nil && seen.count < 20
    #expect(seen == [8, 7, 6, 5, 4, 3, 2, 1])
  }

  @Test("A caller that manages some accounts gets full pages, regardless of other records between")
  func sparsePages() async throws {
    let rig = try await rig()
    for number in 1...40 {
      let caller = Caller(uid: 0, gid: 0, groups: [], pid: 5, unit: "u\(number).service")
      _ = rig.cached(number.isMultiple(of: 10) ? "work" : "home", as: caller)
    }
    let first = try await rig.call(AuditList.self, .init(limit: 3), as: .user(1001))
    #expect(first.records.map(\.account) == ["work", "work", "work"])
    let second = try await rig.call(AuditList.self, .init(limit: 3, before: first.next), as: .user(1001))
    #expect(second.records.count == 1 && second.next == nil)
  }

  @Test("Existing accounts keep their names in records, however many fail; invented names are not recorded")
  func failuresOfAccounts() async throws {
    let (real, made) = ((1...40).map { "real\($0)" }, (1...40).map { "made\($0)" })
    let store = MemoryStore()
    let ended = Standing.loginRequired(.refused, FailureRecord(message: "revoked", at: ManualClock.start))
    for name in real { try await store.signIn(name, age: .seconds(4000), standing: ended) }
    let rig = try await Rig(store: store)
    for name in made + real {
      _ = await rig.callBack(try await rig.start(account: name), ["code": nil, "error": "access_denied"])
      let caller = Caller(uid: 0, gid: 0, groups: [], pid: 5, unit: "a.service")
      _ = await rig.broker.credential(CredentialRequest(unit: "a.service", id: "grantd.\(name)", caller: caller))
    }
    let records = await written(rig)
    for method in ["login.failed", "credential"] {
      let failed = records.filter { $0.entry.method == method && $0.entry.result != "ok" }
      let names = failed.compactMap(\.entry.account)
      #expect(Set(real).isSubset(of: names), "\(method)")
      #expect(names.filter { $0.hasPrefix("made") }.count == Limit.auditFailuresPerCaller, "\(method)")
      #expect(failed.map(\.count).reduce(0, +) == 80, "\(method)")
    }
  }

  @Test("Records that cannot be saved are kept up to a limit and saved later")
  func failingStore() async throws {
    let rig = try await rig()
    rig.audit.fail(with: .unwritable(path: "/x", detail: "the disk is full"))
    _ = rig.cached("work")
    #expect(await written(rig).isEmpty)
    _ = rig.cached("work")
    _ = rig.cached("home")
    #expect(await rig.reason { try await rig.token("work") } == nil, "tokens are released nevertheless")
    rig.audit.fail(with: nil)
    #expect(await written(rig).map(\.count) == [3, 1])
    let writes = rig.audit.writes
    #expect(await written(rig).count == 2 && rig.audit.writes == writes, "nothing new is not written again")
  }

  @Test("Turned off, nothing is recorded; a reload turns it on for open connections")
  func auditingTurnedOff() async throws {
    let rig = try await rig { $0.isEnabled = false }
    let cache = rig.router.cachedTokens(for: .process(.root))
    #expect(cache.reply(account: "work") != nil)
    #expect(await written(rig).isEmpty)
    rig.reading.value = .success(.plain(rules: [Self.reader, Self.keeper]))
    _ = try await rig.call(BrokerReload.self, NoParams())
    #expect(cache.reply(account: "work") != nil)
    #expect(await written(rig).contains { $0.entry.action == .release && $0.count == 1 })
  }

  @Test("Record numbers continue after a restart, and old records are removed by the policy")
  func restart() async throws {
    let rig = try await rig()
    _ = rig.cached("work")
    let before = await written(rig)
    let next = try await Rig(store: rig.store, configuration: .plain(), audit: rig.audit)
    let writing = Task { await next.broker.keepTrail() }
    _ = next.cached("work")
    #expect(
      await next.clock.reaches(by: .milliseconds(200)) {
        next.audit.records.count == 4 && next.audit.forgotten != nil
      })
    writing.cancel()
    next.clock.advance(.seconds(60))
    await writing.value
    #expect(next.audit.records.map(\.id) == [1, 2, 3, 4] && next.audit.sinceStart.first == before.first)
    #expect(next.audit.forgotten?.most == 1_000_000)
    #expect(try #require(next.audit.forgotten).before < ManualClock.start - .seconds(89 * 86_400))
  }
}

/// What one connection's fast road remembers.
@Suite(.scheduled) struct CachedLaneTests {
  private static let rule = Rule(name: "a", uid: 1000, gid: nil, accounts: ["work", "a*"], access: [.use])

  @Test("A connection that has had a token gets no withdrawn one, and none that its rule no longer gives")
  func withdrawn() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store, configuration: .plain(rules: [Self.rule]))
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"second","token_type":"Bearer","expires_in":3600,"refresh_token":"work-r2"}"#)
    }
    let cache = rig.router.cachedTokens(for: .process(.user(1000)))
    func head() -> String? { cache.reply(account: "work").map { String(decoding: $0.body.head, as: UTF8.self) } }
    #expect(head()?.contains("work-a1") == true)
    _ = try await rig.call(AccountRefresh.self, .init(account: "work"))
    #expect(head()?.contains("second") == true)
    rig.reading.value = .success(.plain())
    _ = try await rig.call(BrokerReload.self, NoParams())
    #expect(head() == nil)
    rig.reading.value = .success(.plain(rules: [Self.rule]))
    _ = try await rig.call(BrokerReload.self, NoParams())
    #expect(head()?.contains("second") == true)
    _ = try await rig.call(AccountLogout.self, .init(account: "work", revoke: false))
    #expect(head() == nil)
  }

  @Test("More accounts in turn than it remembers are each answered with their own token")
  func many() async throws {
    let store = MemoryStore()
    let names = (0..<(Limit.accountsPerConnection * 2)).map { "a\($0)" }
    for name in names { try await store.signIn(name) }
    let rig = try await Rig(store: store, configuration: .plain(rules: [Self.rule]))
    let cache = rig.router.cachedTokens(for: .process(.user(1000)))
    for name in names + names.reversed() {
      let head = try #require(cache.reply(account: name)).body.head
      #expect(String(decoding: head, as: UTF8.self).contains("\"\(name)-a1\""))
    }
    await rig.broker.trail.flush()
    #expect(rig.audit.sinceStart.count == names.count && rig.audit.sinceStart.allSatisfy { $0.count == 2 })
  }
}

/// How much a caller may ask.
@Suite(.scheduled) struct CallerRatesTests {
  private let clock = ManualClock()

  private func rates(rate: Int = 10, burst: Int = 20, cost: Int = 5) -> CallerRates {
    let rates = CallerRates(uptime: { [clock] in clock.elapsed })
    var limits = CallerLimits()
    limits.rate = rate
    limits.burst = burst
    limits.refusalCost = cost
    rates.configure(limits)
    return rates
  }

  private func taken(_ rates: CallerRates, _ who: AuditCaller, of wanted: Int = 1000) -> Int {
    var count = 0
    while count < wanted, rates.acquire(who, of: Holder(uid: who.uid ?? 0)) == nil { count += 1 }
    return count
  }

  @Test("A burst, then the rate; a caller that waits as requested is served")
  func burst() throws {
    let rates = rates()
    let who = AuditCaller(uid: 1000)
    #expect(taken(rates, who) == 20)
    let wait = try #require(rates.acquire(who, of: Holder(uid: who.uid ?? 0)))
    #expect(wait <= .milliseconds(100))
    clock.advance(wait + .milliseconds(1))
    #expect(taken(rates, who) == 1)
    clock.advance(.seconds(1))
    #expect(taken(rates, who) == 10)
    clock.advance(.seconds(3600))
    #expect(taken(rates, who) == 20)
  }

  @Test("A refusal costs several requests, at most one burst, and other callers nothing")
  func refusals() throws {
    let rates = rates()
    let (attacker, other) = (AuditCaller(uid: 1000, unit: "a.service"), AuditCaller(uid: 1000, unit: "b.service"))
    for _ in 1...4 {
      #expect(rates.acquire(attacker, of: Holder(uid: attacker.uid ?? 0)) == nil)
      rates.refused(attacker)
    }
    #expect(rates.acquire(attacker, of: Holder(uid: attacker.uid ?? 0)) != nil)
    for _ in 1...1000 { rates.refused(attacker) }
    #expect(taken(rates, other) == 20)
    clock.advance(.seconds(2) + .milliseconds(200))
    #expect(
      rates.acquire(attacker, of: Holder(uid: attacker.uid ?? 0)) == nil, "after at most a burst of debt it may go on")
  }

  @Test("More programs do not give a user a larger share, except for a few; root and other users are separate")
  func users() {
    let rates = rates()
    var total = 0
    for number in 1...20 { total += taken(rates, .init(uid: 1000, unit: "u\(number).service")) }
    #expect(total == 80)
    #expect(taken(rates, .init(uid: 1001)) == 20)
    for number in 1...20 { #expect(taken(rates, .init(uid: 0, unit: "u\(number).service")) == 20) }
  }

  @Test("A name that a process chooses gives it no other rate")
  func parents() {
    let rates = rates()
    var (one, other) = (AuditCaller(uid: 1000, unit: "a.service"), AuditCaller(uid: 1000, unit: "a.service"))
    (one.parent, other.parent) = ("x", "y")
    #expect(taken(rates, one) == 20 && taken(rates, other) == 0)
  }

  @Test("Callers are forgotten once they are quiet, and too many share")
  func bounded() {
    let rates = rates()
    for uid in 0..<UInt32(Limit.callerRates + 100) { _ = rates.acquire(.init(uid: uid), of: Holder(uid: uid)) }
    #expect(rates.count <= Limit.callerRates + 1)
    clock.advance(.seconds(10))
    _ = rates.acquire(.init(uid: 1_000_000), of: .user(7))
    #expect(rates.count == 1)
  }

  @Test("At the socket's door: refusals end in rate_limited with a time, others are answered, and it is recorded")
  func atTheDoor() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    var configuration = BrokerConfiguration.plain()
    configuration.callerLimits.burst = 40
    let rig = try await Rig(store: store, configuration: configuration)
    var reasons: [ErrorReason?] = []
    for _ in 1...10 {
      reasons.append(await rig.reason { try await rig.call(TokenGet.self, .init(account: "x"), as: .user(7)) })
    }
    #expect(reasons.prefix(4).allSatisfy { $0 == .notPermitted } && reasons.suffix(5).allSatisfy { $0 == .rateLimited })
    let error = await #expect(throws: RPCError.self) {
      _ = try await rig.call(TokenGet.self, .init(account: "x"), as: .user(7))
    }
    #expect(try #require(error?.retry_after) > 0)
    #expect(await rig.reason { try await rig.token("work") } == nil)
    await rig.broker.trail.flush()
    #expect(Set(rig.audit.records.map(\.entry.result)) == ["not_permitted", "rate_limited", "ok"])
  }
}
