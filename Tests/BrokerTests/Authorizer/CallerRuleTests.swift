import BrokerAPI
import Foundation
import Grants
import Principals
import Testing

@testable import Broker

/// The visibility of others' accounts, and callers with few known properties.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct CallerRuleTests {
  private func rig(_ rules: [Rule]) async throws -> Rig {
    let store = MemoryStore()
    for name in ["work", "home", "bank"] { try await store.signIn(name) }
    return try await Rig(store: store, configuration: .plain(rules: rules))
  }

  private static func caller(
    _ unit: String? = nil, user: String? = nil, exe: String? = nil, pid: Int32 = 100
  ) -> Caller {
    Caller(uid: 1000, gid: 1000, groups: [], pid: pid, unit: unit, userUnit: user, executable: exe)
  }

  @Test(
    "An unknown fact denies only the rules that need it",
    arguments: [
      (Rule.CallerCondition(uid: 1000), true), (Rule.CallerCondition(gid: 1000), true), (Rule.CallerCondition(), true),
      (Rule.CallerCondition(uid: 1000, unit: "a.service"), false), (Rule.CallerCondition(unit: "*"), false),
      (Rule.CallerCondition(uid: 1000, userUnit: "*"), false),
      (Rule.CallerCondition(uid: 1000, executable: "*"), false),
    ] as [(Rule.CallerCondition, Bool)])
  func unknown(_ who: Rule.CallerCondition, _ isAllowed: Bool) {
    let policy = Policy(
      instance: .system, owner: 990, rules: [Rule(name: "r", who: who, accounts: ["work"], access: [.use])])
    let decision = policy.decide(.use, method: TokenGet.name, account: "work", caller: .process(Self.caller()))
    #expect(decision.isAllowed == isAllowed)
    let known = Self.caller("a.service", user: "b.service", exe: "/usr/bin/c")
    #expect(policy.decide(.use, method: TokenGet.name, account: "work", caller: .process(known)).isAllowed)
  }

  @Test(
    "Any rule for a caller gives it a share, regardless of its content",
    arguments: [
      (Rule.CallerCondition(uid: 1000), .named), (Rule.CallerCondition(unit: "a.*"), .named),
      (Rule.CallerCondition(uid: 1001), .unnamed),
      (Rule.CallerCondition(unit: "b.*"), .unnamed), (Rule.CallerCondition(), .named),
    ] as [(Rule.CallerCondition, CallerClass)])
  func callerClass(_ who: Rule.CallerCondition, _ expected: CallerClass) {
    var policy = Policy(instance: .system, owner: 990, rules: [Rule(name: "r", who: who, accounts: [], access: [])])
    #expect(policy.callerClass(of: .process(Self.caller("a.service"))) == expected)
    #expect(policy.callerClass(of: .process(.root)) == .privileged)
    policy.rules = []
    #expect(policy.callerClass(of: .process(Self.caller("a.service"))) == .unnamed)
  }

  @Test("A loopback peer may what rules give its user and its unit, and nothing by its program")
  func peers() async throws {
    let rig = try await rig([
      Rule(name: "uid", who: .init(uid: 1000), accounts: ["work"], access: [.use]),
      Rule(name: "unit", who: .init(uid: 1001, unit: "fetch.service"), accounts: ["home"], access: [.use]),
      Rule(name: "program", who: .init(uid: 1002, executable: "*"), accounts: ["bank"], access: [.use]),
    ])
    func may(_ account: String, _ uid: UInt32, unit: String? = nil) async throws -> Bool {
      let peer = Principal.peer(Caller(uid: uid, gid: .max, groups: [], pid: 0, unit: unit))
      let cached = { rig.router.cachedTokens(for: peer).reply(account: account, minTTL: nil) != nil }
      let isCachedAtFirst = cached()
      let reason = await rig.reason {
        try await rig.call(TokenGet.self, .init(account: account), on: FakeSession(peer))
      }
      #expect(reason == nil || reason == .notPermitted)
      #expect(cached() == (reason == nil) && (reason == nil || !isCachedAtFirst))
      return reason == nil
    }
    #expect(try await may("work", 1000))
    #expect(try await !may("home", 1000))
    #expect(try await may("home", 1001, unit: "fetch.service"))
    #expect(try await !may("home", 1001))
    #expect(try await !may("bank", 1002))
  }

  @Test("Lists and events show each caller its own accounts, even if a rule names single methods")
  func lists() async throws {
    let methods: Set = [
      AccountList.name, EventsSubscribe.name, BrokerStatus.name, AccountLogout.name,
    ]
    let rig = try await rig([
      Rule(name: "see", uid: 1000, gid: nil, accounts: ["work"], access: [.observe]),
      Rule(name: "methods", who: .init(uid: 1001), accounts: ["home"], access: [], methods: methods),
      Rule(name: "use", uid: 1002, gid: nil, accounts: ["*"], access: [.use]),
    ])
    func names(_ uid: UInt32) async throws -> [String] {
      try await rig.call(AccountList.self, .init(), as: .user(uid)).accounts.map(\.account)
    }
    #expect(try await names(1000) == ["work"])
    #expect(try await names(1001) == ["home"])
    #expect(await rig.reason { try await names(1002) } == .notPermitted)
    #expect(try await rig.call(AccountList.self, .init(), as: .root).accounts.count == 3)
    let sessions = [1000, 1001].map { FakeSession(.user($0)) }
    for session in sessions { _ = try await rig.call(EventsSubscribe.self, .init(), on: session) }
    for name in ["work", "bank"] {
      _ = try await rig.call(AccountLogout.self, .init(account: name, revoke: false))
    }
    _ = try await rig.call(AccountLogout.self, .init(account: "home", revoke: false), as: .user(1001))
    #expect(sessions.map { $0.told.compactMap { $0["account"]?.string } } == [["work"], ["home"]])
  }

  @Test("A login is visible to, and cancelled by, only programs of its user that may sign in to that account")
  func logins() async throws {
    let mail = Rule(
      name: "mail", who: .init(uid: 1000, unit: "mail.service"), accounts: ["work"], access: [.login, .observe])
    let feed = Rule(
      name: "feed", who: .init(uid: 1000, unit: "feed.service"), accounts: ["news"], access: [.login, .observe])
    let lister = Rule(
      name: "list", who: .init(uid: 1000, unit: "list.service"), accounts: ["news"], access: [],
      methods: [LoginList.name])
    let rig = try await rig([mail, feed, lister])
    func seen(_ caller: Caller) async throws -> [String] {
      try await rig.call(LoginList.self, .init(), as: caller).logins.map(\.account).sorted()
    }
    let (mailer, feeder) = (Self.caller("mail.service"), Self.caller("feed.service"))
    let started = try await rig.call(LoginStart.self, .init(provider: "example", account: "work"), as: mailer)
    _ = try await rig.call(LoginStart.self, .init(provider: "example", account: "news"), as: feeder)
    #expect(try await seen(mailer) == ["work"])
    #expect(try await seen(feeder) == ["news"])
    #expect(try await seen(Self.caller("list.service")) == ["news"])
    #expect(try await seen(.root) == ["news", "work"])
    let cancel = LoginCancel.Params(login_id: started.login_id)
    #expect(await rig.reason { try await rig.call(LoginCancel.self, cancel, as: feeder) } == .unknownLogin)
    let wait = LoginWait.Params(login_id: started.login_id, timeout: 0)
    #expect(await rig.reason { try await rig.call(LoginWait.self, wait, as: feeder) } == .unknownLogin)
    #expect(try await rig.call(LoginWait.self, wait, as: mailer).state == .pending)
    #expect(try await rig.call(LoginCancel.self, cancel, as: mailer).cancelled)
  }

  @Test("A rule for a group excludes subordinate user ids with that group, unless it includes them")
  func subordinates() {
    var who = Rule.CallerCondition(gid: 500)
    var process = Caller(uid: 100_007, gid: 1, groups: [500], pid: 1)
    var caller: Principal { .process(process) }
    #expect(who.matches(caller) && who.mismatch(caller) == nil)
    process.isSubordinate = true
    #expect(!who.matches(caller))
    #expect(who.mismatch(caller)?.contains("subordinates = true") == true)
    who.subordinates = true
    #expect(who.matches(caller) && who.mismatch(caller) == nil)
    #expect(Rule.CallerCondition(uid: 100_007).matches(caller))
  }

  @Test("Each condition of a rule holds, also beside one that the caller meets")
  func conditions() {
    let caller = Principal.process(Self.caller("a.service", user: "b.service", exe: "/usr/bin/c"))
    let met = Rule.CallerCondition(uid: 1000, gid: 1000, unit: "a.*", userUnit: "b.*", executable: "/usr/bin/*")
    #expect(met.matches(caller))
    let changes: [(inout Rule.CallerCondition) -> Void] = [
      { $0.uid = 1001 }, { $0.gid = 1001 }, { $0.unit = "b.*" }, { $0.userUnit = "a.*" }, { $0.executable = "/opt/*" },
    ]
    for change in changes {
      var who = met
      change(&who)
      #expect(!who.matches(caller), "\(who)")
    }
  }

  @Test("A list of methods gives no ID token, and `manage` of some accounts is not that of the broker")
  func narrow() {
    func allows(_ rule: Rule, _ access: Access, _ method: String, _ account: String?) -> Bool {
      Policy(instance: .system, owner: 990, rules: [rule])
        .allows(access, method: method, account: account, caller: .process(Self.caller()))
    }
    let methods = Rule(name: "m", who: .init(uid: 1000), accounts: ["work"], access: [], methods: [TokenGet.name])
    #expect(allows(methods, .use, TokenGet.name, "work") && !allows(methods, .idToken, TokenGet.name, "work"))
    var manager = Rule(name: "r", who: .init(uid: 1000), accounts: ["w*"], access: [.manage])
    #expect(allows(manager, .manage, AccountLogout.name, "work") && !allows(manager, .manage, BrokerReload.name, nil))
    manager.accounts = ["*"]
    #expect(allows(manager, .manage, BrokerReload.name, nil))
  }
}
