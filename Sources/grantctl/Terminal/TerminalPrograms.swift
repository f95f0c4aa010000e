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
  /// In that process: whether the program ends within so many seconds.
  var watch: @Sendable (Int64) -> Bool = { _ in true }
  /// The path of a program, from a path or a name in `$PATH`.
  var find: @Sendable (String) -> String?
}
