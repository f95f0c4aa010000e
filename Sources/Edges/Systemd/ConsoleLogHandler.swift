import Glibc
public import Logging

/// One line per event on standard error, for people: time, level, message, `key=value`.
///
/// Nothing in a line can forge another one or drive a terminal: control characters are escaped, and each part is
/// bounded.
public struct ConsoleLogHandler: LogHandler {
  /// Bytes of a metadata value.
  static let valueLimit = 512
  /// Bytes of a message.
  static let messageLimit = 2048

  public var logLevel: Logger.Level = .info
  public var metadata: Logger.Metadata = [:]
  public var metadataProvider: Logger.MetadataProvider?

  private let now: @Sendable () -> Duration
  private let write: @Sendable (String) -> Void

  /// - Parameters:
  ///   - now: the time since 1970-01-01T00:00:00Z.
  ///   - write: takes a whole line, its newline included; standard error by default.
  public init(
    now: @escaping @Sendable () -> Duration, write: (@Sendable (String) -> Void)? = nil
  ) {
    self.now = now
    self.write =
      write ?? { line in
        LogQueue.shared.add { dropped in
          if dropped > 0 {
            let level = Logger.Level.warning.rawValue.padding(to: 8)
            Self.writeToStandardError(
              "\(Self.timestamp(now())) \(level) \(LogQueue.message(dropped: dropped))\n")
          }
          Self.writeToStandardError(line)
        }
      }
  }

  public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  public func log(event: LogEvent) {
    let level = event.level.rawValue.padding(to: 8)
    var line = "\(Self.timestamp(now())) \(level) "
    line += LogText.escaped(event.message.description, limit: Self.messageLimit)
    for (key, value) in mergedMetadata(of: event, logger: metadata, provider: metadataProvider) {
      line += " \(LogText.escaped(key, limit: 64))=\(LogText.value(value, limit: Self.valueLimit))"
    }
    write(line + "\n")
  }

  /// Complete lines in one call, so that lines of several threads do not mix. A closed reader is not a failure.
  @Sendable public static func writeToStandardError(_ line: String) {
    var line = line
    line.withUTF8 { bytes in
      var rest = UnsafeRawBufferPointer(bytes)
      while !rest.isEmpty {
        let count = Glibc.write(STDERR_FILENO, rest.baseAddress, rest.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return }
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
      }
    }
  }

  /// RFC 3339, UTC, milliseconds.
  static func timestamp(_ sinceEpoch: Duration) -> String {
    let (whole, attoseconds) = sinceEpoch.components
    var seconds = time_t(whole)
    var parts = tm()
    gmtime_r(&seconds, &parts)
    let date = [Int(parts.tm_year) + 1900, Int(parts.tm_mon) + 1, Int(parts.tm_mday)].map { digits($0, 2) }
    let time = [parts.tm_hour, parts.tm_min, parts.tm_sec].map { digits(Int($0), 2) }
    let milliseconds = digits(Int(attoseconds / 1_000_000_000_000_000), 3)
    return "\(date.joined(separator: "-"))T\(time.joined(separator: ":")).\(milliseconds)Z"
  }

  private static func digits(_ number: Int, _ width: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, width - text.count)) + text
  }
}

extension String {
  fileprivate func padding(to width: Int) -> String {
    self + String(repeating: " ", count: max(0, width - count))
  }
}
