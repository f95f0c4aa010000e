/// The programs that a command starts. Tests bring their own.
struct TerminalPrograms: Sendable {
  /// Starts a program apart from this one; false where it could not be started, or failed at once.
  var launch: @Sendable ([String]) async -> Bool
  /// Becomes another program; why not, where it cannot be.
  var become: @Sendable (ProgramStart) -> String = { _ in "there are no programs here" }
  /// Starts the process that keeps a token's file fresh.
  var startKeeper: @Sendable ([String]) -> Bool = { _ in false }
  /// Whether this is that process.
  var isKeeper: @Sendable () -> Bool = { false }
  /// In that process: whether the program ends within that number of seconds.
  var watch: @Sendable (Int64) -> Bool = { _ in true }
  /// Starts a program in its own session, with its output appended to a file; why not, if it cannot be started. The first
  /// element of the command may be the name of a program that was installed beside this one.
  var startService: @Sendable ([String], String) -> StartedService = { _, _ in .failed("there are no programs here") }
  /// The path of a program, from a path or a name in `$PATH`.
  var find: @Sendable (String) -> String?
}

/// The start of a program that goes on after this one.
enum StartedService: Sendable {
  /// It tells whether it has ended since.
  case running(hasEnded: @Sendable () -> Bool)
  /// It could not be started: the reason.
  case failed(String)
}
