import Synchronization

/// What takes long to free is freed in pieces.
protocol Divisible {
  /// Lets go of a piece; false: nothing large is left.
  mutating func shorten() -> Bool
}

/// A value that takes long to free, such as the grants of a whole backup: a hundred thousand of them take a tenth of a second.
/// It is freed beside the actor, which has to have let go of all that it took out of it, and in turns with everything
/// else: there are no more threads for such work than processors.
final class Large<Value: Divisible & Sendable>: Sendable {
  private let content: Mutex<Value?>

  init(_ value: Value) { content = Mutex(value) }

  /// - Precondition: it is not freed.
  var value: Value { content.withLock { $0! } }

  func free() {
    Task.detached {
      guard var value = self.content.withLock({ $0.take() }) else { return }
      while value.shorten() { await giveWay() }
    }
  }
}

extension Array {
  /// False: it was empty.
  fileprivate mutating func letGo(_ count: Int) -> Bool {
    guard !isEmpty else { return false }
    removeLast(Swift.min(count, self.count))
    return true
  }
}

extension Array: Divisible {
  /// Of bytes the kernel takes the pages back at once.
  mutating func shorten() -> Bool { Element.self != UInt8.self && letGo(Slices.light) }
}

extension Backup: Divisible {
  mutating func shorten() -> Bool {
    state.grants.shorten() || state.tokens.shorten() || state.intents.shorten()
  }
}

/// What a restoration comes to, and what of it is written.
struct PlannedRestoration: Divisible, Sendable {
  var plan: Restoration
  var changes: [Change]

  mutating func shorten() -> Bool { changes.shorten() || plan.shorten() }
}
