import Synchronization

/// Set once, from anywhere.
final class Flag: Sendable {
  private let value = Atomic(false)
  var isSet: Bool { value.load(ordering: .acquiring) }
  func set() { value.store(true, ordering: .releasing) }
}

/// Limits a wait until it is stopped: what comes behind may take its time.
final class Timer: Sendable {
  private let time: Duration
  private let isStopped = Flag()
  private let late = Flag()

  init(_ time: Duration) { self.time = time }

  var isLate: Bool { late.isSet }
  func stop() { isStopped.set() }

  func limit(_ work: @escaping @Sendable () async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Bool.self) { group in
      group.addTask {
        try await work()
        return true
      }
      group.addTask { [self] in
        try await Task.sleep(for: time)
        guard !isStopped.isSet else { return false }
        late.set()
        throw CancellationError()
      }
      defer { group.cancelAll() }
      while let isDone = try await group.next() {
        if isDone { return }
      }
    }
  }
}
