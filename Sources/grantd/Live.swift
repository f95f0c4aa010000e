import Broker
import Glibc
import OAuth

/// The real clock and the kernel's entropy: the one place that reads them.
enum Live {
  static let surroundings = Surroundings(
    now: { now() },
    // ContinuousClock counts suspended time (CLOCK_BOOTTIME).
    sleep: { try? await ContinuousClock().sleep(for: $0) },
    randomBytes: { randomBytes($0) })

  static func now() -> Timestamp {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
  }

  @Sendable static func sinceEpoch() -> Duration { .milliseconds(now().milliseconds) }

  static func monotonic() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }

  private static func randomBytes(_ count: Int) -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    return (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
  }
}
