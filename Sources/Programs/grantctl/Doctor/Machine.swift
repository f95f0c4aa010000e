/// What the doctor looks at beside the broker: files, disks, other programs. Tests bring their own.
struct Machine: Sendable {
  struct File: Sendable, Equatable {
    enum Kind: Sendable { case file, folder, socket, other }

    var kind: Kind
    /// The permission bits.
    var mode: UInt32
    var uid: UInt32
    /// Unix seconds.
    var modifiedAt: Int64 = 0
  }

  enum Look: Sendable, Equatable {
    case found(File)
    case absent
    /// The folders above do not let us look.
    case hidden
  }

  /// A program that came to its end.
  struct Ended: Sendable, Equatable {
    var status: Int32
    var out: String
    var err: String
  }

  var look: @Sendable (String) -> Look
  /// What is in a folder; nil where that cannot be seen.
  var names: @Sendable (String) -> [String]?
  /// Bytes that the disk under a path still takes.
  var freeBytes: @Sendable (String) -> Int64?
  /// Runs a program, its output bounded; nil: it could not be started, or was ended after the time.
  var run: @Sendable ([String], Duration) async -> Ended?
  /// The same with bytes for its standard input.
  var ask: @Sendable ([String], [UInt8], Duration) async -> Ended? = { _, _, _ in nil }

  /// Where nothing can be seen.
  static let blind = Machine(
    look: { _ in .hidden }, names: { _ in nil }, freeBytes: { _ in nil }, run: { _, _ in nil })
}

extension Machine.File {
  var modeText: String {
    let digits = String(mode & 0o7777, radix: 8)
    return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }

  var isOpenToOthers: Bool { mode & 0o077 != 0 }
}
