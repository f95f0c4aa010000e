import Grants
import OAuth
import Principals
import Testing

@testable import Broker

@Suite("The table of logins") struct LoginTableTests {
  private func login(_ id: String, state: String) -> Login {
    let saved = SavedLogin(
      id: LoginID(rawValue: id)!, provider: provider("example"), account: account("work"), state: Secret(state),
      nonce: nil, verifier: nil, redirectURI: "http://127.0.0.1/callback", scopes: [], resource: nil, maxAge: nil,
      uid: 0,
      startedAt: ManualClock.start, expiresAt: ManualClock.start + .seconds(600))
    return Login(saved: saved, phase: .pending, holder: .root)
  }

  @Test("A login is found by its own state while it exists, and by no other") func byState() throws {
    var table = LoginTable(key: Secret("key"))
    for id in ["one", "two"] { table[LoginID(rawValue: id)!] = login(id, state: "state-\(id)") }
    let one = try #require(table.login(ofState: Secret("state-one")))
    #expect(one.saved.id.rawValue == "one")
    #expect(table.login(ofState: Secret("state-on")) == nil && table.login(ofState: Secret("")) == nil)
    table[one.saved.id]?.phase = .exchanging
    #expect(table.login(ofState: Secret("state-one"))?.isPending == false)
    table[one.saved.id] = nil
    #expect(table.login(ofState: Secret("state-one")) == nil && table.all.count == 1)
    #expect(table.login(ofState: Secret("state-two")) != nil)
  }

  private func ended(_ id: String, of user: UInt32, after seconds: Int) -> Login {
    let at = ManualClock.start + .seconds(seconds)
    return Login(
      saved: login(id, state: id).saved, phase: .completed(account("work"), at: at), holder: .user(user))
  }

  @Test("ended logins of one user do not remove those of others; the oldest are removed first")
  func endedOfOneUser() {
    var table = LoginTable(key: Secret("key"))
    for id in ["other", "pending"] {
      table[LoginID(rawValue: id)!] = id == "other" ? ended(id, of: 1001, after: 0) : login(id, state: id)
    }
    for number in 0..<Limit.endedLogins + 100 {
      table[LoginID(rawValue: "l\(number)")!] = ended("l\(number)", of: 1000, after: 1 + number / 100)
      if number % 100 == 0 { table.removeEnded(at: ManualClock.start) }
    }
    table.removeEnded(at: ManualClock.start + .seconds(20))
    #expect(table.all.count == Limit.endedLoginsPerHolder + 2)
    #expect(table.all.count { $0.holder == .user(1001) } == 1)
    #expect(table[LoginID(rawValue: "l0")!] == nil && table[LoginID(rawValue: "l1120")!] != nil)
    table.removeEnded(at: ManualClock.start + Limit.endedLoginsKept + .seconds(1))
    #expect(table[LoginID(rawValue: "other")!] == nil && table.all.count == Limit.endedLoginsPerHolder + 1)
  }

  @Test("if all results are too many, the user with the most loses the oldest")
  func endedOfMany() {
    var table = LoginTable(key: Secret("key"))
    table[LoginID(rawValue: "first")!] = ended("first", of: 1, after: 0)
    for user in 2...7 as ClosedRange<UInt32> {
      for number in 0..<Limit.endedLoginsPerHolder - 1 {
        table[LoginID(rawValue: "l\(user)-\(number)")!] = ended("l\(user)-\(number)", of: user, after: 1 + number)
      }
    }
    table.removeEnded(at: ManualClock.start + .seconds(300))
    #expect(table.all.count == Limit.endedLogins)
    #expect(table[LoginID(rawValue: "first")!] != nil)
    for user in 2...7 as ClosedRange<UInt32> {
      let count = table.all.count { $0.holder == .user(user) }
      #expect((Limit.endedLogins / 6 - 1...Limit.endedLogins / 6 + 1).contains(count), "\(user): \(count)")
    }
  }

  @Test("The hash of a state is another under another key") func keyed() {
    let state = Secret("state")
    #expect(state.keyedHash(under: Secret("a")) == state.keyedHash(under: Secret("a")))
    #expect(state.keyedHash(under: Secret("a")) != state.keyedHash(under: Secret("b")))
    #expect(state.keyedHash(under: Secret("a")) != state.fingerprint)
  }
}
