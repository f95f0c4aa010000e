public import Logging
import Synchronization

/// What was logged, in its order.
public final class LoggedLines: Sendable {
  public struct Line: Sendable {
    public var level: Logger.Level
    public var text: String
    public var metadata: Logger.Metadata

    /// With the metadata behind it, in the order of its names.
    public var whole: String {
      text + metadata.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
    }
  }

  private let lines = Mutex<[Line]>([])

  public init() {}

  public var all: [Line] { lines.withLock { $0 } }

  /// - Parameter level: the least important that is kept.
  public func logger(_ level: Logger.Level = .info) -> Logger {
    Logger(label: "test") { [self] _ in Handler(lines: self, logLevel: level) }
  }

  private struct Handler: LogHandler {
    let lines: LoggedLines
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
      lines.lines.withLock {
        $0.append(Line(level: event.level, text: "\(event.message)", metadata: event.metadata ?? [:]))
      }
    }
  }
}
