import Principals
import Testing

@testable import UnixSocket

@Suite struct BudgetTests {
  private static func share(_ uid: UInt32, _ callerClass: CallerClass = .named) -> Share {
    Share(holder: uid == 0 ? .root : .user(uid), callerClass: callerClass)
  }

  private let limits = Budget.Limits(all: 100, perHolder: 40, unnamedShare: 0.2, least: 4)

  @Test("callers without a rule have one share together, and each holder a quarter of it") func unnamed() {
    var budget = Budget(limits)
    #expect(limits.unnamed == 20 && limits.perUnnamed == 5)
    #expect(budget.acquire(6, for: Self.share(1000, .unnamed)) == .ofHolder)
    for uid in UInt32(1000)..<1004 { #expect(budget.acquire(5, for: Self.share(uid, .unnamed)) == nil) }
    #expect(budget.acquire(1, for: Self.share(1004, .unnamed)) == .ofUnnamed)
    // The others lack only that part.
    #expect(budget.acquire(40, for: Self.share(2000)) == nil)
    #expect(budget.acquire(40, for: Self.share(2001)) == nil)
    #expect(budget.acquire(1, for: Self.share(2002)) == .ofAll)
    #expect(budget.acquire(40, for: Self.share(0)) == nil)
    budget.giveBack(5, of: Self.share(1000, .unnamed))
    #expect(budget.acquire(5, for: Self.share(2002)) == nil)
  }

  @Test("a user some of whose programs have a rule has both shares") func both() {
    var budget = Budget(limits)
    #expect(budget.acquire(5, for: Self.share(1000, .unnamed)) == nil)
    #expect(budget.acquire(1, for: Self.share(1000, .unnamed)) == .ofHolder)
    #expect(budget.acquire(35, for: Self.share(1000)) == nil)
    #expect(budget.count(of: Self.share(1000, .unnamed)) == 5 && budget.count(of: Self.share(1000)) == 40)
  }

  @Test("a user has a share for all units, and one unit leaves a quarter more to the others") func units() {
    var budget = Budget(limits)
    func unit(_ name: String, _ callerClass: CallerClass = .named) -> Share {
      Share(holder: .unit(name, user: 1000), callerClass: callerClass)
    }
    #expect(budget.acquire(40, for: unit("a")) == nil)
    #expect(budget.acquire(1, for: unit("a")) == .ofHolder)
    #expect(budget.acquire(8, for: unit("b")) == nil)
    #expect(budget.acquire(3, for: Self.share(1000)) == .ofUser)
    #expect(budget.acquire(2, for: Self.share(1000)) == nil)
    #expect(budget.largest(beside: Self.share(1000), .ofUser) == .unit("a", user: 1000))
    #expect(budget.largest(beside: unit("a"), .ofUser) == nil)
    // A unit of no fixed user is separate.
    #expect(budget.acquire(40, for: Share(holder: .unit("c", user: nil), callerClass: .named)) == nil)
    #expect(budget.roomOfUser(of: unit("a")) == 0)
    budget.giveBack(40, of: unit("a"))
    #expect(budget.roomOfUser(of: unit("a")) == 40)
    for name in ["d", "e", "f"] { _ = budget.acquire(5, for: unit(name, .unnamed)) }
    #expect(budget.usedByUnnamed == 5)
    #expect(budget.text(.ofUser, of: unit("d", .unnamed), "lines") == "6 lines of uid 1000 in all units")
  }

  @Test("of the user with the most in all units, the largest unit is chosen") func largest() {
    var budget = Budget(limits)
    for (name, amount) in [("a", 20), ("b", 25)] {
      #expect(budget.acquire(amount, for: Share(holder: .unit(name, user: 1000), callerClass: .named)) == nil)
    }
    #expect(budget.acquire(30, for: Self.share(2000)) == nil)
    #expect(budget.largest(beside: Self.share(3000), .ofAll) == .unit("b", user: 1000))
    #expect(budget.largest(beside: Self.share(1000), .ofAll) == .unit("b", user: 1000))
    #expect(budget.largest(beside: Self.share(0), .ofAll) == .unit("b", user: 1000))
  }

  @Test("small settings still leave each caller the least that it needs") func least() {
    let limits = Budget.Limits(all: 100, perHolder: 50, unnamedShare: 0.01, least: 10)
    #expect(limits.unnamed == 10 && limits.perUnnamed == 10)
  }

  @Test("amounts taken and returned in any order leave nothing behind", arguments: 1...5) func random(seed: UInt64) {
    var numbers = Seeded(state: seed)
    var budget = Budget(limits)
    var held: [(amount: Int, share: Share)] = []
    for _ in 0..<5000 {
      if Bool.random(using: &numbers), !held.isEmpty {
        let one = held.remove(at: Int.random(in: 0..<held.count, using: &numbers))
        budget.giveBack(one.amount, of: one.share)
      } else {
        let callerClass: CallerClass = Bool.random(using: &numbers) ? .named : .unnamed
        let share = Self.share(UInt32.random(in: 0..<6, using: &numbers), callerClass)
        let amount = Int.random(in: 1...9, using: &numbers)
        if budget.acquire(amount, for: share) == nil { held.append((amount, share)) }
      }
      #expect(budget.used <= limits.all && budget.usedByUnnamed <= limits.unnamed)
    }
    for one in held { budget.giveBack(one.amount, of: one.share) }
    #expect(budget.used == 0 && budget.usedByUnnamed == 0)
    #expect((0..<6).allSatisfy { budget.count(of: Self.share($0)) == 0 })
  }
}
