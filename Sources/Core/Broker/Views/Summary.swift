/// The summary of all accounts: when it is due, the last one, and its subscriber.
@BrokerActor
final class Summary {
  private(set) var isDue = false
  private var said: String?
  private var action: (@Sendable (String) -> Void)?
  /// An element whenever it is due.
  nonisolated let dues: AsyncStream<Void>
  private nonisolated let due: AsyncStream<Void>.Continuation

  nonisolated init() { (dues, due) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1)) }

  /// Something that it depends on changed: an account, a provider's condition, the store. Once for all changes of a turn.
  func changed() {
    guard !isDue else { return }
    isDue = true
    due.yield()
  }

  func subscribe(_ action: @escaping @Sendable (String) -> Void) { self.action = action }

  /// The current summary.
  func report(_ text: String) {
    isDue = false
    guard let action, text != said else { return }
    said = text
    action(text)
  }
}
