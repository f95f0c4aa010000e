import NIOCore

/// When refused connections are told of: the first at once, those that follow together, so that a storm of them does not
/// fill the log.
struct Refusals: Sendable {
  /// Between two lines of the log.
  static let pause = TimeAmount.seconds(10)

  private var quietUntil = NIODeadline.uptimeNanoseconds(0)
  private var untold = 0

  /// How many were refused before it and not told of, where this one is to be told of; nil: not now.
  mutating func refused(at now: NIODeadline) -> Int? {
    guard now >= quietUntil else {
      untold += 1
      return nil
    }
    return tell(at: now)
  }

  /// How many were refused and not told of, once it is time to; nil: none, or not yet.
  mutating func due(at now: NIODeadline) -> Int? {
    untold > 0 && now >= quietUntil ? tell(at: now) : nil
  }

  private mutating func tell(at now: NIODeadline) -> Int {
    defer { untold = 0 }
    quietUntil = now + Self.pause
    return untold
  }
}
