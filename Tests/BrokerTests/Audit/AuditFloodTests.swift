import BrokerAPI
import Logging
import Principals
import TestSupport
import Testing

@testable import Broker

/// Who has no right to anything neither fills the audit trail nor the log.
@Suite(.scheduled) struct AuditFloodTests {
  private let journal = LoggedLines()
  private let clock = ManualClock()
  private let store = MemoryAuditStore()

  private func trail() -> AuditTrail {
    AuditTrail(
      store: store, logger: journal.logger(), now: { [clock] in clock.now }, uptime: { [clock] in clock.elapsed })
  }

  /// Each from a control group of its own, which a user's manager lets the user name.
  private func refuse(
    _ trail: AuditTrail, _ times: Int, _ refuser: AuditSubject, uid: UInt32 = 1000, from first: Int = 0
  ) {
    for number in first..<(first + times) {
      trail.record(
        AuditEntry(
          action: .release, method: "token.get", account: "work",
          who: .init(uid: uid, unit: "user@\(uid).service", userUnit: "a\(number).service"), result: "not_permitted"),
        refuser: refuser)
    }
  }

  private func written(_ trail: AuditTrail) async -> [AuditRecord] {
    await trail.flush()
    return store.records
  }

  @Test(
    "Refusals of one holder have a limited number of records, and one record counts the rest",
    arguments: [
      (AuditSubject(.user(1000), isNamed: true), AuditBudgets.named),
      (AuditSubject(.user(1000), isNamed: false), AuditBudgets.unnamed), (.unknown, AuditBudgets.unnamed),
      (AuditSubject(.unit("a.service", user: nil), isNamed: false), AuditBudgets.unnamed),
    ])
  func records(_ refuser: AuditSubject, budget: Int) async throws {
    let trail = trail()
    refuse(trail, 5000, refuser)
    let records = await written(trail)
    #expect(records.count == budget + 1 && records.map(\.count).reduce(0, +) == 5000)
    let others = try #require(records.last)
    #expect(others.entry.method == "*" && others.count == UInt64(5000 - budget) && others.entry.account == nil)
    #expect(
      others.sentence
        == "\(5000 - budget) more refusals of \(refuser.name), beyond those recorded one by one")
    refuse(trail, 1000, refuser, from: 5000)
    let later = await written(trail)
    #expect(later.count == records.count && later.last?.id == others.id && later.last?.count == others.count + 1000)
    clock.advance(.seconds(60))
    refuse(trail, 5000, refuser, from: 6000)
    #expect(await written(trail).count == 2 * budget + 1)
  }

  private func release(
    _ trail: AuditTrail, _ times: Int, uid: UInt32 = 1000, from first: Int = 0, to account: String = "work"
  ) {
    for number in first..<(first + times) {
      trail.record(
        AuditEntry(
          action: .release, method: "token.get", account: account,
          who: .init(uid: uid, unit: "user@\(uid).service", userUnit: "a\(number).service")),
        refuser: AuditSubject(eventsOf: .user(1000)))
    }
  }

  @Test("Releases that differ only by control group or subordinate user id are counted in one record after a limit")
  func programs() async throws {
    let trail = trail()
    release(trail, 5000)
    let records = await written(trail)
    #expect(records.count == AuditPrograms.perUser + 1 && records.map(\.count).reduce(0, +) == 5000)
    let others = try #require(records.last?.entry)
    #expect(others.account == "work" && others.method == "token.get" && others.who == .init(uid: 1000))
    #expect(others.detail == "by more programs of uid 1000")
    // A known program has a record of each account, and so has any other one together.
    release(trail, 1, from: 0, to: "home")
    release(trail, 100, uid: 100_001, from: 0, to: "home")
    #expect(await written(trail).count == AuditPrograms.perUser + 3)
    // Another user has records of its own, and a minute later there are new ones.
    trail.record(
      AuditEntry(action: .release, method: "token.get", account: "work", who: .init(uid: 1001)),
      refuser: AuditSubject(eventsOf: .unit("x.service", user: 1001)))
    #expect(await written(trail).count == AuditPrograms.perUser + 4)
    clock.advance(.seconds(60))
    release(trail, 5000, from: 5000)
    #expect(await written(trail).count <= 2 * AuditPrograms.perUser + 5)
  }

  @Test("Log lines of a user's releases are limited a minute, and the number of further ones is logged")
  func releaseLines() async {
    let trail = trail()
    for number in 0..<2 * Limit.auditLogLines { release(trail, 1, from: 0, to: "a\(number)") }
    _ = await written(trail)
    #expect(journal.all.count == Limit.auditLogLines)
    trail.record(
      AuditEntry(action: .release, method: "token.get", account: "work", who: .init(uid: 1001)),
      refuser: AuditSubject(eventsOf: .user(1001)))
    _ = await written(trail)
    #expect(journal.all.count == Limit.auditLogLines + 1)
    clock.advance(.seconds(30))
    _ = await written(trail)
    let last = journal.all.last?.text
    #expect(
      last == "\(Limit.auditLogLines) more records of uid 1000 are only in the audit trail: `grantctl audit`",
      "\(last ?? "")")
  }

  @Test("All that no rule names have a budget together, and each holder a record that counts")
  func together() async {
    let trail = trail()
    for uid in 1...10 as ClosedRange<UInt32> {
      refuse(trail, 100, AuditSubject(.user(uid), isNamed: false), uid: uid)
    }
    let records = await written(trail)
    #expect(records.count == AuditBudgets.allUnnamed + 10 && records.map(\.count).reduce(0, +) == 1000)
    #expect(Set(records.filter { $0.entry.method == "*" }.map(\.entry.who.uid)) == Set(1...10))
  }

  @Test("A user has no more with subordinate user ids, and more holders than are kept are counted together")
  func holders() async {
    let trail = trail()
    for uid in 100_000..<100_500 as Range<UInt32> {
      refuse(trail, 1, AuditSubject(.user(1000), isNamed: false), uid: uid)
    }
    #expect(await written(trail).count == AuditBudgets.unnamed + 1)
    for uid in 0..<UInt32(3 * AuditBudgets.holders) {
      refuse(trail, 1, AuditSubject(.user(2000 + uid), isNamed: false), uid: uid)
    }
    #expect(await written(trail).count <= AuditBudgets.allUnnamed + AuditBudgets.holders + 2)
  }

  @Test("Refusals of root and of the owner have a record each; an event is recorded once")
  func others() async {
    let trail = trail()
    let release = AuditEntry(action: .release, method: "token.get", account: "work", who: .init(uid: 1))
    trail.record(release)
    refuse(trail, 100, AuditSubject(.root, isNamed: false), uid: 0)
    refuse(trail, 100, AuditSubject(.owner, isNamed: false), uid: 7000)
    for uid in 1...30 as ClosedRange<UInt32> {
      refuse(trail, 100, AuditSubject(.user(uid), isNamed: true), uid: uid)
    }
    trail.record(release)
    let records = await written(trail)
    #expect(records.first?.entry == release && records.first?.count == 2)
    #expect(records.count { $0.entry.who.uid == 0 } == 100 && records.count { $0.entry.who.uid == 7000 } == 100)
  }

  @Test("Log lines about refusals are limited per minute, and the last one counts the rest")
  func lines() async {
    let trail = trail()
    for round in 0..<20 {
      for uid in 1...40 as ClosedRange<UInt32> {
        refuse(trail, 100, AuditSubject(.user(uid), isNamed: false), uid: uid, from: 100 * round)
      }
      _ = await written(trail)
    }
    #expect(journal.all.count == Limit.auditLogLinesUnnamed)
    clock.advance(.seconds(30))
    _ = await written(trail)
    let last = journal.all.last?.text
    #expect(
      last?.hasSuffix("more refusals are only in the audit trail: `grantctl audit --refused`") == true, "\(last ?? "")"
    )
    let count = journal.all.count
    trail.record(AuditEntry(action: .logout, method: "account.logout", account: "work", who: .init(uid: 1)))
    _ = await written(trail)
    #expect(journal.all.count == count + 1, "events are logged all the same")
  }

  @Test("Names that a caller chose are escaped in lines of the log")
  func escapes() async {
    let trail = trail()
    let who = AuditCaller(
      uid: 1000, unit: "user@1000.service", userUnit: "a\u{1B}[31m\u{202E}.service", executable: "/tmp/\u{9B}x")
    for method in ["token.get", "account.get"] {
      trail.record(
        AuditEntry(action: .use, method: method, account: "\u{2028}", who: who, result: "not_permitted"),
        refuser: .unknown)
    }
    trail.record(AuditEntry(action: .use, method: "token.get", who: .init(uid: 1, executable: "/a\u{1B}/\u{1B}c")))
    _ = await written(trail)
    #expect(journal.all.count == 3)
    for line in journal.all {
      #expect(!line.whole.unicodeScalars.contains { $0.value < 0x20 || [0x9B, 0x2028, 0x202E].contains($0.value) })
    }
    #expect(journal.all.first?.text.contains("user unit a\\u{1b}[31m\\u{202e}.service (uid 1000)") == true)
  }

  @Test("Refusals are logged by callers that rules name, and by all others together")
  func atTheDoor() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rule = Rule(name: "a", uid: 1000, gid: nil, accounts: ["home"], access: [.use])
    var configuration = BrokerConfiguration.plain(rules: [rule])
    configuration.callerLimits.burst = 1_000_000
    let rig = try await Rig(store: store, configuration: configuration)
    for (uid, budget) in [(1000, AuditBudgets.named), (1001, AuditBudgets.unnamed)] as [(UInt32, Int)] {
      for number in 1...200 {
        let caller = Caller(
          uid: uid, gid: uid, groups: [], pid: 7, unit: "user@\(uid).service", userUnit: "a\(number).service")
        #expect(
          await rig.reason { try await rig.call(TokenGet.self, .init(account: "work"), as: caller) } == .notPermitted)
      }
      await rig.broker.trail.flush()
      let records = rig.audit.sinceStart.filter { $0.entry.who.uid == uid }
      #expect(records.count == budget + 1 && records.map(\.count).reduce(0, +) == 200)
    }
  }
}

@Suite(.scheduled) struct LogBudgetTests {
  @Test("Log lines are limited per minute; the next line counts the others")
  func budget() {
    var budget = LogBudget(30)
    let start = Duration.seconds(1000)
    #expect((0..<50).map { _ in budget.acquire(at: start) }.compactMap { $0 } == Array(repeating: 0, count: 30))
    #expect(budget.due(at: start) == nil && budget.omitted == 20)
    #expect(budget.acquire(at: start + .seconds(2)) == 20)
    #expect(budget.acquire(at: start + .seconds(2)) == nil)
    #expect(budget.due(at: start + .seconds(10)) == 1 && budget.due(at: start + .seconds(10)) == nil)
  }
}
