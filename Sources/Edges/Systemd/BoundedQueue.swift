import Dispatch
import Synchronization

/// Work in order on a separate thread, which may block.
final class BoundedQueue: Sendable {
  private let queue: DispatchQueue
  private let pending = Atomic(0)

  init(label: String) {
    queue = DispatchQueue(label: label)
  }

  /// False, and nothing is done: so much is waiting.
  @discardableResult
  func add(atMost limit: Int, _ work: @escaping @Sendable () -> Void) -> Bool {
    guard pending.add(1, ordering: .relaxed).newValue <= limit else {
      pending.subtract(1, ordering: .relaxed)
      return false
    }
    queue.async { [self] in
      work()
      pending.subtract(1, ordering: .relaxed)
    }
    return true
  }

  /// The same as ``settle(within:)``, without other work at the same time.
  func wait(within limit: Duration) {
    let done = DispatchSemaphore(value: 0)
    queue.async { done.signal() }
    let seconds = limit / .milliseconds(1)
    _ = done.wait(timeout: .now() + .milliseconds(Int(seconds)))
  }

  /// Waits for earlier work, at most `limit`.
  func settle(within limit: Duration) async {
    let (done, ended) = AsyncStream.makeStream(of: Void.self)
    queue.async { ended.finish() }
    let timer = Task {
      try await Task.sleep(for: limit)
      ended.finish()
    }
    for await _ in done {}
    timer.cancel()
  }
}
