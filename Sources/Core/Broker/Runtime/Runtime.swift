import BrokerAPI
import Logging
import OAuth

/// Common services for every piece of the broker: time, waiting, the broker's end, and notifications. None of them
/// depends on accounts or providers.
struct Runtime: Sendable {
  let clock: BrokerClock
  let waiters: Waiters
  let lifecycle: Lifecycle
  let events: Events
  let measures: Metrics
  let summary: Summary
  let logger: Logger
}

/// A part of the broker that owns its state. Its initialiser names the pieces that it calls.
@BrokerActor
protocol Piece: AnyObject {
  var runtime: Runtime { get }
}

extension Piece {
  var now: Timestamp { runtime.clock.now }
  /// Time since boot, which no user can set.
  var uptime: Duration { runtime.clock.uptime }
  func wall(_ moment: Duration) -> Timestamp { runtime.clock.wall(moment) }
  var system: SystemDependencies { runtime.clock.system }
  var logger: Logger { runtime.logger }
  var measures: Metrics { runtime.measures }
  var waiters: Waiters { runtime.waiters }
  var isDraining: Bool { runtime.lifecycle.isDraining }
  var isStopped: Bool { runtime.lifecycle.isStopped }

  func wakeScheduler() { runtime.lifecycle.wakeScheduler() }
  func emit(_ event: Event) { runtime.events.emit(event) }
  func wait(for key: Waiters.Key, until deadline: Duration) async { await waiters.wait(for: key, until: deadline) }
}
