import OAuth
import Testing

@testable import Grants

/// Seconds since the machine started.
private func up(_ seconds: Double) -> Duration { .milliseconds(Int64((seconds * 1000).rounded())) }
private func seconds(_ moment: Duration) -> Double { Double(moment.milliseconds) / 1000 }

/// A server that limits requests. Its answers are nil, or `Retry-After` in seconds.
private enum Limiter {
  case bucket(capacity: Double, rate: Double, retryAfter: Double)
  case window(count: Int, length: Double)

  /// Requests per second.
  var rate: Double {
    switch self {
    case .bucket(_, let rate, _): rate
    case .window(let count, let length): Double(count) / length
    }
  }

  /// Requests that may be saved up.
  var burst: Double {
    switch self {
    case .bucket(let capacity, _, _): capacity
    case .window(let count, _): Double(count)
    }
  }
}

/// A provider with accounts whose tokens are due, and a gate in front of it, in virtual time.
private struct Scene {
  let limiter: Limiter
  /// From the request to its answer.
  var trip = 0.1
  /// Callers that wait: the times of their requests.
  var callers: [Double] = []

  private(set) var accepted = 0
  private(set) var refused = 0
  private(set) var waits: [Double] = []
  private(set) var now = 0.0
  var gate = ProviderGate()
  private var level: Double
  private var levelAt = 0.0

  init(_ limiter: Limiter, trip: Double = 0.1) {
    self.limiter = limiter
    self.trip = trip
    level = limiter.burst
  }

  private mutating func judge(at moment: Double) -> Double? {
    switch limiter {
    case .bucket(let capacity, let rate, let retryAfter):
      level = min(capacity, level + (moment - levelAt) * rate)
      levelAt = moment
      guard level < 1 else {
        level -= 1
        return nil
      }
      return retryAfter
    case .window(let count, let length):
      if moment >= levelAt + length { (level, levelAt) = (Double(count), (moment / length).rounded(.down) * length) }
      guard level < 1 else {
        level -= 1
        return nil
      }
      return (levelAt + length - moment).rounded(.up)
    }
  }

  private struct Request {
    let ticket: ProviderGate.Ticket
    let end: Double
    let retryAfter: Double?
    let asked: Double?
  }

  /// Refreshes this number of accounts, and those of the callers.
  mutating func run(due: Int, policy: RefreshPolicy = steady) {
    var left = due
    var waiting: [Double] = []
    var running: [Request] = []
    let all = due + callers.count
    while accepted < all, now < 100_000 {
      while let asked = callers.first, asked <= now { waiting.append(callers.removeFirst()) }
      while let request = running.first, request.end <= now {
        running.removeFirst()
        if let retryAfter = request.retryAfter {
          refused += 1
          _ = gate.limited(request.ticket, retryAfter: up(retryAfter), at: up(now), policy: policy)
          if let asked = request.asked { waiting.insert(asked, at: 0) } else { left += 1 }
        } else {
          accepted += 1
          #expect(gate.answered(request.ticket, at: up(now), policy: policy) == .nothing)
          if let asked = request.asked { waits.append(now - asked) }
        }
      }
      var next = [running.first?.end, callers.first].compactMap(\.self).min() ?? .infinity
      if left + waiting.count > 0 {
        switch gate.admit(isWanted: !waiting.isEmpty, accounts: due, at: up(now), policy: policy) {
        case .go(let ticket):
          let retryAfter = judge(at: now + trip / 2)
          let asked = waiting.isEmpty ? nil : waiting.removeFirst()
          if asked == nil { left -= 1 }
          running.append(Request(ticket: ticket, end: now + trip, retryAfter: retryAfter, asked: asked))
          continue
        case .full: break
        case .later(let moment): next = min(next, max(seconds(moment), now + 0.001))
        }
      }
      guard next.isFinite else { break }
      now = next
    }
  }
}

@Suite struct RateLimitTests {
  @Test(
    "5,000 due accounts at 5 requests per second: nine tenths of the rate, few 429s",
    arguments: [(5, 0.02), (10, 0.1), (10, 1.5), (50, 0.1), (300, 0.3)] as [(Double, Double)])
  func bucket(capacity: Double, trip: Double) {
    var scene = Scene(.bucket(capacity: capacity, rate: 5, retryAfter: 2), trip: trip)
    scene.run(due: 5000)
    #expect(scene.accepted == 5000)
    #expect(5000 / (capacity + scene.now * 5) >= 0.9, "\(scene.now) s")
    #expect(Double(scene.refused) / 5000 <= 0.05, "\(scene.refused) × 429")
    #expect(scene.gate.circuit.outage == nil)
  }

  @Test("A limit per second, per ten seconds or per minute", arguments: [(5, 1), (10, 10), (300, 60)])
  func window(count: Int, length: Int) {
    let limiter = Limiter.window(count: count, length: Double(length))
    var scene = Scene(limiter)
    scene.run(due: 2000)
    #expect(2000 / (limiter.burst + scene.now * limiter.rate) >= 0.9, "\(scene.now) s")
    #expect(Double(scene.refused) / 2000 <= 0.05, "\(scene.refused) × 429")
  }

