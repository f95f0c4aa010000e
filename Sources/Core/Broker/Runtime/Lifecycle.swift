/// Whether the broker takes on work, and what wakes its scheduler.
@BrokerActor
final class Lifecycle {
  /// No new work begins; running work may end.
  private(set) var isDraining = false
  /// The drain is over as well: nothing is retried any more.
  private(set) var isStopped = false
  private var wakeup: AsyncStream<Void>.Continuation?

  /// Why this broker must end: another one has its state.
  private(set) var loss: StoreError?
  private var end: (@Sendable () -> Void)?

  func drain() { isDraining = true }

  /// The reason for the end, once the state belongs to another broker.
  func ends(by action: @escaping @Sendable () -> Void) {
    end = action
    if loss != nil { action() }
  }

  func lost(_ error: StoreError) {
    guard loss == nil else { return }
    loss = error
    end?()
  }

  func stop() { isStopped = true }

  /// Ends the scheduler's sleep. It does due work and computes its next time.
  func wakeScheduler() { wakeup?.yield() }

  /// Names what ``wakeScheduler()`` wakes.
  func schedulerSleeps(until wakeup: AsyncStream<Void>.Continuation?) { self.wakeup = wakeup }
}
