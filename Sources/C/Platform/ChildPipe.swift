import CLinux
import Glibc

/// A pipe to or from a program. Closed when it is let go.
public struct ChildPipe: ~Copyable {
  public enum End: Sendable { case reading, writing }

  /// Turns of one emptying: a program that left its group could write for ever.
  private static let drains = 64
  private static let readAtOnce = 4096

  public private(set) var reading: Int32 = -1
  public private(set) var writing: Int32 = -1
  /// What was read.
  public private(set) var kept: [UInt8] = []
  private var unwritten: ArraySlice<UInt8> = []
  private let limit: Int

  /// - Parameter limit: bytes of what is read that are kept; the rest is thrown away.
  public init(keeping limit: Int = 0) {
    self.limit = limit
  }

  deinit {
    if reading >= 0 { close(reading) }
    if writing >= 0 { close(writing) }
  }

  /// - Parameter end: ours, which never waits.
  public mutating func open(keeping end: End) -> Bool {
    var ends: [Int32] = [-1, -1]
    guard clinux_pipe(&ends, end == .reading ? 0 : 1) == 0 else { return false }
    (reading, writing) = (ends[0], ends[1])
    return true
  }

  /// Writes as much as goes in; ``write()`` the rest. At its end the writing end is closed.
  public mutating func write(_ bytes: [UInt8]) {
    unwritten = bytes[...]
    write()
  }

  public mutating func write() {
    while writing >= 0, !unwritten.isEmpty {
      let count = unwritten.withUnsafeBytes { Glibc.write(writing, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN { return }
      guard count > 0 else { break }
      unwritten.removeFirst(count)
    }
    closeWriting()
  }

  /// Whether nothing more can be read.
  public var isAtEnd: Bool { reading < 0 }

  public mutating func closeWriting() {
    guard writing >= 0 else { return }
    close(writing)
    writing = -1
  }

  /// False: there is nothing more now. At the end the reading end is closed.
  @discardableResult
  public mutating func read() -> Bool {
    guard reading >= 0 else { return false }
    var buffer = [UInt8](repeating: 0, count: Self.readAtOnce)
    let count = Glibc.read(reading, &buffer, buffer.count)
    if count > 0 {
      kept += buffer[..<min(count, limit - kept.count)]
      return true
    }
    if count < 0, errno == EAGAIN || errno == EINTR { return false }
    close(reading)
    reading = -1
    return false
  }

  public mutating func drain() {
    for _ in 0..<Self.drains where !read() { return }
  }
}
