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

  @Test("The hash of a state is another under another key") func keyed() {
    let state = Secret("state")
    #expect(state.keyedHash(under: Secret("a")) == state.keyedHash(under: Secret("a")))
    #expect(state.keyedHash(under: Secret("a")) != state.keyedHash(under: Secret("b")))
    #expect(state.keyedHash(under: Secret("a")) != state.fingerprint)
  }
}
