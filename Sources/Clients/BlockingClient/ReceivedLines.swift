import Glibc

/// What a server has sent, as lines.
public struct ReceivedLines {
  /// Bytes of one line, if the client has no lower limit.
  public static let longestLine = 64 * 1024 * 1024

  private let longest: Int
  private var bytes: [UInt8] = []
  /// Where the next line begins.
  private var start = 0
  /// There is no newline before it.
  private var scanned = 0

  public init(longest: Int = longestLine) { self.longest = longest }

  /// Whether the line that has begun is longer than a line may be.
  public var isTooLong: Bool { bytes.count - start > longest }

  /// Whether no line has begun.
  public var isEmpty: Bool { bytes.count == start }

  public mutating func append(_ piece: [UInt8]) {
    bytes.removeFirst(start)
    scanned -= start
    start = 0
    bytes += piece
  }

  /// The next whole line, without its newline; nil: it has not come yet.
  public mutating func next() -> ArraySlice<UInt8>? {
    let newline = bytes.withUnsafeBytes { bytes -> Int? in
      guard let first = bytes.baseAddress.map({ $0 + scanned }), scanned < bytes.count else { return nil }
      return memchr(first, 0x0A, bytes.count - scanned).map { UnsafeRawPointer($0) - first + scanned }
    }
    guard let end = newline else {
      scanned = bytes.count
      return nil
    }
    defer { (start, scanned) = (end + 1, end + 1) }
    return bytes[start..<end]
  }
}
