import BrokerAPI
import DemoProvider
import Foundation
import Testing

@Suite("Logins that an attacker mixes up")
struct InjectionTests {
  @Test(
    "a code of another login is refused by its verifier, and neither login gets the other's tokens (RFC 9700 §4.5)",
    arguments: [true, false])
  func swappedCode(isBurnt: Bool) async throws {
    try await Rig.with { rig in
      rig.demo.changeSettings { $0.token.wrongVerifierBurnsCode = isBurnt }
      let mine = try await rig.startLogin("alice")
      let strangers = try await rig.startLogin("bob")
      let callback = try await rig.callback(of: mine)
      let other = try await rig.callback(of: strangers)
      let code = try #require(other.value("code"))
      let page = try await Browser.open(callback.replacing("code", code).url)
      #expect(page.status == 502)
      let error = try await rig.failure("login.wait", ["login_id": .string(mine.id)])
      #expect(error.reason == .providerError && error.oauth?.error == "invalid_grant", "\(error)")
      #expect(error.hint?.contains("grantctl login") == true, "\(error)")
      #expect(try await rig.call("account.list")["accounts"]?.array == [])
      #expect(rig.demo.stats().liveGrants == 0)
      // The code itself may have been spent by that.
      #expect(try await Browser.open(other.url).status == (isBurnt ? 502 : 200))
      if isBurnt {
        #expect(try await rig.failure("login.wait", ["login_id": .string(strangers.id)]).reason == .providerError)
        #expect(try await rig.call("account.list")["accounts"]?.array == [])
      } else {
        #expect(try await rig.outcome(of: strangers).account?.identity?.subject == "sub-bob")
      }
      #expect(rig.count(.tokenCode) == 2)
      try await rig.login("alice")
      #expect(try await rig.account("alice").identity?.subject == "sub-alice")
    }
  }

  @Test(
    "an answer of one provider for a login at another is refused, and no code goes to the wrong one (RFC 9700 §4.4)")
  func mixUp() async throws {
    try await Rig.with(Wish { $0.hasSecondProvider = true }) { rig in
      let honest = try await rig.startLogin("alice", at: "demo")
      let attackers = try await rig.startLogin("bob", at: "other")
      let callback = try await rig.callback(of: honest)
      let state = try #require(try await rig.callback(of: attackers).value("state"))
      // The honest provider's code and iss under the state of the login at the other one.
      #expect(try await Browser.open(callback.replacing("state", state).url).status == 400)
      #expect(rig.other?.stats().requests["token.code"] == nil)
      #expect(rig.demo.stats().requests["token.code"] == nil)
      #expect(try await Browser.open(callback.url).status == 200)
      #expect(try await rig.outcome(of: honest).state == .completed)
      #expect(rig.other?.stats().requests["token.code"] == nil)
    }
  }

  @Test("a login without openid does not hide its user: another user's login is refused")
  func withoutOpenID() async throws {
    try await Rig.with { rig in
      try await rig.login("alice")
      let before = try await rig.token("alice").access_token
      let started = try await rig.call(
        "login.start", ["provider": "demo", "account": "alice", "scopes": ["email"], "login_hint": "bob"])
      let place = try #require(started["destinations"]?.array?.last)
      let id = try #require(started["login_id"]?.string)
      let login = Rig.Pending(
        id: id, url: try #require(place["url"]?.string), redirectURI: try #require(place["redirect_uri"]?.string))
      _ = try await Browser.open(try await rig.callback(of: login).url)
      #expect(try await rig.failure("login.wait", ["login_id": .string(id)]).reason == .loginDenied)
      #expect(try await rig.token("alice").access_token == before)
      for own in ["scope", "request_uri"] {
        let error = try await rig.failure(
          "login.start", ["provider": "demo", "account": "alice", "params": .object([.init(name: own, value: "x")])])
        #expect(error.code == -32602)
      }
    }
  }

  @Test("twenty concurrent logins each get their own user, in any order of return")
  func manyAtOnce() async throws {
    try await Rig.with { rig in
      var logins: [(name: String, login: Rig.Pending, callback: Callback)] = []
      for number in 1...20 {
        let login = try await rig.startLogin("user-\(number)")
        logins.append(("user-\(number)", login, try await rig.callback(of: login)))
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (_, _, callback) in logins.reversed() {
          group.addTask {
            let page = try await Browser.open(callback.url)
            #expect(page.status == 200)
          }
        }
        try await group.waitForAll()
      }
      for (name, login, _) in logins {
        #expect(try await rig.outcome(of: login).account?.account == name)
        #expect(try await rig.account(name).identity?.subject == "sub-\(name)")
      }
      let tokens = Set(try await logins.tokens(rig))
      #expect(tokens.count == 20)
      #expect(rig.demo.stats().liveGrants == 20)
    }
  }

  @Test("of two logins for one account the later one is kept, and the account stays one")
  func sameAccount() async throws {
    try await Rig.with { rig in
      let first = try await rig.startLogin()
      let firstCallback = try await rig.callback(of: first)
      let second = try await rig.startLogin()
      let secondCallback = try await rig.callback(of: second)
      _ = try await Browser.open(firstCallback.url)
      #expect(try await Browser.open(secondCallback.url).status == 200)
      #expect(try await rig.outcome(of: second).state == .completed)
      #expect(try await works(try await rig.token().access_token, at: rig.demo))
      #expect(try await rig.call("account.list")["accounts"]?.array?.count == 1)
    }
  }
}

extension [(name: String, login: Rig.Pending, callback: Callback)] {
  fileprivate func tokens(_ rig: Rig) async throws -> [String] {
    var tokens: [String] = []
    for (name, _, _) in self { tokens.append(try await rig.token(name).access_token) }
    return tokens
  }
}
