/// When the summary of all accounts is due.
@BrokerActor
final class Summary {
  private(set) var isDue = false
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

  /// It is read now: later changes make it due again.
  func markRead() { isDue = false }
}
