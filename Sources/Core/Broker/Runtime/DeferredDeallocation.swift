import Synchronization

/// Large values are freed in steps.
protocol Divisible {
  /// Lets go of a piece; false: nothing large is left.
  mutating func shorten() -> Bool
}

/// A value that takes long to free, such as the grants of a whole backup: a hundred thousand of them take a tenth of a
/// second. It is freed outside the actor, which must hold no part of it, in steps between other work: there are only as
/// many threads for such work as processors.
final class DeferredDeallocation<Value: Divisible & Sendable>: Sendable {
  private let content: Mutex<Value?>

  init(_ value: Value) { content = Mutex(value) }

  /// - Precondition: it is not freed.
  var value: Value { content.withLock { $0! } }

  func free() {
    Task.detached {
      guard var value = self.content.withLock({ $0.take() }) else { return }
      while value.shorten() { await yieldActor() }
    }
  }
}

extension Array {
  /// False: it was empty.
  fileprivate mutating func releaseBatch(_ count: Int) -> Bool {
    guard !isEmpty else { return false }
    removeLast(Swift.min(count, self.count))
    return true
  }
}

extension Array: Divisible {
  /// The kernel takes the pages of bytes back at once.
  mutating func shorten() -> Bool { Element.self != UInt8.self && releaseBatch(Batch.light) }
}

extension Backup: Divisible {
  mutating func shorten() -> Bool {
    state.grants.shorten() || state.tokens.shorten() || state.intents.shorten()
  }
}

/// The plan of a restoration, and the part to write.
struct PlannedRestoration: Divisible, Sendable {
  var plan: Restoration
  var changes: [Change]

  mutating func shorten() -> Bool { changes.shorten() || plan.shorten() }
}
