/// A change of the machine after which waiting work is tried at once.
public enum SystemEvent: Sendable, Hashable {
  /// A link became operational, or a global address or a default route appeared.
  case networkUp
  /// The machine resumed after a suspend.
  case resumed
  /// The wall clock was set; positive: forwards.
  case clockStepped(by: Duration)
}

/// The three clocks, read in one moment.
public struct ClockSample: Sendable, Equatable {
  /// Since 1970 (`CLOCK_REALTIME`).
  public var wall: Duration
  /// Stands still in suspend (`CLOCK_MONOTONIC`).
  public var monotonic: Duration
  /// Goes on in suspend (`CLOCK_BOOTTIME`).
  public var boottime: Duration

  public init(wall: Duration, monotonic: Duration, boottime: Duration) {
    self.wall = wall
    self.monotonic = monotonic
    self.boottime = boottime
  }
}
