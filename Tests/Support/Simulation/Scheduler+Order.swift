import Scheduling

extension Scheduler {
  /// This number of jobs at one moment of virtual time is a loop that never waits.
  static let mostJobsAtOnce = 50_000

  /// Runs all runnable jobs in an order that the seed chooses: the same seed gives the same run.
  func drain(_ random: inout Randomness, atMost most: Int? = nil) -> Drained {
    drain(atMost: most, limit: Self.mostJobsAtOnce) { random.below($0) }
  }
}
