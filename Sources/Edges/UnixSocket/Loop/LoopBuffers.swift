import CLinux
import Glibc
import NIOCore

/// The memory that all connections of a loop share.
struct LoopBuffers: ~Copyable {
  /// Bytes taken of all connections in one turn, unless they are more than ``leastReceived`` allows.
  static let receivedPerTurn = 64 * 1024
  /// The least that is taken of each if many connections are ready.
  static let leastReceived = 4 * 1024
  /// Reads that empty a socket before it is closed, each of ``receivedPerTurn``: more than the kernel queues.
  private static let lastReads = 64

  /// The last read of any connection. An unfinished line is copied out of it.
  private let received = UnsafeMutableRawBufferPointer.allocate(byteCount: receivedPerTurn, alignment: 16)
  private var hasReceived = false
  /// The amount of one connection in this turn.
  private var atMost = receivedPerTurn
  /// Memory for the replies of a turn.
  var spare = ByteBuffer()

  deinit {
    if hasReceived { Self.clear(received) }
    received.deallocate()
  }

  /// A turn begins.
  ///
  /// - Parameter ready: the number of ready descriptors.
  mutating func begin(ready: Int) { atMost = Self.share(ready: ready) }

  static func share(ready: Int) -> Int { max(leastReceived, receivedPerTurn / max(1, ready)) }

  /// recv(2). The bytes are valid until the next call.
  ///
  /// - Parameter withoutDescriptors: whether it fails with EPERM if a descriptor comes with the bytes.
  mutating func receive(
    from socket: Int32, atMost limit: Int = receivedPerTurn, withoutDescriptors: Bool
  ) -> (count: Int, bytes: UnsafeRawBufferPointer) {
    hasReceived = true
    let (start, room) = (received.baseAddress, min(limit, atMost))
    let count = withoutDescriptors ? clinux_receive_bytes(socket, start, room) : clinux_receive(socket, start, room)
    return (count, UnsafeRawBufferPointer(rebasing: received[..<max(0, count)]))
  }

  /// Ends the input of a socket, and receives the rest of it. False: it has descriptors.
  mutating func emptyInput(of socket: Int32) -> Bool {
    shutdown(socket, Int32(SHUT_RD))
    hasReceived = true
    for _ in 0..<Self.lastReads {
      let count = clinux_receive_bytes(socket, received.baseAddress, received.count)
      if count <= 0 { return count == 0 }
    }
    return false
  }

  /// Overwrites the requests and replies, which may hold tokens and authorization responses.
  mutating func wipe() {
    spare = ByteBuffer()
    guard hasReceived else { return }
    Self.clear(received)
    hasReceived = false
  }

  private static func clear(_ bytes: UnsafeMutableRawBufferPointer) {
    if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
  }
}
