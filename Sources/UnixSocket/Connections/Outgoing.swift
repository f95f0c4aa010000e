import BrokerAPI
import CLinux
import Glibc
import NIOCore

/// The unsent output of one connection, in one buffer: many small ones would cost several times their size.
struct Outgoing {
  /// Sent bytes that are kept at the front of the buffer before the rest is moved.
  private static let keptSent = 64 * 1024
  /// The largest buffer that is reused.
  private static let keptCapacity = 32 * 1024

  private var bytes = ByteBuffer()
  /// How many of the bytes are notifications, at most.
  private var notificationBytes = 0

  var count: Int { bytes.readableBytes }

  mutating func write(_ line: [UInt8]) { bytes.writeBytes(line) }

  mutating func write(_ reply: CachedReply, id: UnsafeRawBufferPointer) { bytes.write(reply, id: id) }

  mutating func write(_ outbox: Connection.Outbox) {
    notificationBytes += outbox.notificationBytes
    write(outbox.bytes)
  }

  mutating func write(_ more: ByteBuffer) {
    if count == 0 { bytes = more } else { bytes.writeImmutableBuffer(more) }
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
      if count > 0 { return keepRest() }
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
    if bytes.readerIndex > max(count, Self.keptSent) { bytes.discardReadBytes() }
    return .some
  }

  /// How many bytes of notifications the kernel has taken since the last time.
  mutating func takeSentNotifications() -> Int {
    let left = min(notificationBytes, count)
    defer { notificationBytes = left }
    return notificationBytes - left
  }
}
