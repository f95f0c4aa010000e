import BrokerAPI
import Grants
import Testing

@testable import Broker

/// A change of the configuration, and its records.
private struct Changed<Outcome: Sendable>: Sendable {
  let outcome: Outcome
  let change: AuditPolicyTests.Change

  init(_ outcome: Outcome, _ change: @escaping AuditPolicyTests.Change) {
    self.outcome = outcome
    self.change = change
  }
}

/// What the audit trail has of the policy.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct AuditPolicyTests {
  typealias Change = @Sendable (inout BrokerConfiguration) -> Void

  private static let offer = UnitCredentials.Offer(id: "mail", account: account("work"), units: ["mail.service"])

  private static func configuration(_ change: Change = { _ in }) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.plain(rules: [
      Rule(
        name: "a", who: .init(uid: 1000), accounts: ["home", "work"], access: [.use, .observe], scopes: ["x", "y"]),
      Rule(
        name: "b", who: .init(unit: "b.service"), accounts: ["*"], access: [], methods: ["token.get", "audit.list"]),
    ])
    change(&configuration)
    return configuration
  }

  private func records(_ rig: Rig) async -> [AuditRecord] {
    await rig.broker.trail.flush()
    return rig.audit.records
  }

  private func started(_ change: Change = { _ in }) async throws -> String {
    let rig = try await Rig(configuration: Self.configuration(change))
    let records = await records(rig)
    #expect(records.count == 1)
    let start = try #require(records.first)
    #expect(start.entry.action == .policy && start.entry.method == "broker.start" && start.entry.who.uid == nil)
    return try #require(start.entry.detail)
  }

  @Test("A start logs the number of rules and a digest that is equal if nothing changed")
  func start() async throws {
    let detail = try await started()
    #expect(detail.wholeMatch(of: /2 rules, policy [0-9a-f]{16}/) != nil, "\(detail)")
    #expect(try await started() == detail)
  }

  @Test(
    "The digest changes if and only if the active policy changes",
    arguments: [
      Changed(false, { $0.policy.rules[0].name = "/etc/grantd/grantd.toml:12" }),
      Changed(false, { $0.policy.rules[0].accounts = ["work", "home"] }),
      Changed(false, { $0.refresh.minimumTTL = .seconds(99) }),
      Changed(true, { $0.policy.rules[0].accounts = ["home", "work", "x"] }),
      Changed(true, { $0.policy.rules[0].accounts = ["home,work"] }),
      Changed(true, { $0.policy.rules[0].access = [.use] }),
      Changed(true, { $0.policy.rules[0].methods = ["token.get"] }),
      Changed(true, { $0.policy.rules[0].scopes = ["x"] }), Changed(true, { $0.policy.rules[0].scopes = nil }),
      Changed(true, { $0.policy.rules[0].confirm = .seconds(60) }),
      Changed(true, { $0.policy.rules[0].who.uid = 1001 }),
      Changed(true, { $0.policy.rules[0].who = .init(gid: 1000) }),
      Changed(true, { $0.policy.rules[1].who.unit = "*" }),
      Changed(true, { $0.policy.rules[1].who = .init(userUnit: "b.service") }),
      Changed(true, { $0.policy.rules[1].who = .init(executable: "b.service") }),
      Changed(true, { $0.policy.rules.removeLast() }),
      Changed(true, { $0.policy.owner = 0 }), Changed(true, { $0.credentials.byAccount = false }),
      Changed(true, { $0.credentials.offers = [AuditPolicyTests.offer] }),
      Changed(true, { $0.callerLimits.burst += 1 }),
      Changed(true, { $0.callerLimits.rate += 1 }), Changed(true, { $0.callerLimits.refusalCost += 1 }),
      Changed(true, { $0.audit.keep = .seconds(1) }), Changed(true, { $0.audit.most = 1 }),
    ])
  fileprivate func digests(_ changed: Changed<Bool>) async throws {
    let digest = Self.configuration(changed.change).policyDigest
    #expect((digest != Self.configuration().policyDigest) == changed.outcome)
  }

  @Test("The digest changes with each property of a rule, and with none that is forgotten here")
  func properties() {
    let changes: [String: (inout Rule) -> Void] = [
      "who": { $0.who.uid = 1 }, "accounts": { $0.accounts = ["x"] }, "access": { $0.access = [.manage] },
      "methods": { $0.methods = ["token.get"] }, "scopes": { $0.scopes = ["z"] },
      "resources": { $0.resources = ["https://r"] }, "confirm": { $0.confirm = .milliseconds(1500) },
      "requests": { $0.requests = [] }, "mcp": { $0.mcp = [] },
    ]
    Self.expectEach(changes, differs: { $0.policy.rules[0] }, except: ["name", "source"]) { $0.policy.rules[0] = $1 }
  }

  @Test("The digest changes with each condition on the caller")
  func conditions() {
    let changes: [String: (inout Rule.CallerCondition) -> Void] = [
      "uid": { $0.uid = 1 }, "gid": { $0.gid = 1 }, "subordinates": { $0.subordinates = true },
      "unit": { $0.unit = "u" }, "userUnit": { $0.userUnit = "u" }, "executable": { $0.executable = "/bin/u" },
    ]
    Self.expectEach(changes, differs: { $0.policy.rules[0].who }) { $0.policy.rules[0].who = $1 }
  }

  @Test("The digest changes with each property of a unit's credential")
  func credentials() {
    let changes: [String: (inout UnitCredentials.Offer) -> Void] = [
      "id": { $0.id = "x" }, "account": { $0.account = account("home") }, "kind": { $0.kind = .idToken },
      "units": { $0.units = nil }, "scopes": { $0.scopes = ["x"] }, "resource": { $0.resource = "https://r" },
      "audience": { $0.audience = "api" }, "minimumTTL": { $0.minimumTTL = .milliseconds(1500) },
    ]
    Self.expectEach(changes, differs: { _ in Self.offer }) { $0.credentials.offers = [$1] }
  }

  /// Each change of a value gives another digest, and each stored property of the value has a change.
  private static func expectEach<Value>(
    _ changes: [String: (inout Value) -> Void], differs value: (BrokerConfiguration) -> Value,
    except unused: Set<String> = [], _ set: (inout BrokerConfiguration, Value) -> Void
  ) {
    let plain = configuration()
    let properties = Mirror(reflecting: value(plain)).children.compactMap(\.label)
    #expect(Set(changes.keys) == Set(properties).subtracting(unused))
    var seen: [String: String] = [digest(plain, value(plain), set): "no change"]
    for (name, change) in changes {
      var changed = value(plain)
      change(&changed)
      let earlier = seen.updateValue(name, forKey: digest(plain, changed, set))
      #expect(earlier == nil, "\(name) has the digest of \(earlier ?? "")")
    }
  }

  private static func digest<Value>(
    _ plain: BrokerConfiguration, _ value: Value, _ set: (inout BrokerConfiguration, Value) -> Void
  ) -> String {
    var configuration = plain
    set(&configuration, value)
    return configuration.policyDigest
  }

  @Test(
    "A reload says which parts changed, and the digest that a start would say",
    arguments: [
      Changed("the policy is unchanged", { _ in }),
      Changed("the policy is unchanged", { $0.policy.rules[1].name = "c" }),
      Changed("changed: rules (-a)", { $0.policy.rules.removeFirst() }),
      Changed("changed: rules (+a -a)", { $0.policy.rules[0].scopes = nil }),
      Changed("changed: rules (+a -a)", { $0.policy.rules[0].resources = ["https://api.example.com"] }),
      Changed("changed: the rules' order", { $0.policy.rules.reverse() }),
      Changed("changed: credentials", { $0.credentials.offers = [AuditPolicyTests.offer] }),
      Changed("changed: credentials", { $0.credentials.byAccount = false }),
      Changed("changed: limits", { $0.callerLimits.rate = 1 }), Changed("changed: audit", { $0.audit.most = 1 }),
      Changed(
        "changed: rules (-b), credentials, limits, audit",
        {
          $0.policy.rules.removeLast()
          $0.credentials.byAccount = false
          $0.callerLimits.rate = 1
          $0.audit.most = 1
        }
      ),
    ])
  fileprivate func reloads(_ changed: Changed<String>) async throws {
    let rig = try await Rig(configuration: Self.configuration())
    rig.reading.value = .success(Self.configuration(changed.change))
    _ = try await rig.call(BrokerReload.self, NoParams())
    let reload = try #require(await records(rig).last)
    #expect(reload.entry.method == BrokerReload.name && reload.entry.who.uid == 0 && reload.entry.result == "ok")
    let start = try await started(changed.change)
    #expect(reload.entry.detail == "\(changed.outcome); \(start)")
  }

  @Test("That the trail is turned off is its last record, and that it is turned on its first")
  func switched() async throws {
    let rig = try await Rig(configuration: Self.configuration())
    let off: Change = { $0.audit.isEnabled = false }
    for change in [off, off, { _ in }] as [Change] {
      rig.reading.value = .success(Self.configuration(change))
      _ = try await rig.call(BrokerReload.self, NoParams())
      _ = await rig.reason { try await rig.call(AccountList.self, .init(), as: .user(7)) }
    }
    let records = await records(rig)
    #expect(
      records.map(\.entry.method) == [
        "broker.start", BrokerReload.name, BrokerReload.name, AccountList.name,
      ])
    #expect(records[1].entry.detail?.hasPrefix("changed: audit (turned off); 2 rules") == true)
    #expect(records[2].entry.detail?.hasPrefix("changed: audit (turned on); 2 rules") == true)
  }

  @Test("A start with the trail turned off records nothing")
  func startedOff() async throws {
    let rig = try await Rig(configuration: Self.configuration { $0.audit.isEnabled = false })
    #expect(await records(rig).isEmpty)
  }
}
