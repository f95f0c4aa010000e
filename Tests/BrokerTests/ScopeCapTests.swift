import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Callers who may have a part of an account's scopes.
@Suite(.timeLimit(.minutes(1))) struct ScopeCapTests {
  private static let reader = Rule(
    name: "reader", who: .init(uid: 1000), accounts: ["work"], access: [.use], scopes: ["read"])
  private static let all = Rule(name: "all", uid: 1001, gid: nil, accounts: ["work"], access: [.use, .login])

  private func rig(_ rules: [Rule] = [reader, all], narrows: Bool = true) async throws -> Rig {
    let settings = ProviderSettings.plain {
      $0.scopes = ["read", "write"]
      $0.narrowsTokens = narrows
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

  @Test("A capped caller gets a narrowed token, also where it names no scopes, and others the whole one")
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
      #expect(error?.reason == .notPermitted && error?.hint?.contains("read") == true)
    }
    let none = Rule(name: "none", who: .init(uid: 1000), accounts: ["work"], access: [.use], scopes: ["other"])
    let other = try await self.rig([none])
    #expect(await other.reason { try await token(other) } == .notPermitted)
  }

  @Test("Where the provider does not narrow, a capped caller gets nothing")
  func whole() async throws {
    let rig = try await rig(narrows: false)
    #expect(await rig.reason { try await token(rig) } == .notPermitted)
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

  @Test("The policy says why: by which rule, or what is missing; of others to who manages alone")
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
    for (subject, account, method, word) in [
      (PolicyExplain.Subject(uid: 1000, unit: "other.service"), "work", nil, "not mail.service"),
      (.init(uid: 1000), "work", nil, "not known"), (.init(uid: 5, unit: "mail.service"), "work", nil, "uid is 5"),
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
}
