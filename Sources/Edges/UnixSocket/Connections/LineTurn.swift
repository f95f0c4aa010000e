/// The lines that a connection may still take in this iteration of the loop.
struct LineTurn {
  /// Lines taken in one iteration, blank ones too.
  static let most = 256

  var left = 0
  private var number: UInt64 = 0
  /// The loop calls the connection in its next iteration.
  private var isAwaited = false

  mutating func begin(_ number: UInt64) {
    if number != self.number { (self.number, left) = (number, Self.most) }
  }

  /// False: the next iteration is already awaited.
  mutating func awaitNext() -> Bool {
    defer { isAwaited = true }
    return !isAwaited
  }

  mutating func resume() { isAwaited = false }
}
