import BrokerAPI
import Grants
import Principals
import Testing

@testable import Broker

/// One principal of each kind, through each question that the broker asks about a caller.
@Suite struct PrincipalTests {
  private static func process(uid: UInt32) -> Caller {
    var process = Caller(
      uid: uid, gid: 500, groups: [7], pid: 42, unit: "feed.service", userUnit: "own.service",
      executable: "/usr/bin/feed", holder: uid == 0 ? .root : .unit("feed.service", user: uid))
    process.parent = "shell"
    return process
  }

  /// A loopback connection: no group, process or program is known.
  private static func peer(uid: UInt32) -> Caller {
    Caller(
      uid: uid, gid: .max, groups: [], pid: 0, unit: "feed.service",
      holder: uid == 0 ? .root : .unit("feed.service", user: uid))
  }

  struct Kind: Sendable {
    let name: String
    let of: @Sendable (UInt32) -> Principal
    /// Whether its process, groups and program are known.
    let isProcess: Bool
  }

  static let kinds = [
    Kind(name: "process", of: { .process(process(uid: $0)) }, isProcess: true),
    Kind(name: "unit", of: { .unit("feed.service", manager: process(uid: $0)) }, isProcess: true),
    Kind(name: "peer", of: { .peer(peer(uid: $0)) }, isProcess: false),
  ]

  @Test("A rule matches the known facts of each kind", arguments: kinds) func rules(_ kind: Kind) {
    let caller = kind.of(1000)
    let conditions: [(who: Rule.CallerCondition, matches: Bool)] = [
      (.init(), true), (.init(uid: 1000), true), (.init(uid: 0), false), (.init(uid: 1001), false),
      (.init(uid: 1000, unit: "feed.*"), true), (.init(unit: "other.*"), false),
      (.init(gid: 500), kind.isProcess), (.init(gid: 7), kind.isProcess), (.init(gid: 0), false),
      (.init(uid: 1000, userUnit: "own.service"), kind.isProcess),
      (.init(uid: 1000, executable: "/usr/bin/*"), kind.isProcess),
    ]
    for (who, matches) in conditions {
      #expect(who.matches(caller) == matches && (who.mismatch(caller) == nil) == matches, "\(who)")
      let rule = Rule(name: "r", who: who, accounts: ["work"], access: [.use])
      let policy = Policy(instance: .system, owner: 990, rules: [rule])
      #expect(policy.allows(.use, account: "work", caller: caller) == matches)
      #expect(policy.callerClass(of: caller) == (matches ? .named : .unnamed))
      #expect((PolicyInForce(policy).permission(caller, .use, TokenGet.name, "work") != nil) == matches)
    }
  }

  @Test("Only root is privileged in a system instance, and only the owner in a user instance", arguments: kinds)
  func privilege(_ kind: Kind) {
    for (instance, privileged) in [(Policy.Instance.system, 0), (.user, 990)] as [(Policy.Instance, UInt32)] {
      let policy = Policy(instance: instance, owner: 990, rules: [])
      for uid in [0, 990, 1000] as [UInt32] {
        #expect(policy.isPrivileged(kind.of(uid)) == (uid == privileged), "uid \(uid), \(instance)")
        #expect(policy.allows(.manage, account: nil, caller: kind.of(uid)) == (uid == privileged))
      }
    }
  }

  @Test("Budgets and shares are of its holder", arguments: kinds) func shares(_ kind: Kind) {
    let own = Holder.unit("feed.service", user: 1000)
    #expect(kind.of(1000).holder == own && kind.of(0).holder == .root)
    #expect(TokenRequester(kind.of(1000)).holder == own)
    #expect(kind.of(1000).uid == 1000 && kind.of(1000).user == "uid 1000" && kind.of(1000).uidText == "1000")
    #expect(kind.of(1000).pid == (kind.isProcess ? 42 : 0))
    let rates = CallerRates(uptime: { .zero })
    var limits = CallerLimits()
    limits.burst = 1
    rates.configure(limits)
    let who = AuditCaller(kind.of(1000))
    #expect(rates.acquire(who, of: kind.of(1000).holder) == nil && rates.acquire(who, of: kind.of(1000).holder) != nil)
    #expect(rates.acquire(AuditCaller(kind.of(0)), of: kind.of(0).holder) == nil, "root has a separate rate")
  }

  @Test("Records, reports and approvals name it", arguments: kinds) func identity(_ kind: Kind) throws {
    let caller = kind.of(1000)
    let known = kind.isProcess
    #expect(
      AuditCaller(caller)
        == AuditCaller(
          uid: 1000, unit: "feed.service", userUnit: known ? "own.service" : nil,
          executable: known ? "/usr/bin/feed" : nil, parent: known ? "shell" : nil))
    #expect(
      TokenRequester(caller).reporter
        == Reporter(uid: 1000, unit: "feed.service", userUnit: known ? "own.service" : nil))
    let refuser = AuditSubject(caller.holder, isNamed: true)
    #expect(refuser.who == AuditCaller(uid: 1000) && refuser.standing == .named)
    var releases = PendingReleases()
    let hasBegun = releases.begin(
      "a", .init(account: "work", method: TokenGet.name), of: caller, rule: "r", from: .zero, until: .seconds(9))
    let view = try #require(hasBegun ? releases["a"]?.view { $0.components.seconds }.caller : nil)
    #expect(view.uid == 1000 && view.unit == "feed.service" && view.pid == (known ? 42 : 0))
    #expect(view.exe == (known ? "/usr/bin/feed" : nil) && view.parent == (known ? "shell" : nil))
    let lines = Rule.lines(for: caller, account: "work", access: [.use])
    #expect(lines.contains("uid = 1000") && lines.contains("unit = \"feed.service\""))
  }
}
