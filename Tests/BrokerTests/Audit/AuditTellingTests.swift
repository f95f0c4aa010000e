import BrokerAPI
import Logging
import TestSupport
import Testing

@testable import Broker

/// What the journal has of the audit trail.
@Suite(.scheduled) struct AuditTellingTests {
  private let journal = LoggedLines()
  private let clock = ManualClock()

  private func trail() -> AuditTrail {
    AuditTrail(
      store: nil, logger: journal.logger(), now: { [clock] in clock.now }, uptime: { [clock] in clock.elapsed })
  }

  private func entry(_ result: String) -> AuditEntry {
    AuditEntry(action: .release, method: "token.get", account: "work", who: .init(uid: 1000), result: result)
  }

  @Test(
    "A repeated refusal is logged whenever its count gains a digit, even if no power of ten is observed")
  func refusals() async {
    let trail = trail()
    let refusal = "refused token.get of account work to uid 1000"
    var told: [String] = []
    let counts: [(more: Int, told: String?)] = [
      (20, "\(refusal) (20 times)"), (70, nil), (30, "\(refusal) (120 times)"), (3000, "\(refusal) (3120 times)"),
      (3000, nil), (3000, nil), (3000, "\(refusal) (12120 times)"),
    ]
    for (more, line) in counts {
      for _ in 1...more { trail.record(entry("not_permitted")) }
      clock.advance(.seconds(30))
      await trail.flush()
      if let line { told.append(line) }
      #expect(journal.all.map(\.text) == told)
    }
    await trail.flush()
    #expect(journal.all.map(\.text) == told)
  }

  @Test("A release is logged once, and a credential that was not delivered is logged as such")
  func others() async {
    let trail = trail()
    for _ in 1...2 {
      for _ in 1...50 { trail.record(entry("ok")) }
      await trail.flush()
    }
    trail.record(entry(AuditEntry.notDelivered))
    await trail.flush()
    #expect(
      journal.all.map(\.text) == [
        "token.get of account work by uid 1000 (50 times)", "token.get of account work did not get to uid 1000",
      ])
  }
}
