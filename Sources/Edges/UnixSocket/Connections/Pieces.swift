import NIOCore
import Principals

/// Waiting bytes in pieces: large ones unchanged, since copying megabytes would block the loop; small ones combined,
/// since many of them would cost several times their size.
struct Pieces: Sendable {
  /// Small pieces are put together to so much.
  static let together = 32 * 1024

  /// Nil: taken.
  private var pieces: [ByteBuffer?] = []
  private var first = 0
  private(set) var count = 0

  mutating func append(_ line: [UInt8]) {
    if let last = fitting(line.count) { pieces[last]?.writeBytes(line) } else { pieces.append(ByteBuffer(bytes: line)) }
    count += line.count
  }

  /// To the last piece, which there must be.
  mutating func append(_ reply: CachedReply, id: UnsafeRawBufferPointer) {
    let last = pieces.count - 1
    let before = pieces[last]?.readableBytes ?? 0
    pieces[last]?.write(reply, id: id)
    count += (pieces[last]?.readableBytes ?? 0) - before
  }

  mutating func append(_ piece: ByteBuffer) {
    if let last = fitting(piece.readableBytes) {
      pieces[last]?.writeImmutableBuffer(piece)
    } else {
      pieces.append(piece)
    }
    count += piece.readableBytes
  }

  /// The last piece, where so much may be put to it.
  private func fitting(_ more: Int) -> Int? {
    guard let index = pieces.indices.last, let last = pieces[index], last.readableBytes + more <= Self.together else {
      return nil
    }
    return index
  }

  mutating func popFirst() -> ByteBuffer? {
    guard first < pieces.count, let piece = pieces[first] else { return nil }
    pieces[first] = nil
    first += 1
    if first == pieces.count { (pieces, first) = ([], 0) }
    count -= piece.readableBytes
    return piece
  }
}
