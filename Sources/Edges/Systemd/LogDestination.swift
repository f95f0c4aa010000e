import Glibc
public import Logging

/// Where log lines belong: the journal when it is what standard error leads to, else standard error as text.
public enum LogDestination: Hashable, Sendable {
  case journal
  case console

  /// The descriptors and variables of this process.
  public static func current() -> LogDestination {
    guard let value = getenv("JOURNAL_STREAM"), let stream = JournalStream(String(cString: value)),
      stream == JournalStream(descriptor: STDERR_FILENO)
    else { return .console }
    return .journal
  }

  /// A handler that writes there, by ``LogQueue/shared``.
  ///
  /// - Parameters:
  ///   - identifier: the program's name in the journal.
  ///   - now: the time since 1970-01-01T00:00:00Z; the journal reads its own clock.
  public func handler(identifier: String, now: @escaping @Sendable () -> Duration) -> any LogHandler {
    switch self {
    case .journal: JournalLogHandler(identifier: identifier)
    case .console: ConsoleLogHandler(now: now)
    }
  }
}

/// The file that `JOURNAL_STREAM` names. A service may have redirected standard error since, so the variable alone
/// proves nothing (systemd.exec(5)).
struct JournalStream: Hashable {
  let device: UInt64
  let inode: UInt64

  /// `DEVICE:INODE`, both decimal.
  init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2, let device = UInt64(parts[0]), let inode = UInt64(parts[1]) else { return nil }
    self.device = device
    self.inode = inode
  }

  init?(descriptor: Int32) {
    var file = stat()
    guard fstat(descriptor, &file) == 0 else { return nil }
    device = UInt64(file.st_dev)
    inode = UInt64(file.st_ino)
  }
}
