import CSystemd
import Glibc
public import Logging

/// Structured entries for systemd's journal: `journalctl GRANTD_ACCOUNT=work` finds those of one account.
///
/// Metadata keys become fields, upper-cased and prefixed: `account` → `GRANTD_ACCOUNT`. The key `message_id` becomes
/// the journal's own `MESSAGE_ID`. Values may have several lines; other control characters and invisible formatting
/// characters are escaped, as `journalctl --all` and programs that read the journal show them.
public struct JournalLogHandler: LogHandler {
  /// Bytes of one field's value; a longer one is cut.
  static let valueLimit = 16 * 1024
  /// Metadata fields of one entry; what exceeds it is left out.
  static let fieldLimit = 64
  /// Bytes of a field's name, the journal's own limit.
  static let nameLimit = 64

  public var logLevel: Logger.Level = .info
  public var metadata: Logger.Metadata = [:]
  public var metadataProvider: Logger.MetadataProvider?

  private let identifier: String
  private let send: @Sendable ([[UInt8]]) -> Void

  /// - Parameters:
  ///   - identifier: `SYSLOG_IDENTIFIER`, the name shown before each message.
  ///   - send: takes one entry as `NAME=value` fields; the journal by default.
  public init(
    identifier: String, send: (@Sendable ([[UInt8]]) -> Void)? = nil
  ) {
    self.identifier = identifier
    self.send =
      send ?? { fields in
        LogQueue.shared.add { dropped in
          if dropped > 0 {
            Self.sendToJournal([
              Self.field("MESSAGE", LogQueue.message(dropped: dropped)),
              Self.field("PRIORITY", String(Self.priority(.warning))), Self.field("SYSLOG_IDENTIFIER", identifier),
            ])
          }
          Self.sendToJournal(fields)
        }
      }
  }

  public subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  public func log(event: LogEvent) {
    var fields = [
      Self.field("MESSAGE", event.message.description),
      Self.field("PRIORITY", String(Self.priority(event.level))),
      Self.field("SYSLOG_IDENTIFIER", identifier),
      Self.field("CODE_FILE", event.file),
      Self.field("CODE_LINE", String(event.line)),
      Self.field("CODE_FUNC", event.function),
    ]
    let pairs = mergedMetadata(of: event, logger: metadata, provider: metadataProvider)
    for (key, value) in pairs.prefix(Self.fieldLimit) {
      fields.append(Self.field(Self.name(key), value))
    }
    send(fields)
  }

  /// Writes one entry through sd_journal_sendv(3), whose length-prefixed form carries newlines in values. A journal
  /// that does not take it is no reason to fail.
  @Sendable public static func sendToJournal(_ fields: [[UInt8]]) {
    let bytes = fields.flatMap { $0 }
    bytes.withUnsafeBytes { buffer in
      guard let base = buffer.baseAddress else { return }
      var offset = 0
      var vectors: [iovec] = []
      for field in fields {
        vectors.append(iovec(iov_base: UnsafeMutableRawPointer(mutating: base + offset), iov_len: field.count))
        offset += field.count
      }
      _ = sd_journal_sendv(vectors, Int32(vectors.count))
    }
  }

  /// The journal's name for a metadata key: only upper-case letters, digits and underscores are valid there.
  static func name(_ key: String) -> String {
    if key == "message_id" { return "MESSAGE_ID" }
    let valid = key.utf8.map { byte -> UInt8 in
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): byte
      case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - 32
      default: UInt8(ascii: "_")
      }
    }
    return String(decoding: (Array("GRANTD_".utf8) + valid).prefix(nameLimit), as: UTF8.self)
  }

  /// syslog(3) levels.
  static func priority(_ level: Logger.Level) -> Int32 {
    switch level {
    case .trace, .debug: LOG_DEBUG
    case .info: LOG_INFO
    case .notice: LOG_NOTICE
    case .warning: LOG_WARNING
    case .error: LOG_ERR
    case .critical: LOG_CRIT
    }
  }

  private static func field(_ name: String, _ value: String) -> [UInt8] {
    Array("\(name)=".utf8) + LogText.lines(value).utf8.prefix(valueLimit)
  }
}
