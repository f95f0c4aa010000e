/// Why a key cannot be had or kept. The texts are for people, without a full stop.
public enum SealingError: Error, Sendable, Equatable {
  /// It cannot be read, has the wrong form, or others may use its file.
  case unusableKey(source: String, detail: String)
  /// A folder cannot be made, or other users could replace files in it.
  case unusableFolder(path: String, detail: String)
  /// A key's file could not be written. The old file is unharmed.
  case unwritable(path: String, detail: String)

  public var detail: String {
    switch self {
    case .unusableKey(_, let detail), .unusableFolder(_, let detail), .unwritable(_, let detail): detail
    }
  }
}
