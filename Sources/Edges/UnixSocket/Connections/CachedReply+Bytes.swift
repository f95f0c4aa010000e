import NIOCore
import Principals

extension ByteBuffer {
  private static let opening: StaticString = #"{"jsonrpc":"2.0","id":"#
  private static let result: StaticString = #","result":"#
  private static let closing: StaticString = "}\n"
  /// An `Int64` with its sign.
  private static let digits = 20

  /// The reply as ``RPCReply`` would write it, with the id as the client wrote it.
  mutating func write(_ reply: CachedReply, id: UnsafeRawBufferPointer) {
    reply.body.withBytes { head, tail in write(head, reply.expiresIn, tail, id: id) }
  }

  private mutating func write(
    _ head: UnsafeRawBufferPointer, _ expiresIn: Int64?, _ tail: UnsafeRawBufferPointer, id: UnsafeRawBufferPointer
  ) {
    let fixed = Self.opening.utf8CodeUnitCount + Self.result.utf8CodeUnitCount + Self.closing.utf8CodeUnitCount
    let room = fixed + id.count + head.count + Self.digits + tail.count
    writeWithUnsafeMutableBytes(minimumWritableBytes: room) { target in
      guard let start = target.baseAddress else { return 0 }
      var end = start
      Self.put(Self.opening, at: &end)
      Self.put(id, at: &end)
      Self.put(Self.result, at: &end)
      Self.put(head, at: &end)
      if let expiresIn {
        end += Self.put(expiresIn, into: UnsafeMutableRawBufferPointer(start: end, count: Self.digits))
        Self.put(tail, at: &end)
      }
      Self.put(Self.closing, at: &end)
      return start.distance(to: end)
    }
  }

  private static func put(_ text: StaticString, at end: inout UnsafeMutableRawPointer) {
    put(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount), at: &end)
  }

  /// Not by a closure that holds the end: the runtime would check each access.
  private static func put(_ bytes: UnsafeRawBufferPointer, at end: inout UnsafeMutableRawPointer) {
    guard let source = bytes.baseAddress else { return }
    end.copyMemory(from: source, byteCount: bytes.count)
    end += bytes.count
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
