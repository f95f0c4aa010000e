import Principals
import Testing

/// An amount at once, and again in each period.
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
    let start = Duration.seconds(1000)
    var bucket = TokenBucket(most, per: period)
    func takes(at now: Duration) -> Bool { bucket.acquire(at: now) }
    func taken(at now: Duration) -> Int { (0...2 * most).count { _ in takes(at: now) } }
    #expect(bucket.isFull(at: start))
    #expect(taken(at: start) == most)
    #expect(!takes(at: start + pause - .nanoseconds(1)))
    #expect(takes(at: start + pause) && !takes(at: start + pause))
    #expect(!bucket.isFull(at: start + period) && bucket.isFull(at: start + pause + period))
    #expect(taken(at: start + .seconds(1_000_000)) == most)
  }

  @Test("a time before the last use gives nothing") func backwards() {
    var bucket = TokenBucket(1, per: .seconds(10))
    func takes(at now: Duration) -> Bool { bucket.acquire(at: now) }
    #expect(takes(at: .seconds(1000)) && !takes(at: .seconds(990)) && !takes(at: .seconds(1009)))
  }
}
