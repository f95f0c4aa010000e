import Principals
import Testing

private let start: Int64 = 1_000_000_000_000

private func seconds(_ count: Double) -> Int64 { Int64(count * 1e9) }

/// One in each interval, up to the capacity.
@Suite struct TokenBucketTests {
  @Test(
    "a bucket that was used up gives one again after its part of the period, and not before",
    arguments: [
      // The budgets of log lines, audit records and reports of refused connections.
      (30, Duration.seconds(60), Duration.seconds(2)), (16, .seconds(60), .milliseconds(3750)),
      (32, .seconds(60), .milliseconds(1875)), (64, .seconds(60), .microseconds(937_500)),
      (256, .seconds(60), .microseconds(234_375)), (1, .seconds(10), .seconds(10)),
    ])
  func periods(_ most: Int, _ period: Duration, _ pause: Duration) {
    let (next, full) = (start + pause.nanoseconds, start + period.nanoseconds)
    var bucket = TokenBucket(most, per: period)
    func takes(at now: Int64) -> Bool { bucket.acquire(at: now) }
    func taken(at now: Int64) -> Int { (0...2 * most).count { _ in takes(at: now) } }
    #expect(bucket.isFull(at: start))
    #expect(taken(at: start) == most)
    #expect(!takes(at: next - 1))
    #expect(takes(at: next) && !takes(at: next))
    #expect(!bucket.isFull(at: full) && bucket.isFull(at: full + pause.nanoseconds))
    #expect(taken(at: start + seconds(1_000_000)) == most)
  }

  @Test("a time before the last use gives nothing") func backwards() {
    var bucket = TokenBucket(1, per: .seconds(10))
    func takes(at now: Double) -> Bool { bucket.acquire(at: seconds(now)) }
    #expect(takes(at: 1000) && !takes(at: 990) && !takes(at: 1009))
    #expect(takes(at: 1010))
  }

  @Test(
    "the level rises with time, up to the capacity",
    arguments: [
      // Without time, a part of one, one, the cap, and later.
      (0, -10), (0.125, -9.5), (0.25, -9), (2.5, 0), (3.75, 5), (7.5, 20), (1000, 20), (-1, -10),
    ] as [(Double, Double)])
  func refill(_ passed: Double, _ level: Double) {
    var bucket = TokenBucket(capacity: 20, perSecond: 4, at: start)
    bucket.spend(30)
    #expect(bucket.level(at: start + seconds(passed)) == level)
    #expect(bucket.isFull(at: start + seconds(passed)) == (level == 20))
    bucket.refill(at: start + seconds(passed))
    #expect(bucket.level(at: start + seconds(max(passed, 0))) == level)
  }

  @Test(
    "a bucket goes into debt as far as permitted",
    arguments: [
      (5, .infinity, 15), (30, .infinity, -10), (30, 20, -10), (50, 20, -20), (30, 0, 0), (-1, 0, 21),
    ] as [(Double, Double, Double)])
  func debt(_ amount: Double, _ debt: Double, _ level: Double) {
    var bucket = TokenBucket(capacity: 20, perSecond: 4, at: start)
    func takes() -> Bool { bucket.acquire(at: start) }
    bucket.spend(amount, debt: debt)
    #expect(bucket.wait(for: level) == 0 && bucket.wait(for: level + 1) == 250_000_000)
    #expect(takes() == (level >= 1))
  }

  @Test(
    "a bucket that is due has the level, and not a nanosecond before",
    arguments: [0.01, 3, 7, 10, 156.25, 2000, 33_554_432], [0, 0.3, 1, 40])
  func due(_ rate: Double, _ overdraft: Double) {
    var bucket = TokenBucket(capacity: 4, perSecond: rate, at: start)
    bucket.spend(4 + overdraft)
    for wanted in [0.0, 1] {
      let wait = bucket.wait(for: wanted)
      #expect(bucket.level(at: start + wait) >= wanted)
      #expect(wait == 0 || bucket.level(at: start + wait - 1) < wanted)
    }
  }

  @Test("without time a bucket has its capacity once") func still() {
    var bucket = TokenBucket(capacity: 3, interval: 1)
    func takes() -> Bool { bucket.acquire(at: start) }
    #expect((0..<100).count { _ in takes() } == 3)
    #expect(bucket.wait() == 1 && !bucket.isFull(at: start))
  }

  @Test("a bucket with other limits keeps its level") func limits() {
    var bucket = TokenBucket(capacity: 20, perSecond: 4, at: start)
    bucket.spend(15)
    let wider = bucket.limited(like: TokenBucket(capacity: 40, perSecond: 10))
    #expect(wider.level(at: start) == 5 && wider.level(at: start + seconds(1)) == 15)
    #expect(wider.level(at: start + seconds(60)) == 40)
    #expect(bucket.limited(like: TokenBucket(capacity: 2, perSecond: 4)).level(at: start) == 2)
  }
}
