import BrokerAPI
import Logging
import OAuth

/// What every piece of the broker may use: time, waiting, the broker's end, and telling others what happened. None of it
/// knows an account or a provider.
struct Runtime: Sendable {
  let clock: BrokerClock
  let waiters: Waiters
  let lifecycle: Lifecycle
  let events: Events
  let measures: Measures
  let logger: Logger
}

/// A part of the broker that owns its state. What else it may call is in its initialiser.
@BrokerActor
protocol Piece: AnyObject {
  var runtime: Runtime { get }
}

extension Piece {
  var now: Timestamp { runtime.clock.now }
  /// Time since the machine started, which nobody can set.
  var uptime: Duration { runtime.clock.uptime }
  func wall(_ moment: Duration) -> Timestamp { runtime.clock.wall(moment) }
  var surroundings: Surroundings { runtime.clock.surroundings }
  var logger: Logger { runtime.logger }
  var measures: Measures { runtime.measures }
  var waiters: Waiters { runtime.waiters }
  var isDraining: Bool { runtime.lifecycle.isDraining }
  var isStopped: Bool { runtime.lifecycle.isStopped }

  func wakeScheduler() { runtime.lifecycle.wakeScheduler() }
  func emit(_ event: Event) { runtime.events.emit(event) }
  func wait(for key: Waiters.Key, until deadline: Duration) async { await waiters.wait(for: key, until: deadline) }
}
