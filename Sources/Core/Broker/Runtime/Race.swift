/// Waits for its end.
@BrokerActor
final class Race {
  private var isOver = false
  private var waiter: CheckedContinuation<Void, Never>?

  /// Once.
  func wait() async {
    guard !isOver else { return }
    await withCheckedContinuation { waiter = $0 }
  }

  func end() {
    isOver = true
    waiter?.resume()
    waiter = nil
  }
}
