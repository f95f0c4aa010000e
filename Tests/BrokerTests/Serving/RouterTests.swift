import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Synchronization
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct RouterTests {
  private func rig(_ rules: [Rule] = []) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work")
    try await store.signIn("home")
    return try await Rig(store: store, configuration: .plain(rules: rules))
  }

  private func rule(_ uid: UInt32, _ accounts: [String], _ access: Set<Access>) -> Rule {
    Rule(name: "r", uid: uid, gid: nil, accounts: accounts, access: access)
  }

  private func error(
    _ rig: Rig, _ method: String, _ params: JSON?, as caller: Caller = .root
  ) async -> RPCError? {
    let request = RPCRequest(method: method, params: params, isNotification: false)
    guard case .failure(let error) = await rig.router.respond(to: request, session: FakeSession(caller)) else {
      return nil
    }
    return error
  }

  @Test(arguments: [
    ("token.gett", "Did you mean `token.get`?"), ("tokn.get", "Did you mean `token.get`?"),
    ("zzzzzzzzzzzzzzzzzzzz", "`grantctl call rpc.discover` lists the methods."),
    ("", "`grantctl call rpc.discover` lists the methods."),
  ]) func anUnknownMethodIsNamedWithTheOneThatWasMeant(_ method: String, _ hint: String) async throws {
    let error = try #require(await error(try await rig(), method, nil))
    #expect(error.code == -32601 && error.hint == hint)
  }

  @Test func everyMethodOfTheReferenceHasItsRoad() async throws {
    let rig = try await rig()
    for method in Methods.all {
      let error = await error(rig, method.name, ["no_such_member": 1])
      #expect(error?.code == -32602, "\(method.name)")
      // Else it would take no approval, and no second look at the policy.
      #expect((method is any ReleaseHandler.Type) == (method is any TokenRelease.Type), "\(method.name)")
    }
  }

  @Test("The longest document and a refusal are answered on the thread that read the request, without the actor")
  func immediateAnswers() async throws {
    let rig = try await rig()
    for (method, caller) in [("rpc.discover", Caller.user(5)), ("token.get", .user(5)), ("nothing", .user(5))] {
      let answered = Mutex(false)
      let request = RPCRequest(method: method, params: ["account": "work"], isNotification: false)
      let plain = RPCRequest(method: method, params: nil, isNotification: false)
      let task = Task.immediate {
        _ = await rig.router.respond(to: method == "token.get" ? request : plain, session: FakeSession(caller))
        answered.withLock { $0 = true }
      }
      #expect(answered.withLock { $0 }, "\(method)")
      await task.value
    }
  }

  static let badParams: [(String, JSON?, String)] = [
    ("token.get", nil, "account"), ("token.get", ["account": 1], "account"),
    ("token.get", ["account": "work", "min_ttll": 1], "min_ttl"), ("token.get", ["work"], "array"),
    ("token.get", ["account": "a b"], "account"), ("token.get", ["account": ""], "account"),
    ("token.get", ["account": "work", "min_ttl": -1], "min_ttl"),
    ("token.get", ["account": "work", "timeout": -1], "timeout"),
    ("token.report_rejected", ["account": "work"], "generation"),
    ("login.start", ["provider": "example", "destinations": ["phone"]], "destinations"),
    ("login.start", ["provider": "a b"], "provider"), ("events.subscribe", ["events": ["nothing"]], "events"),
    ("broker.status", ["account": "work"], "account"),
  ]

  @Test(arguments: badParams.indices) func aBadParameterIsNamed(_ index: Int) async throws {
    let (method, params, name) = Self.badParams[index]
    let error = try #require(await error(try await rig(), method, params))
    #expect(error.code == -32602 && error.message.contains(name), "\(method): \(error.message)")
  }

  @Test(arguments: ["token.get", "account.get", "account.logout", "token.report_rejected"])
  func whoIsNotPermittedDoesNotLearnWhichAccountsExist(_ method: String) async throws {
    let everything = Set(Access.allCases)
    for rules in [[], [rule(1000, ["home"], everything)]] {
      let rig = try await rig(rules)
      func told(_ account: String) async -> RPCError? {
        var params: JSON = ["account": .string(account)]
        if method == "token.report_rejected" { params = ["account": .string(account), "generation": 1] }
        return await error(rig, method, params, as: .user(1000))
      }
      let existing = try #require(await told("work"))
      let unknown = try #require(await told("nope"))
      #expect(existing.reason == .notPermitted && unknown.reason == .notPermitted)
      #expect(existing.message.replacing("work", with: "nope") == unknown.message)
      #expect(existing.hint?.replacing("work", with: "nope") == unknown.hint)
      #expect(existing.code == unknown.code && existing.detail == unknown.detail)
    }
  }

  @Test func whoMayNotCallAMethodLearnsNothingOfItsParameters() async throws {
    let rig = try await rig()
    for method in Methods.all where method.access != .open {
      let error = await error(rig, method.name, ["no_such_member": 1], as: .user(1000))
      #expect(error?.reason == .notPermitted, "\(method.name)")
    }
  }

  @Test("A refusal has the rule that is missing, whole, for the account that was named and for none other")
  func hints() async throws {
    let caller = Caller(uid: 1000, gid: 1000, groups: [], pid: 100, unit: "mail.service")
    for (method, params, lines) in [
      ("token.get", ["account": "work"], "accounts = [\"work\"]\naccess = [\"use\"]"),
      ("account.logout", ["account": "nope"], "accounts = [\"nope\"]\naccess = [\"manage\"]"),
      ("token.get", ["account": "a b"], "accounts = [\"ACCOUNT\"]\naccess = [\"use\"]"),
      ("token.get", ["acount": "work"], "accounts = [\"*\"]\naccess = [\"use\"]"),
      ("broker.reload", [:], "accounts = [\"*\"]\naccess = [\"manage\"]"),
      ("account.list", [:], "accounts = [\"*\"]\naccess = [\"observe\"]"),
    ] as [(String, JSON, String)] {
      // The same for a caller with a rule that is not sufficient.
      for rules in [[], [rule(1000, ["home"], [.login])], [rule(1000, ["home"], [.use])]] {
        let error = await error(try await rig(rules), method, params, as: caller)
        // Once it may call the method for some account, a mistake in the parameters is said first.
        if error?.code == -32602 { continue }
        let hint = try #require(error?.hint)
        #expect(hint.hasSuffix(":\n[[rule]]\nuid = 1000\nunit = \"mail.service\"\n" + lines), "\(method): \(hint)")
      }
    }
  }

  @Test func aListHoldsWhatTheCallerMaySee() async throws {
    let rig = try await rig([rule(1000, ["w*"], [.observe]), rule(1001, ["*"], [.use])])
    func names(_ caller: Caller) async throws -> [String] {
      try await rig.call(AccountList.self, .init(), as: caller).accounts.map(\.account)
    }
    #expect(try await names(.root) == ["home", "work"])
    #expect(try await names(.user(1000)) == ["work"])
    #expect(await rig.reason { try await names(.user(1001)) } == .notPermitted)
  }

  @Test func aRuleForOneAccountDoesNotChangeTheBrokerForAll() async throws {
    let rig = try await rig([rule(1000, ["work"], [.manage])])
    #expect(await error(rig, "broker.reload", nil, as: .user(1000))?.reason == .notPermitted)
    #expect(await error(rig, "account.logout", ["account": "home"], as: .user(1000))?.reason == .notPermitted)
    #expect(await error(rig, "account.logout", ["account": "work"], as: .user(1000)) == nil)
  }

  @Test func aLoginNeedsARuleForTheAccountThatItMakes() async throws {
    let rig = try await rig([rule(1000, ["alice-*"], [.login])])
    for (params, isAllowed) in [
      (["provider": "example", "account": "alice-1"], true), (["provider": "example", "account": "work"], false),
      (["provider": "example"], false),
    ] as [(JSON, Bool)] {
      let error = await error(rig, "login.start", params, as: .user(1000))
      #expect(error?.reason == (isAllowed ? nil : .notPermitted))
    }
  }
}
