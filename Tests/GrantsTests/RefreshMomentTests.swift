import Grants
import OAuth
import Testing

@Suite struct RefreshMomentTests {
  struct Moment: Sendable, CustomTestStringConvertible {
    var lifetime: Double?
    var refreshIn: Double?
    var jitter = 0.0
    let due: Double?
    var testDescription: String {
      "lifetime \(String(describing: lifetime)), refresh_in \(String(describing: refreshIn))"
    }
  }

  @Test(
    "A token is refreshed at the earliest of the provider's wish, a share of its lifetime and a margin before its end",
    arguments: [
      Moment(lifetime: 86_400, due: 69_120), Moment(lifetime: 3600, due: 2880), Moment(lifetime: 1000, due: 700),
      Moment(lifetime: 600, due: 300), Moment(lifetime: 60, due: 30), Moment(lifetime: 8, due: 4),
      Moment(lifetime: 3600, refreshIn: 1800, due: 1800), Moment(lifetime: 3600, refreshIn: 3500, due: 2880),
      Moment(lifetime: nil, refreshIn: 100, due: 100), Moment(lifetime: nil, due: 2880),
      Moment(lifetime: 3600, jitter: 1, due: 2520), Moment(lifetime: 3600, jitter: 0.5, due: 2700),
      Moment(lifetime: 60, jitter: 1, due: 24), Moment(lifetime: 3600, refreshIn: 100, jitter: 1, due: 360),
      // What would never rest: a wish for now, and tokens that are over as they come.
      Moment(lifetime: 3600, refreshIn: 0, due: 360), Moment(lifetime: nil, refreshIn: 0, due: 60),
      Moment(lifetime: 0, due: 60), Moment(lifetime: 1, due: 60),
    ])
  func softRefresh(_ moment: Moment) {
    let token = savedToken(lifetime: moment.lifetime, refreshIn: moment.refreshIn)
    #expect(RefreshPolicy().softRefresh(of: token, jitter: moment.jitter) == moment.due.map { at($0) })
    let grant = Grant(saved: savedGrant(), token: token, jitter: moment.jitter)
    #expect(grant.nextMoment(policy: RefreshPolicy(), at: at(0)) == moment.due.map { at($0) })
  }

  @Test("Jitter moves a refresh earlier only, by at most its share of the lifetime")
  func jitterBounds() {
    let policy = RefreshPolicy()
    var random = Random(seed: 1)
    for _ in 0..<1000 {
      let lifetime = Double(random.below(100_000) + 10)
      let token = savedToken(lifetime: lifetime)
      let latest = policy.softRefresh(of: token, jitter: 0)!
      let moment = policy.softRefresh(of: token, jitter: Double(random.below(1001)) / 1000)!
      #expect(moment <= latest)
      #expect(moment >= latest - .milliseconds(Int64(lifetime * 100) + 1))
      #expect(moment > token.issuedAt)
      #expect(moment < token.expiresAt!)
    }
  }

  @Test("No jitter, however large, makes a token due at its issue")
  func largeJitter() {
    var policy = RefreshPolicy()
    policy.jitter = 1
    #expect(policy.softRefresh(of: savedToken(lifetime: 3600), jitter: 1) == at(360))
  }

  @Test(
    "A caller's minimum is limited by a fresh token's lifetime, and the policy's by half of a short one",
    arguments: [
      (nil, 3600, 30), (nil, 20, 10), (nil, 0, 0), (0, 3600, 0), (10, 3600, 10), (300, 3600, 300), (3600, 3600, 3240),
      (1e9, 3600, 3240), (-5, 3600, 0), (60, 60, 54),
    ] as [(Double?, Double, Double)])
  func floor(wanted: Double?, lifetime: Double, floor: Double) {
    let wanted = wanted.map { Duration.milliseconds(Int64($0 * 1000)) }
    let found = RefreshPolicy().floor(wanted, lifetime: .milliseconds(Int64(lifetime * 1000)))
    #expect(found == .milliseconds(Int64(floor * 1000)))
  }

  @Test("A fresh token serves whatever minimum is asked for, so that no caller makes each call refresh")
  func freshIsEnough() {
    for lifetime in [1.0, 5, 20, 60, 3600, 86_400] {
      for wanted in [0, 1, 30, 3600, 1_000_000_000] as [Int64] {
        let grant = grant(savedGrant(), savedToken(lifetime: lifetime))
        let answer = grant.answer(minimumTTL: .seconds(wanted), at: at(0), policy: steady)
        #expect(answer == .token(savedToken(lifetime: lifetime)), "lifetime \(lifetime), wanted \(wanted)")
      }
    }
  }

  @Test("Times at the limits of their range do not trap")
  func extremes() {
    let ends = [Timestamp(milliseconds: .min), Timestamp(milliseconds: 0), Timestamp(milliseconds: .max)]
    for issued in ends {
      for expires in ends {
        for now in ends {
          var token = savedToken()
          token.issuedAt = issued
          token.expiresAt = expires
          token.refreshAt = issued
          var grant = Grant(saved: savedGrant(), token: token, jitter: 1)
          _ = grant.answer(minimumTTL: .seconds(Int64.max / 1000), at: now, policy: RefreshPolicy())
          _ = grant.due(at: now, policy: RefreshPolicy())
          let attempt = grant.begun(at: now)
          let failure = ProviderFailure.unclear(message: "", retryAfter: .seconds(Int64.max / 1000))
          _ = grant.failed(attempt, failure, at: now, policy: steady, jitter: 1, rotation: .grace(.seconds(30)))
          _ = grant.due(at: now, policy: RefreshPolicy())
        }
      }
    }
  }
}

/// A small generator (SplitMix64), so that a seed repeats a run on every machine.
struct Random: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }
}
