import Principals
import Testing

@testable import UserPages

@Suite struct VisitsTests {
  private func opened(_ opening: Visits.Opening) -> Visits.Visit? {
    if case .opened(let visit) = opening { visit } else { nil }
  }

  @Test("A link opens the page once, for its user, within two minutes")
  func link() {
    var visits = Visits()
    let result1 = visits.add(link: "l", for: 1000, by: 7, of: .user(1000), at: .zero)
    #expect(result1)
    guard case .otherUser = visits.open(link: "l", by: 1001, of: .user(1001), as: "v", formToken: "t", at: .seconds(1))
    else {
      Issue.record("another user opened it")
      return
    }
    let first = opened(visits.open(link: "l", by: 1000, of: .user(1000), as: "v", formToken: "t", at: .seconds(119)))
    #expect(first?.opener == 7)
    let second = opened(visits.open(link: "l", by: 1000, of: .user(1000), as: "w", formToken: "t", at: .seconds(119)))
    #expect(second == nil)
    let result2 = visits.add(link: "m", for: 1000, by: 7, of: .user(1000), at: .zero)
    #expect(result2)
    let late = opened(visits.open(link: "m", by: 1000, of: .user(1000), as: "w", formToken: "t", at: .seconds(120)))
    #expect(late == nil)
  }

  @Test("A session belongs to its user, and ends after ten minutes without an open page")
  func idle() {
    var visits = Visits()
    let result3 = visits.add(link: "l", for: 1000, by: 7, of: .user(1000), at: .zero)
    #expect(result3)
    _ = visits.open(link: "l", by: 1000, of: .user(1000), as: "v", formToken: "t", at: .zero)
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
      let isAdded = visits.add(link: "\(number)", for: 1, by: 7, of: .user(1), at: .zero)
      #expect(isAdded)
    }
    let result9 = visits.add(link: "more", for: 1, by: 7, of: .user(1), at: .zero)
    #expect(!result9)
    let result10 = visits.add(link: "other", for: 2, by: 7, of: .user(2), at: .zero)
    #expect(result10)
    let result11 = visits.add(link: "later", for: 1, by: 7, of: .user(1), at: .seconds(120))
    #expect(result11)
    for number in 0..<(Visits.mostVisitsOfUser + 3) {
      let result12 = visits.add(link: "x", for: 1, by: 7, of: .user(1), at: .seconds(300))
      #expect(result12)
      let visit = opened(
        visits.open(link: "x", by: 1, of: .user(1), as: "v\(number)", formToken: "t", at: .seconds(300 + number)))
      #expect(visit != nil)
    }
    let result13 = visits.visit("v0", of: 1, at: .seconds(330))
    #expect(result13 == nil, "the oldest is removed")
  }

  @Test("subordinate user ids have no links or sessions in addition to their owner's")
  func subordinates() {
    var visits = Visits()
    let first = (0..<Visits.mostLinks).count { number in
      visits.add(link: "\(number)", for: 100_000 + UInt32(number), by: 7, of: .user(1000), at: .zero)
    }
    #expect(first == Visits.mostLinksOfUser)
    let other = visits.add(link: "other", for: 1001, by: 7, of: .user(1001), at: .zero)
    #expect(other)
    let foreign = visits.open(link: "0", by: 1000, of: .user(1000), as: "v", formToken: "t", at: .zero)
    if case .otherUser = foreign {} else { Issue.record("the owner opened a link of another user id") }
    for number in 0..<Visits.mostVisitsOfUser * 2 {
      let user = 100_000 + UInt32(number)
      let isAdded = visits.add(link: "x", for: user, by: 7, of: .user(1000), at: .seconds(200 + number))
      #expect(isAdded)
      let link = visits.open(
        link: "x", by: user, of: .user(1000), as: "s\(number)", formToken: "t", at: .seconds(200 + number))
      #expect(opened(link) != nil)
    }
    let now = Duration.seconds(300)
    let open = (0..<Visits.mostVisitsOfUser * 2).count { number in
      visits.visit("s\(number)", of: 100_000 + UInt32(number), at: now) != nil
    }
    #expect(open == Visits.mostVisitsOfUser)
    let seen = visits.visit("s31", of: 1000, at: now)
    #expect(seen == nil && visits.isOfOther("s31", than: 1000))
  }

  @Test("the user id with the most sessions loses one")
  func most() {
    var visits = Visits()
    func open(_ id: String, by user: UInt32, at now: Duration) {
      let isAdded = visits.add(link: id, for: user, by: 7, of: .user(1000), at: now)
      #expect(isAdded)
      let opening = visits.open(link: id, by: user, of: .user(1000), as: id, formToken: "t", at: now)
      #expect(opened(opening) != nil)
    }
    open("owner", by: 1000, at: .zero)
    for number in 0..<Visits.mostVisitsOfUser + 3 { open("s\(number)", by: 100_000, at: .seconds(1 + number)) }
    let kept = visits.visit("owner", of: 1000, at: .seconds(60))
    let removed = visits.visit("s0", of: 100_000, at: .seconds(60))
    #expect(kept != nil && removed == nil)
  }

  @Test("root and the broker's own user have separate links", arguments: [Holder.root, .owner])
  func separate(_ holder: Holder) {
    var visits = Visits()
    for number in 0..<Visits.mostLinks {
      let user = UInt32(1 + number / Visits.mostLinksOfUser)
      let isAdded = visits.add(link: "\(number)", for: user, by: 7, of: .user(user), at: .zero)
      #expect(isAdded)
    }
    let full = visits.add(link: "full", for: 500, by: 7, of: .user(500), at: .zero)
    let separate = visits.add(link: "separate", for: 1, by: 7, of: holder, at: .zero)
    #expect(!full && separate)
  }

  @Test("A form has each parameter once", arguments: [("a=1&a=2", false), ("a=%zz", false), ("a=1&b=2", true)])
  func form(text: String, isOne: Bool) {
    #expect((Fields(text) != nil) == isOne)
  }

  @Test("A session runs four checks of providers at once, and remembers the last result")
  func runs() {
    var visits = Visits()
    let isAdded = visits.add(link: "l", for: 1000, by: 7, of: .user(1000), at: .zero)
    #expect(isAdded)
    _ = visits.open(link: "l", by: 1000, of: .user(1000), as: "v", formToken: "t", at: .zero)
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
