import OAuth

/// A burst and a rate per minute.
struct MinuteBudget: Sendable {
  let most: Double
  private var left: Double
  /// Milliseconds since the machine started.
  private var at: Int64?

  init(_ most: Int) {
    self.most = Double(most)
    left = Double(most)
  }

  /// The remaining amount at a time, in milliseconds since boot.
  func left(at uptime: Int64) -> Double {
    min(most, left + Double(max(0, uptime - (at ?? uptime))) / 60_000 * most)
  }

  func isFull(at uptime: Int64) -> Bool { left(at: uptime) >= most }

  /// False, and nothing is taken: it is used up.
  mutating func take(at uptime: Int64) -> Bool {
    let now = left(at: uptime)
    guard now >= 1 else { return false }
    left = now - 1
    at = uptime
    return true
  }
}

/// Log lines of one cause that a caller without any right can produce. Beyond its budget they are counted, and the count
/// is logged.
struct LogBudget: Sendable {
  private var budget: MinuteBudget
  private(set) var omitted = 0

  init(_ linesPerMinute: Int) { budget = MinuteBudget(linesPerMinute) }

  /// How many lines before this one were omitted; nil: omit this one too.
  mutating func take(at uptime: Duration) -> Int? {
    guard budget.take(at: uptime.milliseconds) else {
      omitted += 1
      return nil
    }
    defer { omitted = 0 }
    return omitted
  }

  /// Whether it is as a new one.
  func isIdle(at uptime: Duration) -> Bool { omitted == 0 && budget.isFull(at: uptime.milliseconds) }

  /// How many lines were omitted and not yet reported; nil: none, or the budget is used up still.
  mutating func due(at uptime: Duration) -> Int? {
    guard omitted > 0, budget.take(at: uptime.milliseconds) else { return nil }
    defer { omitted = 0 }
    return omitted
  }
}
