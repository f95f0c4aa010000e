import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// Callers who may have a part of an account's scopes.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ScopeCapTests {
  private static let reader = Rule(
    name: "reader", who: .init(uid: 1000), accounts: ["work"], access: [.use], scopes: ["read"])
  private static let all = Rule(name: "all", uid: 1001, gid: nil, accounts: ["work"], access: [.use, .login])

  private func rig(_ rules: [Rule] = [reader, all], narrows: Bool = true) async throws -> Rig {
    let settings = ProviderSettings.plain {
      $0.access.scopes = ["read", "write"]
      $0.refresh.narrowing = narrows ? .verified : .never
    }
    let rig = try await Rig(configuration: .plain([NamingProvider(settings)], rules: rules))
    rig.transport.answer(.token) { request in
      let scope = request.form["scope"]?.replacing("+", with: " ") ?? "read write"
      let name = scope == "read write" ? "whole" : scope
      return reply(
        #"{"access_token":"\#(name)","token_type":"Bearer","expires_in":3600,"refresh_token":"r","scope":"\#(scope)"}"#)
    }
    _ = await rig.callBack(try await rig.start())
    return rig
  }

  private func token(_ rig: Rig, _ scopes: [String]? = nil, uid: UInt32 = 1000) async throws -> TokenGet.Result {
    try await rig.call(TokenGet.self, .init(account: "work", scopes: scopes), as: .user(uid))
  }

  @Test("A capped caller gets a narrowed token, even if it requests no scopes; others get the full token")
  func narrowed() async throws {
    let rig = try await rig()
    #expect(try await token(rig).access_token == "read")
    #expect(try await token(rig, ["read"]).scope == ["read"])
    #expect(try await token(rig, uid: 1001).access_token == "whole")
    #expect(rig.cached("work", as: .user(1000)) == nil && rig.cached("work", as: .user(1001)) != nil)
  }

  @Test("Beyond the cap there is nothing, and the error says what there is")
  func beyond() async throws {
    let rig = try await rig()
    for scopes in [["write"], ["read", "write"], ["admin"]] {
      let error = await #expect(throws: RPCError.self) { _ = try await token(rig, scopes) }
      #expect(error?.reason == .notPermitted && error?.hint?.contains("It allows: read. `grantctl token work`") == true)
    }
    let none = Rule(name: "none", who: .init(uid: 1000), accounts: ["work"], access: [.use], scopes: ["other"])
    let other = try await self.rig([none])
    let error = await #expect(throws: RPCError.self) { _ = try await token(other) }
    #expect(error?.reason == .notPermitted)
    #expect(
      error?.hint?.contains("`grantctl login example work --scope read --scope write --scope other`") == true,
      "\(String(describing: error?.hint))")
  }

  @Test("without narrowed tokens a capped caller gets none")
  func whole() async throws {
    let rig = try await rig(narrows: false)
    let error = await #expect(throws: RPCError.self) { _ = try await token(rig) }
    #expect(error?.reason == .scopeNotGranted)
    #expect(error?.hint?.contains("`grantctl login example work-limited --scope read`") == true)
    #expect(try await token(rig, uid: 1001).access_token == "whole")
  }

  @Test("Methods that use the whole token are not for capped callers")
  func others() async throws {
    let rig = try await rig()
    let send = RequestSend.Params(account: "work", method: "GET", url: "/")
    #expect(await rig.reason { try await rig.call(RequestSend.self, send, as: .user(1000)) } == .notPermitted)
    #expect(await rig.reason { try await rig.call(RequestSend.self, send, as: .user(1001)) } == .unsupportedByProvider)
    let exchange = TokenExchange.Params(account: "work")
    #expect(await rig.reason { try await rig.call(TokenExchange.self, exchange, as: .user(1000)) } == .notPermitted)
  }

  @Test("No method uses the full token for a capped caller, regardless of its access")
  func everyOther() async throws {
    let access: Set<Access> = [.use, .observe, .manage]
    let part = Rule(name: "part", who: .init(uid: 1000), accounts: ["work"], access: access, scopes: ["read"])
    let whole = Rule(name: "whole", uid: 1001, gid: nil, accounts: ["work"], access: access)
    let rig = try await rig([part, whole])
    let calls: [String: @Sendable (Caller) async throws -> Void] = [
      AccountUserinfo.name: { _ = try await rig.call(AccountUserinfo.self, .init(account: "work"), as: $0) },
      TokenIntrospect.name: { _ = try await rig.call(TokenIntrospect.self, .init(account: "work"), as: $0) },
      AccountSessions.name: { _ = try await rig.call(AccountSessions.self, .init(account: "work"), as: $0) },
      AccountEndSession.name: {
        _ = try await rig.call(AccountEndSession.self, .init(account: "work", session_id: "s"), as: $0)
      },
      TokenExchange.name: { _ = try await rig.call(TokenExchange.self, .init(account: "work"), as: $0) },
      RequestSend.name: {
        _ = try await rig.call(RequestSend.self, .init(account: "work", method: "GET", url: "/"), as: $0)
      },
      DPoPProof.name: {
        let params = DPoPProof.Params(account: "work", method: "GET", url: "https://api.example/")
        _ = try await rig.call(DPoPProof.self, params, as: $0)
      },
    ]
    let releases = Methods.all.filter { $0 is any TokenRelease.Type }.map { $0.name }
    #expect(Set(calls.keys).union([TokenGet.name]) == Set(releases))
    for (method, call) in calls {
      #expect(await rig.reason { try await call(.user(1000)) } == .notPermitted, "\(method)")
      let reason = await rig.reason { try await call(.user(1001)) }
      #expect(reason != .notPermitted && reason != nil, "\(method)")
    }
  }

  @Test("An ID token takes the scope openid")
  func identity() async throws {
    var part = Self.reader
    part.access = [.idToken]
    var whole = part
    (whole.who.uid, whole.scopes) = (1001, ["read", "openid"])
    let store = MemoryStore()
    try await store.signIn("work", scopes: ["openid", "read"])
    var grant = try #require(store.grant("work"))
    grant.idToken = Secret(unsignedToken(#""sid":"s1""#))
    try await store.commit([.putGrant(grant)])
    let rig = try await Rig(store: store, configuration: .plain(rules: [part, whole]))
    let params = TokenGet.Params(account: "work", kind: .idToken)
    #expect(await rig.reason { try await rig.call(TokenGet.self, params, as: .user(1000)) } == .notPermitted)
    #expect(await rig.reason { try await rig.call(TokenGet.self, params, as: .user(1001)) } == nil)
  }

  @Test("The actor of an exchange is used whole as well")
  func actor() async throws {
    let store = MemoryStore()
    for name in ["work", "home"] { try await store.signIn(name) }
    let home = Rule(name: "home", uid: 1000, gid: nil, accounts: ["home"], access: [.use])
    let rig = try await Rig(store: store, configuration: .plain(rules: [Self.reader, home]))
    let exchange = TokenExchange.Params(account: "home", actor: "work")
    let error = await #expect(throws: RPCError.self) {
      try await rig.call(TokenExchange.self, exchange, as: .user(1000))
    }
    #expect(error?.reason == .notPermitted && error?.message.contains("whole token") == true)
  }

  @Test("A proof is for a token that the caller may have, and no other")
  func proofs() async throws {
    let store = MemoryStore()
    try await store.signIn("work", scopes: ["read", "write"])
    var grant = try #require(store.grant("work"))
    grant.dpopKey = DPoPKey(randomBytes: [UInt8](repeating: 7, count: 32)).raw
    let own = try #require(store.token("work"))
    var narrowed = own
    (narrowed.key, narrowed.accessToken, narrowed.scopes) = (
      .init(scopes: ["read"], resource: nil), Secret("part"), ["read"]
    )
    try await store.commit([.putGrant(grant), .putToken(narrowed)])
    let rig = try await Rig(store: store, configuration: .plain(rules: [Self.reader, Self.all]))
    func reason(_ token: String?, _ uid: UInt32) async -> ErrorReason? {
      let params = DPoPProof.Params(
        account: "work", method: "GET", url: "https://api.example/", access_token: token.map { .init($0) })
      return await rig.reason { try await rig.call(DPoPProof.self, params, as: .user(uid)) }
    }
    #expect(await reason("part", 1000) == nil)
    for token in [nil, "work-a1", "another"] { #expect(await reason(token, 1000) == .notPermitted) }
    for token in [nil, "work-a1", "part", "another"] { #expect(await reason(token, 1001) == nil) }
  }

  @Test("A proof for a named token is given by the cap of now")
  func proofAfterReload() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    var grant = try #require(store.grant("work"))
    grant.dpopKey = DPoPKey(randomBytes: [UInt8](repeating: 7, count: 32)).raw
    var own = try #require(store.token("work"))
    own.scopes = ["read", "write"]
    try await store.commit([.putGrant(grant), .putToken(own)])
    let free = Rule(name: "free", uid: 1000, gid: nil, accounts: ["*"], access: [.use])
    let rig = try await Rig(store: store, configuration: .plain(rules: [free]))
    let permission = try rig.broker.door.authorizer.authorize(
      .process(.user(1000)), .use, DPoPProof.name, account: "work")
    let params = DPoPProof.Params(
      account: "work", method: "GET", url: "https://api.example/", access_token: .init("work-a1"))
    #expect(await rig.reason { try await rig.broker.tokens.calls.proof(account("work"), params, permission) } == nil)
    rig.reading.value = .success(.plain(rules: [Self.reader]))
    _ = try await rig.call(BrokerReload.self, NoParams())
    #expect(
      await rig.reason { try await rig.broker.tokens.calls.proof(account("work"), params, permission) } == .notPermitted
    )
  }

  @Test("A cap without approval and a rule with approval: the part is released at once, the rest after approval")
  func partWithoutWord() async throws {
    let asking = Rule(
      name: "ask", who: .init(uid: 1000), accounts: ["work"], access: [.use], confirm: .seconds(60))
    for narrows in [true, false] {
      let rig = try await rig([Self.reader, asking], narrows: narrows)
      #expect(rig.cached("work", as: .user(1000)) == nil)
      if narrows { #expect(await rig.reason { try await token(rig, ["read"]) } == nil) }
      // If the part is not available, the whole token would replace it without a notice.
      let wishes: [[String]?] = narrows ? [nil] : [nil, ["read"]]
      for scopes in wishes {
        let whole = Task { try await token(rig, scopes) }
        #expect(try await eventually { try await rig.call(ReleaseList.self, .init()).waiting.count == 1 })
        let release = try #require(try await rig.call(ReleaseList.self, .init()).waiting.first)
        #expect(release.scopes == (scopes == nil ? nil : ["read", "write"]))
        #expect(try await rig.call(ReleaseApprove.self, .init(id: release.id)).approved)
        #expect(try await whole.value.access_token == "whole")
      }
    }
  }

  @Test("A rule without a cap wins over one with, and two caps add up")
  func several() async throws {
    let writer = Rule(name: "w", who: .init(uid: 1000), accounts: ["*"], access: [.use], scopes: ["write"])
    let rig = try await rig([Self.reader, writer])
    #expect(try await token(rig, ["write"]).access_token == "write")
    #expect(try await token(rig).access_token == "whole")
    let free = Rule(name: "free", uid: 1000, gid: nil, accounts: ["w*"], access: [.use])
    let other = try await self.rig([Self.reader, free])
    #expect(try await token(other).access_token == "whole")
  }

  @Test("A method that a rule names is given, and no other of its kind")
  func methods() async throws {
    let rule = Rule(
      name: "m", who: .init(uid: 1000, unit: "mail*.service"), accounts: ["work"], access: [], methods: ["token.get"])
    let rig = try await rig([rule])
    var caller = Caller.user(1000)
    #expect(await rig.reason { try await rig.call(TokenGet.self, .init(account: "work"), as: caller) } == .notPermitted)
    caller.unit = "mail-sync.service"
    #expect(try await rig.call(TokenGet.self, .init(account: "work"), as: caller).access_token == "whole")
    #expect(
      await rig.reason { try await rig.call(AccountUserinfo.self, .init(account: "work"), as: caller) } == .notPermitted
    )
  }

  @Test("The explanation names the rule or the missing condition; those of other callers need `manage`")
  func explained() async throws {
    let rule = Rule(
      name: "mail", who: .init(uid: 1000, unit: "mail.service"), accounts: ["work"], access: [.use], scopes: ["read"])
    let rig = try await rig([rule])
    func explain(
      _ caller: PolicyExplain.Subject?, account: String? = "work", method: String? = nil, as asker: Caller = .root
    ) async throws -> PolicyExplain.Result {
      try await rig.call(PolicyExplain.self, .init(account: account, method: method, caller: caller), as: asker)
    }
    let allowed = try await explain(.init(uid: 1000, unit: "mail.service"))
    #expect(allowed.allowed && allowed.rule == "mail" && allowed.scopes == ["read"])
    let whole = try await explain(.init(uid: 1000, unit: "mail.service"), method: RequestSend.name)
    #expect(!whole.allowed && whole.why.contains("whole token") && whole.why.contains("rule mail"))
    for (subject, account, method, word) in [
      (PolicyExplain.Subject(uid: 1000, unit: "other.service"), "work", nil, "not mail.service"),
      (.init(uid: 1000), "work", nil, "not known"), (.init(uid: 5, unit: "mail.service"), "work", nil, "is uid 5"),
      (.init(uid: 1000, unit: "mail.service"), "home", nil, "not for account home"),
      (.init(uid: 1000, unit: "mail.service"), "work", "account.logout", "does not allow"),
    ] as [(PolicyExplain.Subject, String, String?, String)] {
      let refused = try await explain(subject, account: account, method: method)
      #expect(!refused.allowed && refused.why.contains(word), "\(refused.why)")
    }
    #expect(try await explain(nil).why.contains("root"))
    #expect(try await !explain(nil, as: .user(1000)).allowed)
    #expect(await rig.reason { try await explain(.init(uid: 0), as: .user(1000)) } == .notPermitted)
    #expect(try await explain(nil, method: "rpc.discover", as: .user(5)).allowed)
  }

  @Test(
    "A caller with `manage` learns which condition is missing; others learn that no rule permits it")
  func unexplained() async throws {
    let rules = [
      Rule(name: "mail", who: .init(uid: 1000, unit: "mail.service"), accounts: ["work"], access: [.use]),
      Rule(name: "exe", who: .init(uid: 1000, executable: "/usr/bin/feed"), accounts: ["bank"], access: [.use]),
      Rule(name: "own", uid: 1002, gid: nil, accounts: ["home"], access: [.use]),
      Rule(name: "keeper", uid: 1003, gid: nil, accounts: ["work"], access: [.manage]),
    ]
    let rig = try await rig(rules)
    func why(_ account: String?, _ method: String? = nil, as asker: Caller) async throws -> String {
      let params = PolicyExplain.Params(account: account, method: method)
      let result = try await rig.call(PolicyExplain.self, params, as: asker)
      #expect(!result.allowed && result.rule == nil)
      return result.why
    }
    for uid in [1000, 1002, 5] as [UInt32] {
      // One that a rule names and that exists, one that a rule names, and an unknown one.
      for account in ["work", "bank", "nobody"] {
        #expect(
          try await why(account, as: .user(uid))
            == "no rule allows this caller token.get for account \(account); "
            + "`grantctl explain \(account) --uid \(uid)`, run by an admin, says what is missing")
      }
    }
    #expect(try await why("home", "account.logout", as: .user(1002)).contains("--method account.logout"))
    #expect(try await why("home", as: .user(1003)).contains("no rule allows this caller"))
    #expect(try await why(nil, "broker.reload", as: .user(1003)).contains("no rule allows this caller"))
    // A caller with `manage` access to the account gets every detail.
    #expect(try await why("work", as: .user(1003)) == "rule mail: the caller is uid 1003, not uid 1000")
    var service = Caller.user(1000)
    service.unit = "other.service"
    #expect(try await why("work", as: service).contains("grantctl explain work --uid 1000 --unit other.service"))
  }
}
