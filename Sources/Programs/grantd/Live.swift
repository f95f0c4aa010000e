import Broker
import Callers
import Glibc
import OAuth
import Principals
import SystemEvents

/// The real clock and the kernel's entropy: the one place that reads them.
enum Live {
  static let system = SystemDependencies(
    now: { now() },
    uptime: { uptime() },
    // ContinuousClock counts suspended time (CLOCK_BOOTTIME).
    sleep: { try? await ContinuousClock().sleep(for: $0) },
    randomBytes: { randomBytes($0) },
    holder: { Holder.ofUser($0) })

  /// Calls `attempt` after a pause, unless the task is cancelled before.
  static func retry(after pause: Duration, _ attempt: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
    Task {
      await system.sleep(pause)
      if !Task.isCancelled { await attempt() }
    }
  }

  static func now() -> Timestamp {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
  }

  @Sendable static func sinceEpoch() -> Duration { .milliseconds(now().milliseconds) }

  /// Counts suspended time, and is the clock that the sleeps are on.
  static func uptime() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }

  static var host: String {
    var name = [CChar](repeating: 0, count: 256)
    guard gethostname(&name, name.count - 1) == 0 else { return "this machine" }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  static func monotonic() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }

  /// How far apart in time the clocks of one sample may be read.
  private static let sampleTolerance = Duration.milliseconds(100)

  /// Read again where something else ran between the clocks: that would look as if one of them had jumped.
  @Sendable static func clocks() -> ClockSample {
    var sample = ClockSample(wall: sinceEpoch(), monotonic: monotonic(), boottime: uptime())
    for _ in 0..<10 {
      let begun = uptime()
      sample = ClockSample(wall: sinceEpoch(), monotonic: monotonic(), boottime: uptime())
      if sample.boottime - begun < sampleTolerance { break }
    }
    return sample
  }

  private static func randomBytes(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    // getentropy(3) gives 256 bytes at most, in one call to the kernel.
    for start in stride(from: 0, to: count, by: 256) {
      let length = min(256, count - start)
      let isFilled = bytes.withUnsafeMutableBytes { getentropy($0.baseAddress.map { $0 + start }, length) == 0 }
      precondition(isFilled, "the kernel has no entropy")
    }
    return bytes
  }
}
