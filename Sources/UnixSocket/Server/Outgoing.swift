import BrokerAPI
import CLinux
import Glibc
import NIOCore

/// What one client is owed, in order and in one piece: small pieces that wait cost several times their size.
struct Outgoing {
  /// Bytes sent already that may lie before those that wait.
  private static let keptSent = 64 * 1024
  /// Memory that is used again for other replies.
  private static let keptCapacity = 32 * 1024

  private var bytes = ByteBuffer()
  /// How many of them are notifications, at most.
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

  /// Takes memory to write to, where it has none; it is given back when all is sent.
  mutating func borrow(_ spare: inout ByteBuffer) {
    if bytes.capacity == 0 { swap(&bytes, &spare) }
  }

  enum Sent {
    case everything
    /// The kernel takes no more for now.
    case some
    /// Nobody will read it.
    case failed
  }

  mutating func send(to socket: Int32, giveBack spare: inout ByteBuffer) -> Sent {
    while count > 0 {
      let sent = bytes.withUnsafeReadableBytes { clinux_send(socket, $0.baseAddress, $0.count) }
      guard sent >= 0 else { return errno == EAGAIN ? keepRest() : .failed }
      bytes.moveReaderIndex(forwardBy: sent)
      // Less than all: the kernel's buffer is full, and to ask once more would only say so.
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
