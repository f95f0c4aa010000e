import NIOCore

/// The loop's timers: the time-outs' tick, the watchdog, and one for each closing connection whose client does not read.
/// They are few, so all are searched when the earliest is due.
struct Timers {
  typealias Action = (SocketLoop) -> Void

  private struct Timer {
    var due: NIODeadline
    /// Between two runs; nil: runs once.
    var interval: TimeAmount?
    var action: Action
  }

  private var timers: [UInt64: Timer] = [:]
  private var lastKey: UInt64 = 0
  /// When to look next. It may be that of a cancelled timer. Nil: never.
  private(set) var earliest: NIODeadline?

  @discardableResult
  mutating func add(at due: NIODeadline, every interval: TimeAmount? = nil, _ action: @escaping Action) -> UInt64 {
    lastKey += 1
    timers[lastKey] = Timer(due: due, interval: interval, action: action)
    earliest = min(earliest ?? due, due)
    return lastKey
  }

  mutating func cancel(_ key: UInt64) { timers[key] = nil }

  mutating func cancelAll() { (timers, earliest) = ([:], nil) }

  /// Removes the due timers, or schedules them again, and returns their actions in order.
  mutating func popDue(at now: NIODeadline) -> [Action] {
    guard let earliest, now >= earliest else { return [] }
    let due = timers.filter { $0.value.due <= now }.sorted { ($0.value.due, $0.key) < ($1.value.due, $1.key) }
    for (key, timer) in due {
      if let interval = timer.interval { timers[key]?.due = now + interval } else { timers[key] = nil }
    }
    self.earliest = timers.values.map(\.due).min()
    return due.map(\.value.action)
  }
}
