import Glibc
import NIOCore

/// Cuts input into lines at any read boundaries, without copying a complete one.
struct LineFramer {
  enum Frame {
    /// A line without its newline; valid only during the call.
    case line(UnsafeRawBufferPointer)
    /// A line is longer than the limit. Said once; the rest of it is thrown away.
    case tooLong
  }

  enum Verdict {
    case next
    /// The line is taken, and no other for now.
    case stop
    /// Nor is this one: it comes first when lines are taken again.
    case keep
  }

  /// Bytes that the buffer may be larger than four times its content.
  private static let slack = 4096

  private let limit: Int
  private var buffer = ByteBuffer()
  /// Bytes at the buffer's front that hold no newline.
  private var scanned = 0
  /// Whether the rest of a line is thrown away.
  private(set) var isDiscarding = false

  /// Lines begun so far: tells two unfinished lines apart.
  private(set) var lines = 0
  /// Whether whole lines may be left since the taker stopped.
  private(set) var isStopped = false

  init(limit: Int) {
    self.limit = limit
  }

  /// Whether a line has begun and its newline has not come.
  var isInsideLine: Bool { !isStopped && (isDiscarding || buffer.readableBytes > 0) }

  /// Bytes that are kept.
  var kept: Int { buffer.readableBytes }

  /// Passes the complete lines in order, until none is left or `take` refuses: first the earlier ones, then the new
  /// ones. The rest is copied.
  mutating func consumeLines(of received: UnsafeRawBufferPointer? = nil, _ take: (Frame) -> Verdict) {
    if let received, buffer.readableBytes == 0 {
      let taken = cut(received, take)
      if taken < received.count { buffer.writeBytes(UnsafeRawBufferPointer(rebasing: received[taken...])) }
      return
    }
    if let received {
      buffer.discardReadBytes()
      buffer.writeBytes(received)
    }
    // Another reference to the same storage, so that `self` may change while it is read.
    let kept = buffer
    let taken = kept.withUnsafeReadableBytes { cut($0, take) }
    buffer.moveReaderIndex(forwardBy: taken)
    // A connection without an unfinished line keeps no memory for one, and behind a long line none of its size.
    if buffer.readableBytes == 0 {
      buffer = ByteBuffer()
    } else if buffer.capacity > Self.slack + 4 * buffer.readableBytes {
      buffer = ByteBuffer(bytes: buffer.readableBytesView)
    }
  }

  /// Returns how many bytes are done with.
  private mutating func cut(_ bytes: UnsafeRawBufferPointer, _ take: (Frame) -> Verdict) -> Int {
    var start = 0
    isStopped = false
    guard let base = bytes.baseAddress else { return 0 }
    while !isStopped {
      let from = start + scanned
      guard let newline = memchr(base + from, 0x0A, bytes.count - from) else { break }
      let end = base.distance(to: UnsafeRawPointer(newline))
      let line = UnsafeRawBufferPointer(start: base + start, count: end - start)
      let verdict = finish(line, take)
      isStopped = verdict != .next
      if verdict == .keep {
        scanned = line.count
        break
      }
      start = end + 1
      scanned = 0
      lines &+= 1
    }
    if !isStopped { keepRest(of: bytes.count, &start, take) }
    return start
  }

  private mutating func finish(_ line: UnsafeRawBufferPointer, _ take: (Frame) -> Verdict) -> Verdict {
    if isDiscarding {
      isDiscarding = false
      return .next
    }
    return take(line.count >= limit ? .tooLong : .line(line))
  }

  private mutating func keepRest(of count: Int, _ start: inout Int, _ take: (Frame) -> Verdict) {
    if !isDiscarding && count - start >= limit {
      isDiscarding = true
      isStopped = take(.tooLong) != .next
    }
    if isDiscarding { start = count }
    scanned = count - start
  }
}
