import BrokerAPI
import NIOCore

extension ByteBuffer {
  private static let opening = Array(#"{"jsonrpc":"2.0","id":"#.utf8)
  private static let result = Array(#","result":"#.utf8)
  private static let closing = Array("}\n".utf8)
  /// Of an `Int64`, with its sign.
  private static let digits = 20

  /// The reply as ``RPCReply`` would write it, with the id as the client wrote it.
  mutating func write(_ reply: CachedReply, id: UnsafeRawBufferPointer) {
    reply.body.withBytes { head, tail in write(head, reply.expiresIn, tail, id: id) }
  }

  private mutating func write(
    _ head: UnsafeRawBufferPointer, _ expiresIn: Int64?, _ tail: UnsafeRawBufferPointer, id: UnsafeRawBufferPointer
  ) {
    let room =
      Self.opening.count + id.count + Self.result.count + head.count + Self.digits + tail.count + Self.closing.count
    writeWithUnsafeMutableBytes(minimumWritableBytes: room) { target in
      var cursor = 0
      func put(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        target.baseAddress?.advanced(by: cursor).copyMemory(from: source, byteCount: bytes.count)
        cursor += bytes.count
      }
      Self.opening.withUnsafeBytes(put)
      put(id)
      Self.result.withUnsafeBytes(put)
      put(head)
      if let expiresIn {
        cursor += Self.put(expiresIn, into: UnsafeMutableRawBufferPointer(rebasing: target[cursor...]))
        put(tail)
      }
      Self.closing.withUnsafeBytes(put)
      return cursor
    }
  }

  /// In decimal; returns how many bytes.
  private static func put(_ number: Int64, into target: UnsafeMutableRawBufferPointer) -> Int {
    var rest = number.magnitude
    var count = number < 0 ? 1 : 0
    var scale = rest
    repeat {
      count += 1
      scale /= 10
    } while scale > 0
    if number < 0 { target[0] = UInt8(ascii: "-") }
    var index = count
    repeat {
      index -= 1
      target[index] = UInt8(ascii: "0") + UInt8(rest % 10)
      rest /= 10
    } while rest > 0
    return count
  }
}
