package import Dispatch

extension DispatchQueue {
  /// Runs `work` on the queue, so that waiting for a disk or a server holds no thread of the concurrency pool.
  package func run<Value: Sendable, Failure: Error>(
    _ work: @escaping @Sendable () throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    let result: Result<Value, Failure> = await withCheckedContinuation { continuation in
      self.async { continuation.resume(returning: Result(catching: work)) }
    }
    return try result.get()
  }
}
