import BrokerAPI
import Principals
import Testing

@testable import Broker

@Suite struct RequestWordTests {
  private let caller = Principal.process(Caller(uid: 1000, gid: 1000, groups: [], pid: 7, unit: "agent.service"))
  private let person = Principal.process(.root)

  private func question(_ line: String, _ digest: String? = nil) -> PendingReleases.Question {
    PendingReleases.Question(account: "work", method: RequestSend.name, request: .init(line: line, bodyDigest: digest))
  }

  /// After an approval of a request.
  private func allowed(_ question: PendingReleases.Question, for span: Duration?, calls: Int?) -> PendingReleases {
    var releases = PendingReleases()
    let hasBegun = releases.begin("a", question, of: caller, rule: "r", from: .zero, until: .seconds(60))
    let taken = releases.decide(true, on: "a", for: span, calls: calls, from: person, at: .zero)
    #expect(hasBegun && taken == .accepted)
    return releases
  }

  @Test("A word on a request is for its method, its address and its body")
  func bound() {
    let asked = question("POST https://api.example.com/pay", "d1")
    var releases = allowed(asked, for: .seconds(600), calls: nil)
    let word1 = releases.approval(on: asked, of: caller, at: .seconds(1))
    #expect(word1?.isAllowed == true)
    for other in [
      question("POST https://api.example.com/pay", "d2"), question("POST https://api.example.com/pay"),
      question("PUT https://api.example.com/pay", "d1"), question("POST https://api.example.com/other", "d1"),
      PendingReleases.Question(account: "work", method: RequestSend.name),
      PendingReleases.Question(account: "work", method: TokenGet.name),
    ] {
      let word = releases.approval(on: other, of: caller, at: .seconds(1))
      #expect(word == nil)
    }
  }

  @Test("A word for a number of calls is used up by them")
  func counted() {
    let asked = question("GET https://api.example.com/x")
    var releases = allowed(asked, for: nil, calls: 2)
    #expect(releases.approvals(at: .seconds(1)) { $0.components.seconds }.map(\.calls_left) == [2])
    let word1 = releases.approval(on: asked, of: caller, at: .seconds(1))
    #expect(word1 != nil)
    let word2 = releases.approval(on: asked, of: caller, at: .seconds(2))
    #expect(word2 != nil)
    let word3 = releases.approval(on: asked, of: caller, at: .seconds(3))
    #expect(word3 == nil)
    #expect(releases.approvals(at: .seconds(3)) { $0.components.seconds }.isEmpty)
  }

  @Test("approvals of one user leave room for those of others; one for the same question is replaced")
  func shares() {
    var releases = PendingReleases()
    func decide(_ number: Int, by uid: UInt32, _ isAllowed: Bool = true) -> PendingReleases.DecisionOutcome {
      let asked = question("GET https://api.example.com/\(number)")
      let hasBegun = releases.begin("a", asked, of: caller, rule: "r", from: .zero, until: .seconds(60))
      let approver = Principal.process(Caller(uid: uid, gid: uid, groups: [], pid: 8))
      let outcome = releases.decide(isAllowed, on: "a", for: .seconds(600), from: approver, at: .zero)
      releases.remove("a")
      #expect(hasBegun)
      return outcome
    }
    func count() -> Int { releases.approvals(at: .zero) { $0.components.seconds }.count }
    for _ in 0..<PendingReleases.mostApprovals * 2 {
      let same = decide(0, by: 1001)
      #expect(same == .accepted)
    }
    #expect(count() == 1)
    var accepted = 0
    for number in 1..<PendingReleases.mostApprovals where decide(number, by: 1001) == .accepted { accepted += 1 }
    #expect(accepted + 1 == PendingReleases.mostApprovalsPerHolder)
    let (refused, other) = (decide(999, by: 1001), decide(999, by: 1002))
    #expect(refused == .tooMany && other == .accepted)
    let replaced = decide(1, by: 1001, false)
    #expect(replaced == .accepted && count() == PendingReleases.mostApprovalsPerHolder + 1)
    let word = releases.approval(on: question("GET https://api.example.com/1"), of: caller, at: .zero)
    #expect(word?.isAllowed == false)
    let ofRoot = (2000..<2100).filter { decide($0, by: 0) == .accepted }.count
    #expect(ofRoot == 100)
  }

  @Test("A service cannot approve a request that it makes over TCP; other programs of its user can")
  func ownService() {
    let asker = Principal.peer(Caller(uid: 1000, gid: .max, groups: [], pid: 0, unit: "agent.service"))
    func answer(unit: String?) -> PendingReleases.DecisionOutcome {
      var releases = PendingReleases()
      let hasBegun = releases.begin(
        "a", question("GET https://h/"), of: asker, rule: "r", from: .zero, until: .seconds(9))
      #expect(hasBegun)
      let approver = Principal.process(Caller(uid: 1000, gid: 1000, groups: [], pid: 7, unit: unit))
      return releases.decide(true, on: "a", for: nil, from: approver, at: .zero)
    }
    #expect(answer(unit: "agent.service") == .ownRequest)
    #expect(answer(unit: "session-3.scope") == .accepted && answer(unit: nil) == .accepted)
  }

  @Test("A word for some time is for one service, not for a whole session")
  func sessions() {
    for (unit, isTold) in [("agent.service", true), ("session-3.scope", false), ("user@1000.service", false)] {
      #expect(AuditCaller(uid: 1000, unit: unit).isMoreThanUser == isTold)
    }
    #expect(AuditCaller(uid: 1000, unit: "user@1000.service", userUnit: "mail.service").isMoreThanUser)
    #expect(AuditCaller(uid: 1000, unit: "session-3.scope", executable: "/usr/bin/feed").isMoreThanUser)
  }

  @Test("An approval of a token covers every request with it")
  func token() {
    var releases = allowed(
      PendingReleases.Question(account: "work", method: TokenGet.name), for: .seconds(60), calls: nil)
    let word1 = releases.approval(on: question("GET https://api.example.com/x"), of: caller, at: .seconds(1))
    #expect(word1 != nil)
  }
}
