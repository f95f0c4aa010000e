import NIOCore

/// What the loop does later. There are few: two that repeat, and one for each closing connection whose client does not
/// read. So all are looked at, but only when the earliest is due.
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
  /// The earliest that there was: a cancelled one may have been it. Nil: there is none.
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

  /// Takes what is due, in its order.
  mutating func takeDue(at now: NIODeadline) -> [Action] {
    guard let earliest, now >= earliest else { return [] }
    let due = timers.filter { $0.value.due <= now }.sorted { ($0.value.due, $0.key) < ($1.value.due, $1.key) }
    for (key, timer) in due {
      if let interval = timer.interval { timers[key]?.due = now + interval } else { timers[key] = nil }
    }
    self.earliest = timers.values.map(\.due).min()
    return due.map(\.value.action)
  }
}
