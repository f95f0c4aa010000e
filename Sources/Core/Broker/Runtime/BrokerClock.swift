import OAuth

/// The wall clock as of the last look at it, advanced by the monotonic clock. Between two looks no time steps.
@BrokerActor
final class BrokerClock {
  nonisolated let system: SystemDependencies
  private var anchor: (wall: Timestamp, uptime: Duration)

  init(_ system: SystemDependencies) {
    self.system = system
    anchor = (system.now(), system.uptime())
  }

  var now: Timestamp { anchor.wall + (system.uptime() - anchor.uptime) }
  var uptime: Duration { system.uptime() }

  /// Converts a time since boot to the current wall clock.
  func wall(_ moment: Duration) -> Timestamp { now + (moment - uptime) }

  /// Reads the wall clock again.
  ///
  /// - Returns: how far it was set; nil: it was not.
  func read() -> Duration? {
    let uptime = uptime
    let wall = system.now()
    let step = wall - (anchor.wall + (uptime - anchor.uptime))
    anchor = (wall, uptime)
    return step > Limit.clockStep || step < .zero - Limit.clockStep ? step : nil
  }
}