  @Test("Callers wait for less than 5 seconds while thousands of accounts are due")
  func callers() {
    var scene = Scene(.bucket(capacity: 10, rate: 5, retryAfter: 2))
    scene.callers = (0..<600).map { Double($0) * 1.5 }
    scene.run(due: 4400)
    let waits = scene.waits.sorted()
    #expect(waits.count == 600)
    #expect(waits[300] < 5 && waits[570] < 10, "p50 \(waits[300]) s, p95 \(waits[570]) s")
  }

  @Test("Retry-After holds all requests, but not one without which a grant may end")
  func hold() throws {
    var gate = ProviderGate()
    func admission(_ second: Double, isUrgent: Bool = false) -> ProviderGate.Admission {
      var copy = gate
      return copy.admit(isWanted: true, isUrgent: isUrgent, accounts: 9, at: up(second), policy: steady)
    }
    guard case .go(let first) = gate.admit(isWanted: false, accounts: 9, at: up(0), policy: steady),
      case .go(let second) = gate.admit(isWanted: false, accounts: 9, at: up(0), policy: steady)
    else {
      Issue.record("no permit")
      return
    }
    let one = gate.limited(first, retryAfter: .seconds(30), at: up(0.1), policy: steady)
    #expect(one.isNew)
    #expect(admission(0.2) == .later(up(30.1)))
    let rate = gate.limit.rate
    let other = gate.limited(second, retryAfter: .seconds(40), at: up(0.2), policy: steady)
    #expect(!other.isNew)
    #expect(gate.limit.rate == rate)
    #expect(admission(30.1) == .later(up(40.2)))
    if case .go = admission(0.2, isUrgent: true) {} else { Issue.record("an urgent request was held back") }
    if case .go = admission(40.2) {} else { Issue.record("held back after Retry-After") }
    gate.limit.release(at: up(1))
    if case .go = admission(1) {} else { Issue.record("held back after a release") }
    // A user can have requests sent before the end of the hold: a 429 to them holds again, and does not lower the rate.
    for second in [1.0, 2, 3] {
      guard case .go(let early) = gate.admit(isWanted: true, accounts: 9, at: up(second), policy: steady) else {
        Issue.record("held back after a release")
        return
      }
      let again = gate.limited(early, retryAfter: .seconds(30), at: up(second), policy: steady)
      #expect(!again.isNew && gate.limit.rate == rate && gate.limit.heldUntil == up(second + 30))
      gate.limit.release(at: up(second))
    }
  }

  @Test("A long Retry-After is capped; without one the hold doubles with each 429")
  func holds() {
    var limit = RateLimit()
    var (now, holds): (Double, [Double]) = (0, [])
    for number in 1...9 as ClosedRange<UInt64> {
      limit.sends(at: up(now))
      let isNew = limit.limits(number, last: number, retryAfter: nil, at: up(now), policy: steady)
      #expect(isNew)
      holds.append(seconds(limit.heldUntil) - now)
      now = seconds(limit.heldUntil)
    }
    #expect(holds == [1, 2, 4, 8, 16, 32, 64, 64, 64])
    _ = limit.limits(10, last: 10, retryAfter: .seconds(86_400), at: up(now), policy: steady)
    #expect(limit.heldUntil == up(now + 300))
    #expect(limit.rate! >= RateLimit.lowest)
  }

  @Test("The 429s to requests that were sent before the first one lower the rate once, even after its hold")
  func oneBurst() {
    var limit = RateLimit()
    for _ in 0..<5 { limit.sends(at: up(0)) }
    limit.accepts(at: up(0.5))
    let isFirst = limit.limits(2, last: 5, retryAfter: nil, at: up(1), policy: steady)
    let rate = limit.rate
    #expect(isFirst && rate != nil)
    let isSecond = limit.limits(5, last: 5, retryAfter: nil, at: up(30), policy: steady)
    #expect(!isSecond && limit.rate == rate)
    let isNext = limit.limits(6, last: 6, retryAfter: nil, at: up(60), policy: steady)
    #expect(isNext)
  }

  @Test("A learned rate is kept over a restart and forgotten an hour after the last 429")
  func memory() {
    var limit = RateLimit(rate: 5, age: .seconds(600), at: up(1000))
    let first = limit.next(at: 1000)
    #expect(first == nil)
    limit.sends(at: up(1000))
    limit.sends(at: up(1000))
    let second = limit.next(at: 1000)
    #expect(second == 1000.15)
    #expect(limit.rate == 5)
    #expect(RateLimit(rate: 5, age: .seconds(3600), at: up(1000)).rate == nil)
    #expect(RateLimit(rate: .nan, age: .zero, at: up(1000)).rate == nil)
    #expect(RateLimit(rate: 5, age: .seconds(-1), at: up(1000)).rate == nil)
    let later = limit.next(at: 4000)
    #expect(later == nil)
    #expect(limit.rate == nil)
  }
}

extension RateLimit {
  fileprivate mutating func next(at second: Double) -> Double? { wait(at: up(second)).map(seconds) }
}
