import Scheduling
import Testing

/// Runs each test of a suite and all tasks that it starts on one thread, which knows when it is idle. The next test begins
/// when no job of the last one can run.
struct Scheduled: SuiteTrait, TestTrait, TestScoping {
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    await IdleThread.shared.idle()
    let result: Result<Void, any Error>
    do { result = .success(try await function()) } catch { result = .failure(error) }
    await IdleThread.shared.idle()
    await IdleThread.shared.leave()
    try result.get()
  }
}

extension Trait where Self == Scheduled {
  /// For suites that wait for tasks: ``settle()``, ``eventually(isolation:_:)`` and the waits of the clock are exact there.
  static var scheduled: Self { Scheduled() }
}

/// Returns when all tasks wait for an action of the test: its clock, its store, its provider, or a further call.
func settle() async {
  if !Scheduler.shared.isDriver { Issue.record("only suites with the trait .scheduled can wait") }
  await IdleThread.shared.idle()
}

/// Whether a condition holds as soon as all tasks wait for the test.
func eventually(
  isolation: isolated (any Actor)? = #isolation, _ condition: () async throws -> Bool
) async rethrows -> Bool {
  await settle()
  return try await condition()
}
