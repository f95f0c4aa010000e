import Testing

extension Trait where Self == TimeLimitTrait {
  /// For all suites: it only ends what hangs. All tests of a run begin at once, and the time in which one waits for its
  /// turn counts.
  static var atMost: Self { .timeLimit(.minutes(15)) }
}
