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

  // The functions that write return the reason of a failure; nil: done.

  /// A small file.
  var text: @Sendable (String) -> Text = { _ in .unreadable("there are no files here") }
  /// A file, unchanged, up to a number of bytes.
  var bytes: @Sendable (String, Int) -> Bytes = { _, _ in .unreadable("there are no files here") }
  /// Replaces a file, and makes the folders above it.
  var replace: @Sendable (String, String) -> String? = { _, _ in "there are no files here" }
  /// Writes a new file that only its owner can read: whole and on disk, or not at all. `true`: replaces an existing one.
  var save: @Sendable (String, [UInt8], Bool) -> String? = { _, _, _ in "there are no files here" }
  /// The obstacle of a path that is a folder.
  static let folderObstacle = "it is a folder"

  /// Why `save` would fail at a path, as a new file in its folder shows; nil: no reason is known. Leaves nothing there.
  var obstacle: @Sendable (String) -> String? = { _ in nil }
  /// Writes a file of another program, through a symbolic link. It has the mode of a similar file; without one only its
  /// owner can read it.
  var rewrite: @Sendable (String, [UInt8], String) -> String? = { _, _, _ in "there are no files here" }
  /// Removes a file. It may be absent.
  var remove: @Sendable (String) -> String? = { _ in "there are no files here" }
  /// A new folder for its owner alone.
  var privateFolder: @Sendable () -> String? = { nil }
  /// Why not, where it cannot be removed. Only one that is empty can be.
  var removeFolder: @Sendable (String) -> String? = { _ in nil }
  var exists: @Sendable (String) -> Bool = { _ in false }
}
