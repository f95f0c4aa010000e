import NIOCore

/// Time in which this process ran. A suspended machine and a stopped process (SIGSTOP) do not count: an answer of that
/// time is in the socket's buffer, and is read before it is given up.
struct RunningTime: Sendable {
  /// A sleep is made of sleeps of this length. One that ends later than this after its end is from before a freeze.
  static let tick = Duration.seconds(1)

  /// The event loops' time, and a sleep.
  var now: @Sendable () -> NIODeadline = { .now() }
  var pause: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }

  /// Returns once the process has run so long, and has run since the last freeze for one tick at least. Throws where the
  /// task is cancelled.
  func sleep(for duration: Duration) async throws {
    var left = duration
    var isLate = false
    while left > .zero || isLate {
      let planned = left > .zero ? min(left, Self.tick) : Self.tick
      let begun = now()
      try await pause(planned)
      let passed = Duration(now() - begun)
      isLate = passed > planned + Self.tick
      left -= isLate ? planned : passed
    }
  }
}
