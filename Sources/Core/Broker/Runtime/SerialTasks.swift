/// Tasks that run one after the other, in the order in which they were added.
public struct SerialTasks<Value: Sendable>: Sendable {
  /// The task that was added last.
  public private(set) var latest: Task<Value, Never>?

  public init() {}

  /// Runs `work` when all earlier tasks have ended.
  public mutating func add(_ work: @escaping @Sendable () async -> Value) -> Task<Value, Never> {
    let before = latest
    let task = Task {
      _ = await before?.value
      return await work()
    }
    latest = task
    return task
  }
}
