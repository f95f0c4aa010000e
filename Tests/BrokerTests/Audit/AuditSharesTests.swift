import Testing

@testable import Broker

/// What a trail of 160 records forgets.
@Suite struct AuditSharesTests {
  typealias Refuser = AuditCounts.Refuser

  private static let (a, b) = (Refuser(name: "a", standing: .unnamed), Refuser(name: "b", standing: .unnamed))
  private static let (c, d) = (Refuser(name: "c", standing: .unnamed), Refuser(name: "d", standing: .named))
  private static let e = Refuser(name: "e", standing: .named)

  private struct Case: CustomStringConvertible {
    var description: String
    var events: Int
    var refusals: [Refuser: Int]
    var excess: [Refuser?: Int]

    init(_ description: String, events: Int, _ refusals: [Refuser: Int], _ excess: [Refuser?: Int]) {
      self.description = description
      self.events = events
      self.refusals = refusals
      self.excess = excess
    }
  }

  private static let cases = [
    Case("nothing", events: 0, [:], [:]), Case("full", events: 150, [a: 5, d: 5], [:]),
    Case("events alone", events: 170, [:], [nil: 10]),
    Case("one holder has an eighth", events: 0, [a: 25, d: 30], [a: 5, d: 10]),
    Case("a quarter for callers without a rule", events: 0, [a: 20, b: 18, c: 6], [a: 3, b: 1]),
    Case("refusals go before events", events: 145, [a: 10, d: 15], [d: 7, a: 3]),
    Case("of the caller with the most", events: 140, [a: 4, d: 20, e: 8], [d: 12]),
    Case("down to a sixteenth, which is theirs", events: 160, [a: 5, d: 20], [d: 15, nil: 10]),
    Case("a few refusals stay in a trail full of events", events: 160, [a: 3], [nil: 3]),
  ]

  @Test("The oldest records of the largest holder are dropped first, refusals before events", arguments: cases)
  private func excess(_ one: Case) {
    var counts = AuditCounts()
    counts.events = one.events
    counts.refusals = one.refusals
    #expect(AuditShares(most: 160).excess(of: counts) == one.excess)
  }

  private static let (u, v) = (Refuser(name: "u", standing: .event), Refuser(name: "v", standing: .event))

  @Test(
    "Users with more than an eighth lose events first, then refusals go, then the largest lose",
    arguments: [
      (30, [u: 100, v: 30], [:], [:]), (30, [u: 110, v: 30], [:], [u: 10]), (0, [u: 400], [a: 20], [u: 260]),
      (100, [u: 90, v: 15], [a: 20], [u: 65]), (140, [u: 25, v: 15], [a: 10], [u: 5, nil: 25]),
    ] as [(Int, [Refuser: Int], [Refuser: Int], [Refuser?: Int])])
  private func users(events: Int, ofUsers: [Refuser: Int], refusals: [Refuser: Int], expected: [Refuser?: Int]) {
    var counts = AuditCounts()
    (counts.events, counts.eventsOfUsers, counts.refusals) = (events, ofUsers, refusals)
    let excess = AuditShares(most: 160).excess(of: counts)
    #expect(excess == expected.filter { $0.value > 0 })
  }

  @Test("For all numbers: each share is kept, no event is dropped for a refusal, and no record without need")
  func invariants() {
    var random = SystemRandomNumberGenerator()
    let refusers = (0..<12).map { Refuser(name: "\($0)", standing: $0 < 8 ? .unnamed : .named) }
    for _ in 0..<500 {
      var counts = AuditCounts()
      counts.events = Int.random(in: 0...2000, using: &random)
      for refuser in refusers { counts.add(refuser, Int.random(in: 0...300, using: &random)) }
      let before = counts
      let shares = AuditShares(most: 1600)
      for (refuser, count) in shares.excess(of: counts) { counts.add(refuser, -count) }
      #expect(counts.all <= 1600 && counts.refusals.values.allSatisfy { $0 > 0 && $0 <= shares.perHolder })
      #expect(counts.refusals.filter { $0.key.standing == .unnamed }.values.reduce(0, +) <= shares.unnamed)
      #expect(counts.events >= min(before.events, 1600 - shares.refusals))
      #expect(counts.events == before.events || counts.refused <= shares.refusals)
      #expect(shares.excess(of: counts).isEmpty)
    }
  }
}
