import HTTPServer
import NIOCore
import Synchronization

/// A request's body as it goes on to the server, kept as far as it could have to be sent again.
final class RetainedBody: Sendable {
  /// Bytes that are kept.
  static let longest = 1 << 20

  private struct State {
    var iterator: HTTPRequestBody.AsyncIterator
    /// Nil: it is longer than what is kept.
    var kept: [ByteBuffer]? = []
    var bytes = 0
    var isOver = false
  }

  /// Used by one reader at a time: the request that is being sent.
  nonisolated(unsafe) private var state: State
  let length: Int?

  init(_ body: HTTPRequestBody) {
    state = State(iterator: body.makeAsyncIterator())
    length = body.length
  }

  /// Nil: there is none.
  var upstream: UpstreamBody? {
    if length == 0 { return nil }
    return UpstreamBody(length: length) { try await self.next() }
  }

  /// The same again, from the beginning; nil where more came than was kept.
  var again: UpstreamBody?? {
    guard let kept = state.kept else { return nil }
    if length == 0 { return .some(nil) }
    let replay = Mutex(kept[...])
    return .some(
      UpstreamBody(length: length) {
        if let part = replay.withLock({ $0.popFirst() }) { return part }
        return try await self.next()
      })
  }

  /// All of it, where it is no longer than what is kept; nil: it is.
  func whole() async throws -> [UInt8]? {
    while state.kept != nil, try await next() != nil {}
    return state.kept?.flatMap { Array($0.readableBytesView) }
  }

  private func next() async throws -> ByteBuffer? {
    guard !state.isOver else { return nil }
    guard let part = try await state.iterator.next() else {
      state.isOver = true
      return nil
    }
    state.bytes += part.readableBytes
    if state.bytes > Self.longest { state.kept = nil } else { state.kept?.append(part) }
    return part
  }
}
