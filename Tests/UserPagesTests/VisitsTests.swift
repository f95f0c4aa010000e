import Testing

@testable import UserPages

@Suite struct VisitsTests {
  private func opened(_ opening: Visits.Opening) -> Visits.Visit? {
    if case .opened(let visit) = opening { visit } else { nil }
  }

  @Test("A link opens the page once, for its user, within two minutes")
  func link() {
    var visits = Visits()
    let result1 = visits.add(link: "l", for: 1000, by: 7, at: .zero)
    #expect(result1)
    guard case .otherUser = visits.open(link: "l", by: 1001, as: "v", formToken: "t", at: .seconds(1)) else {
      Issue.record("another user opened it")
      return
    }
    let first = opened(visits.open(link: "l", by: 1000, as: "v", formToken: "t", at: .seconds(119)))
    #expect(first?.opener == 7)
    let second = opened(visits.open(link: "l", by: 1000, as: "w", formToken: "t", at: .seconds(119)))
    #expect(second == nil)
    let result2 = visits.add(link: "m", for: 1000, by: 7, at: .zero)
    #expect(result2)
    let late = opened(visits.open(link: "m", by: 1000, as: "w", formToken: "t", at: .seconds(120)))
    #expect(late == nil)
  }

  @Test("A session belongs to its user, and ends after ten minutes without an open page")
  func idle() {
    var visits = Visits()
    let result3 = visits.add(link: "l", for: 1000, by: 7, at: .zero)
    #expect(result3)
    _ = visits.open(link: "l", by: 1000, as: "v", formToken: "t", at: .zero)
    let result4 = visits.visit("v", of: 1001, at: .zero)
    #expect(result4 == nil)
    #expect(visits.isOfOther("v", than: 1001))
    let result5 = visits.visit("v", of: 1000, at: .seconds(600))
    #expect(result5 != nil)
    visits.liveChanged("v", by: 1, at: .seconds(600))
    let result6 = visits.isInUse(at: .seconds(90_000))
    #expect(result6)
    visits.liveChanged("v", by: -1, at: .seconds(90_000))
    let result7 = visits.visit("v", of: 1000, at: .seconds(90_601))
    #expect(result7 == nil)
    let result8 = visits.isInUse(at: .seconds(90_601))
    #expect(!result8)
  }

  @Test("Links and sessions are limited")
  func limits() {
    var visits = Visits()
    for number in 0..<Visits.mostLinksOfUser {
      let isAdded = visits.add(link: "\(number)", for: 1, by: 7, at: .zero)
      #expect(isAdded)
    }
    let result9 = visits.add(link: "more", for: 1, by: 7, at: .zero)
    #expect(!result9)
    let result10 = visits.add(link: "other", for: 2, by: 7, at: .zero)
    #expect(result10)
    let result11 = visits.add(link: "later", for: 1, by: 7, at: .seconds(120))
    #expect(result11)
    for number in 0..<(Visits.mostVisitsOfUser + 3) {
      let result12 = visits.add(link: "x", for: 1, by: 7, at: .seconds(300))
      #expect(result12)
      let visit = opened(visits.open(link: "x", by: 1, as: "v\(number)", formToken: "t", at: .seconds(300 + number)))
      #expect(visit != nil)
    }
    let result13 = visits.visit("v0", of: 1, at: .seconds(330))
    #expect(result13 == nil, "the oldest is removed")
  }

  @Test("A form has each parameter once", arguments: [("a=1&a=2", false), ("a=%zz", false), ("a=1&b=2", true)])
  func form(text: String, isOne: Bool) {
    #expect((Fields(text) != nil) == isOne)
  }

  @Test("A session runs four checks of providers at once, and remembers the last result")
  func runs() {
    var visits = Visits()
    let isAdded = visits.add(link: "l", for: 1000, by: 7, at: .zero)
    #expect(isAdded)
    _ = visits.open(link: "l", by: 1000, as: "v", formToken: "t", at: .zero)
    let all = (0..<6).map { ProviderRun(id: "\($0)", checking: "p\($0)") }
    let first = all[..<4].map { visits.remember($0, in: "v") }
    let fifth = visits.remember(all[4], in: "v")
    #expect(first == [true, true, true, true] && !fifth)
    for run in all[..<2] { run.ends(.checked([], nil), at: 10) }
    let later = visits.remember(all[4], in: "v")
    #expect(later)
    #expect(visits.visit("v", of: 1000, at: .zero)?.runs.map(\.id) == ["2", "3", "1", "4"])
    #expect(all[1].shows("p1", at: 19) && !all[1].shows("p1", at: 20) && all[4].shows("p4", at: 1000))
    let other = visits.remember(all[5], in: "w")
    #expect(!other)
  }
}
