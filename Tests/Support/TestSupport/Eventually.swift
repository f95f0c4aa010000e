import Foundation

/// How much slower everything is here than it should be, such as under a sanitizer (scripts/search/sanitize).
public let slowness = ProcessInfo.processInfo.environment["GRANTD_TEST_SLOWNESS"].flatMap(Int.init) ?? 1

/// What was waited for did not come.
public struct TimedOut: Error, CustomStringConvertible {
  public let description: String
}

/// Asks until there is an answer. Each wait of the tests that run for real is bounded by this. The bound only ends what
/// hangs: a busy machine may need many seconds for a step of milliseconds.
///
/// - Parameters:
///   - limit: multiplied by ``slowness``.
///   - pause: between two questions.
public func eventually<Answer>(
  _ what: String, within limit: Duration = .seconds(60), every pause: Duration = .milliseconds(10),
  _ probe: () async throws -> Answer?
) async throws -> Answer {
  let end = ContinuousClock.now + limit * slowness
  while true {
    if let answer = try await probe() { return answer }
    guard ContinuousClock.now < end else { throw TimedOut(description: "not within \(limit): \(what)") }
    try await Task.sleep(for: pause)
  }
}

/// Asks until it is so.
public func eventually(
  _ what: String, within limit: Duration = .seconds(60), every pause: Duration = .milliseconds(10),
  isTrue probe: () async throws -> Bool
) async throws {
  _ = try await eventually(what, within: limit, every: pause) { try await probe() ? true : nil }
}

/// Whether it comes true in time: for an expectation, which shows its condition itself.
public func eventually(
  within limit: Duration = .seconds(60), every pause: Duration = .milliseconds(10),
  _ condition: () async throws -> Bool
) async -> Bool {
  (try? await eventually("a condition", within: limit, every: pause, isTrue: condition)) != nil
}

/// Ends what hangs: does this after the time, unless it is cancelled by then. No test waits for it that succeeds.
public func timeOut(after limit: Duration, _ action: @escaping @Sendable () async -> Void) -> Task<Void, any Error> {
  Task {
    try await Task.sleep(for: limit * slowness)
    await action()
  }
}
