public import OAuth
public import Principals

/// Clock, entropy and the owners of user ids: read only by the composition root.
public struct SystemDependencies: Sendable {
  /// The wall clock: may be wrong, and may step.
  public var now: @Sendable () -> Timestamp
  /// Time since the machine started, suspended time included: never steps. What deadlines are counted on.
  public var uptime: @Sendable () -> Duration
  /// Sleeps on a clock that counts suspended time; ends early when the task is cancelled.
  public var sleep: @Sendable (Duration) async -> Void
  public var randomBytes: @Sendable (Int) -> [UInt8]
  /// The holder of a user id whose process is not known. A subordinate user id belongs to its owner (subuid(5)).
  public var holder: @Sendable (UInt32) -> Holder

  public init(
    now: @escaping @Sendable () -> Timestamp, uptime: @escaping @Sendable () -> Duration,
    sleep: @escaping @Sendable (Duration) async -> Void,
    randomBytes: @escaping @Sendable (Int) -> [UInt8],
    holder: @escaping @Sendable (UInt32) -> Holder = { Holder(uid: $0) }
  ) {
    self.now = now
    self.uptime = uptime
    self.sleep = sleep
    self.randomBytes = randomBytes
    self.holder = holder
  }

  /// From 0 to 1.
  func jitter() -> Double { jitters(1)[0] }

  /// In batches: a million accounts would ask the kernel a million times.
  func jitters(_ count: Int) -> [Double] {
    let bytes = randomBytes(4 * count)
    return (0..<count).map { index in
      let number = bytes[(4 * index)..<(4 * index + 4)].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
      return Double(number) / Double(UInt32.max)
    }
  }

  /// Unguessable text of this many random bytes.
  func token(bytes: Int) -> String { base64URL(randomBytes(bytes)) }
}
