@testable import UnixSocket

extension Target {
  /// Three bytes choose the limit, the positions of the cuts, and when the receiver stops; the rest is the stream.
  static let frames = Target(name: "frames", longest: 2048) { bytes in
    guard bytes.count >= 3 else { return }
    let limit = Int(bytes[0] % 64) + 1
    let stream = Array(bytes.dropFirst(3))
    var chosen = Chosen(state: UInt64(bytes[1]) << 8 | UInt64(bytes[2]))
    let (found, isInside) = framed(stream, limit: limit, stopAfter: Int(bytes[2] % 4) + 1, &chosen)
    let expected = split(stream, limit: limit)
    try expect(found == expected, "limit \(limit): \(found) instead of \(expected)")
    let isUnfinished = !stream.isEmpty && stream.last != 0x0A
    try expect(isInside == isUnfinished, "the framer takes the last line for \(isInside ? "un" : "")finished")
  }

  private enum Frame: Equatable {
    case line([UInt8])
    case tooLong
  }

  private static func framed(
    _ stream: [UInt8], limit: Int, stopAfter: Int, _ chosen: inout Chosen
  ) -> ([Frame], isInside: Bool) {
    var framer = LineFramer(limit: limit)
    var frames: [Frame] = []
    func take(_ received: UnsafeRawBufferPointer? = nil) {
      var taken = 0
      framer.consumeLines(of: received) { frame in
        switch frame {
        case .line(let line): frames.append(.line(Array(line)))
        case .tooLong: frames.append(.tooLong)
        }
        taken += 1
        return taken < stopAfter ? .next : .stop
      }
    }
    var rest = stream[...]
    while !rest.isEmpty {
      let count = Int.random(in: 0...min(rest.count, 24), using: &chosen)
      // A stopped receiver may get more before it continues.
      rest.prefix(count).withUnsafeBytes { take($0) }
      rest = rest.dropFirst(count)
      if Bool.random(using: &chosen) { take() }
    }
    while framer.isStopped { take() }
    return (frames, framer.isInsideLine)
  }

  /// The same, with everything at hand.
  private static func split(_ stream: [UInt8], limit: Int) -> [Frame] {
    var pieces = stream.split(separator: 0x0A, omittingEmptySubsequences: false)
    let last = pieces.removeLast()
    let whole = pieces.map { $0.count >= limit ? Frame.tooLong : .line(Array($0)) }
    return whole + (last.count >= limit ? [.tooLong] : [])
  }
}
