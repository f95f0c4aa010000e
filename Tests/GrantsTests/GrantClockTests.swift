import Grants
import OAuth
import Testing

private let year = 365 * 86_400.0

/// A machine's clock may be wrong by any amount until something sets it.
@Suite struct GrantClockTests {
  @Test("A clock that steps a year ahead costs one refresh")
  func ahead() {
    var grant = grant()
    #expect(grant.answer(minimumTTL: nil, at: at(year), policy: steady) == .refresh)
    #expect(grant.due(at: at(year), policy: steady) == .refresh)
    grant.refreshed(issued(), at: at(year))
    #expect(grant.due(at: at(year + 1), policy: steady) == .nothing)
    #expect(grant.answer(minimumTTL: nil, at: at(year + 1), policy: steady) == .token(grant.token!))
  }

  @Test("A clock that steps a year back costs one refresh, and an old token is not served for a year")
  func back() {
    var grant = grant()
    #expect(grant.nextMoment(policy: steady, at: at(-year)) == at(-year))
    #expect(grant.due(at: at(-year), policy: steady) == .refresh)
    grant.refreshed(issued(), at: at(-year))
    #expect(grant.due(at: at(-year + 1), policy: steady) == .nothing)
    #expect(grant.token?.expiresAt == at(-year + 3600))
  }

  @Test("A small step back, as clocks are set every day, costs nothing")
  func smallStep() {
    var grant = grant()
    #expect(grant.due(at: at(-60), policy: steady) == .nothing)
    #expect(grant.answer(minimumTTL: nil, at: at(-60), policy: steady) == .token(savedToken()))
  }

  @Test("A grant that fails does not wait for a year when the clock steps back")
  func failingBack() {
    var grant = grant(savedGrant(), nil)
    _ = grant.failed(.lost(message: ""), at: at(0))
    #expect(grant.due(at: at(-year), policy: steady) == .refresh)
    #expect(grant.answer(minimumTTL: nil, at: at(-year), policy: steady) == .refresh)
    _ = grant.failed(.lost(message: ""), at: at(-year))
    #expect(grant.due(at: at(-year + 1), policy: steady) == .nothing)

    var longest = Grant(saved: savedGrant(), token: nil, jitter: 0)
    _ = longest.failed(.tryLater(message: "", nil, retryAfter: .seconds(3600)), at: at(0))
    #expect(longest.due(at: at(0), policy: steady) == .nothing)
    #expect(longest.due(at: at(3599), policy: steady) == .nothing)
    #expect(longest.due(at: at(3600), policy: steady) == .refresh)
  }

  @Test("A misconfigured grant is probed each quarter of an hour, also when the clock steps back")
  func misconfiguredBack() {
    var grant = grant(savedGrant(), nil)
    _ = grant.failed(.misconfigured(message: "", nil), at: at(0))
    #expect(grant.nextMoment(policy: steady, at: at(1)) == at(900))
    #expect(grant.due(at: at(899), policy: steady) == .nothing)
    #expect(grant.due(at: at(900), policy: steady) == .refresh)
    #expect(grant.due(at: at(-year), policy: steady) == .refresh)
  }

  @Test("A grant without a token begins at once, whatever the clock said when it was made")
  func noToken() {
    var grant = grant(savedGrant(), nil)
    #expect(grant.due(at: at(0), policy: steady) == .refresh)
    #expect(grant.due(at: at(-year), policy: steady) == .refresh)
  }

  @Test("However the clock steps, refreshes do not come in a storm", arguments: [1, 60, 3600, 1_000_000_000])
  func noStorm(lifetime: Int) {
    var random = Random(seed: UInt64(lifetime))
    var grant = grant(savedGrant(), nil)
    var clock = 0.0
    for _ in 0..<200 {
      clock += Double(random.below(3) - 1) * year
      var refreshes = 0
      for _ in 0..<20 where grant.due(at: at(clock), policy: steady) == .refresh {
        refreshes += 1
        if random.below(2) == 0 {
          grant.refreshed(issued(lifetime: lifetime), at: at(clock))
        } else {
          _ = grant.failed(.unclear(message: "", retryAfter: nil), at: at(clock))
        }
      }
      #expect(refreshes <= 1)
    }
  }
}
