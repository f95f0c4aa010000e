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
  private let onLoss: @Sendable () -> Void

  init(onLoss: @escaping @Sendable () -> Void = {}) { self.onLoss = onLoss }

  func drain() { isDraining = true }

  func lost(_ error: StoreError) {
    guard loss == nil else { return }
    loss = error
    onLoss()
  }

  func stop() { isStopped = true }

  /// Ends the scheduler's sleep. It does due work and computes its next time.
  func wakeScheduler() { wakeup?.yield() }

  /// Names what ``wakeScheduler()`` wakes.
  func schedulerSleeps(until wakeup: AsyncStream<Void>.Continuation?) { self.wakeup = wakeup }
}
