import CLinux
import Glibc
import NIOCore
import Principals

/// The unsent output of one connection: the piece that is being sent, and those behind it.
struct Outgoing {
  /// Sent bytes that are kept at the front of the buffer before the rest is moved.
  private static let keptSent = 64 * 1024
  /// The largest buffer that is reused.
  private static let keptCapacity = 32 * 1024

  private var bytes = ByteBuffer()
  private var rest = Pieces()
  /// How many of the bytes are notifications, at most.
  private var notificationBytes = 0

  var count: Int { bytes.readableBytes + rest.count }

  mutating func write(_ line: [UInt8]) {
    if isFirst(line.count) { bytes.writeBytes(line) } else { rest.append(line) }
  }

  mutating func write(_ reply: CachedReply, id: UnsafeRawBufferPointer) {
    if rest.count == 0 { bytes.write(reply, id: id) } else { rest.append(reply, id: id) }
  }

  mutating func write(_ outbox: Connection.Outbox) {
    notificationBytes += outbox.notificationBytes
    var pieces = outbox.pieces
    while let piece = pieces.popFirst() { write(piece) }
  }

  mutating func write(_ piece: ByteBuffer) {
    if count == 0 {
      bytes = piece
    } else if isFirst(piece.readableBytes) {
      bytes.writeImmutableBuffer(piece)
    } else {
      rest.append(piece)
    }
  }

  private func isFirst(_ more: Int) -> Bool {
    rest.count == 0 && (count == 0 || count + more <= Pieces.together)
  }

  /// Takes the loop's buffer where this has none. It is given back when everything is sent.
  mutating func borrow(_ spare: inout ByteBuffer) {
    if bytes.capacity == 0 { swap(&bytes, &spare) }
  }

  enum Sent {
    case everything
    /// The socket's buffer is full.
    case some
    /// The client has closed.
    case failed
  }

  mutating func send(to socket: Int32, giveBack spare: inout ByteBuffer) -> Sent {
    while count > 0 {
      let sent = bytes.withUnsafeReadableBytes { clinux_send(socket, $0.baseAddress, $0.count) }
      guard sent >= 0 else { return errno == EAGAIN ? keepRest() : .failed }
      bytes.moveReaderIndex(forwardBy: sent)
      // A partial write: the socket's buffer is full, and another call would return EAGAIN.
      if bytes.readableBytes > 0 { return keepRest() }
      if let next = rest.popFirst() { bytes = next }
    }
    if bytes.capacity <= Self.keptCapacity, spare.capacity == 0 {
      bytes.clear()
      swap(&bytes, &spare)
    } else {
      bytes = ByteBuffer()
    }
    return .everything
  }

  private mutating func keepRest() -> Sent {
    if bytes.readerIndex > max(bytes.readableBytes, Self.keptSent) { bytes.discardReadBytes() }
    return .some
  }

  /// How many bytes of notifications the kernel has taken since the last time.
  mutating func drainSentNotifications() -> Int {
    let left = min(notificationBytes, count)
    defer { notificationBytes = left }
    return notificationBytes - left
  }
}
