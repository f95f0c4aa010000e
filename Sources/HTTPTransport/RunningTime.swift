/// Time in which this process ran. A suspended machine and a stopped process (SIGSTOP) do not count: an answer that came
/// meanwhile is in the socket's buffer, and is read before anybody gives it up.
struct RunningTime<Time: Clock<Duration>>: Sendable {
  /// A sleep is made of sleeps of this length. One that ends later than this after its end is from before a freeze.
  let tick: Duration
  private let clock: Time

  init(tick: Duration = .seconds(1), _ clock: Time) {
    self.tick = tick
    self.clock = clock
  }

  /// Returns once the process has run so long, and has run since the last freeze for one tick at least. Throws where the
  /// task is cancelled.
  func sleep(for duration: Duration) async throws {
    var left = duration
    var isLate = false
    while left > .zero || isLate {
      let pause = left > .zero ? min(left, tick) : tick
      let begun = clock.now
      try await clock.sleep(for: pause)
      let passed = begun.duration(to: clock.now)
      isLate = passed > pause + tick
      left -= isLate ? pause : passed
    }
  }
}

extension RunningTime where Time == ContinuousClock {
  init() { self.init(ContinuousClock()) }
}
