/// The files that a command reads and writes. Tests bring their own.
struct TerminalFiles: Sendable {
  enum Text: Sendable, Equatable {
    /// `isOpenToOthers`: more than its owner and its group may read it.
    case text(String, isOpenToOthers: Bool)
    /// Why it cannot be read.
    case unreadable(String)
  }

  enum Bytes: Sendable, Equatable {
    case bytes([UInt8], isOpenToOthers: Bool = false)
    /// Why it cannot be read.
    case unreadable(String)
  }

  /// A small file.
  var text: @Sendable (String) -> Text = { _ in .unreadable("there are no files here") }
  /// A file of at most so many bytes, as it is.
  var bytes: @Sendable (String, Int) -> Bytes = { _, _ in .unreadable("there are no files here") }
  /// Replaces a file, and makes the folders above it; why not, where it cannot be.
  var replace: @Sendable (String, String) -> String? = { _, _ in "there are no files here" }
  /// A new file for its owner alone, whole and on disk or not there at all; why not, where it cannot be. `true`: also in
  /// the place of one that is there.
  var save: @Sendable (String, [UInt8], Bool) -> String? = { _, _, _ in "there are no files here" }
  /// Why `save` would fail at a path, as far as its folder shows; nil: no reason is known. Writes nothing.
  var obstacle: @Sendable (String) -> String? = { _ in nil }
  /// Writes a file of another program, with the mode of a file that is like it, else for its owner alone; through a
  /// symbolic link. Why not, where it cannot be.
  var rewrite: @Sendable (String, [UInt8], String) -> String? = { _, _, _ in "there are no files here" }
  /// Why not, where it cannot be removed. One that is not there is removed.
  var remove: @Sendable (String) -> String? = { _ in "there are no files here" }
  /// A new folder for its owner alone.
  var privateFolder: @Sendable () -> String? = { nil }
  /// Why not, where it cannot be removed. Only one that is empty can be.
  var removeFolder: @Sendable (String) -> String? = { _ in nil }
  var exists: @Sendable (String) -> Bool = { _ in false }
}
