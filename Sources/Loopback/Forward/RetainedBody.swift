import HTTPServer
import NIOCore
import Synchronization

/// A request's body on its way to the server, kept as far as it could have to be sent again.
///
/// The HTTP client reads the body of a request in a task that may outlive the request. So the client's connection is read in
/// one place, and each sending has a turn: one whose turn is over gets no further part.
actor RetainedBody {
  /// Bytes that are kept.
  static let longest = 1 << 20

  /// Read by ``pull()`` alone, which runs once at a time.
  private final class Source: @unchecked Sendable {
    var iterator: HTTPRequestBody.AsyncIterator
    init(_ body: HTTPRequestBody) { iterator = body.makeAsyncIterator() }
    func next() async throws -> ByteBuffer? { try await iterator.next() }
  }

  nonisolated let length: Int?
  private let source: Source
  /// From the part number `offset` on.
  private var parts: [ByteBuffer] = []
  private var offset = 0
  private var bytes = 0
  private var isReplayable = true
  private var end: Result<Void, any Error>?
  private var turn = 0
  private var reading: Task<Void, Never>?
  /// The answer has begun and refuses the request: nothing more is sent.
  private var isHeld = false
  private var held: [CheckedContinuation<Void, Never>] = []

  init(_ body: HTTPRequestBody) {
    source = Source(body)
    length = body.length
  }

  /// The body from its beginning, for the next sending; nil where more came than was kept.
  ///
  /// - Returns: `.some(nil)`: there is none.
  func begin() -> UpstreamBody?? {
    guard turn == 0 || isReplayable else { return nil }
    nextTurn()
    guard length != 0 else { return .some(nil) }
    let own = turn
    let index = Atomic(0)
    return .some(
      UpstreamBody(length: length) {
        try await self.part(index.add(1, ordering: .relaxed).oldValue, turn: own)
      })
  }

  /// All of it, where it is no longer than what is kept; nil: it is.
  func whole() async throws -> [UInt8]? {
    nextTurn()
    var index = 0
    while isReplayable, try await part(index, turn: turn) != nil { index += 1 }
    return isReplayable ? parts.flatMap { Array($0.readableBytesView) } : nil
  }

  /// The server refuses the request before its end.
  func hold() { isHeld = true }

  /// The request is over.
  func stop() {
    nextTurn()
    isReplayable = false
    parts = []
  }

  private func nextTurn() {
    turn += 1
    isHeld = false
    let waiting = held
    held = []
    for one in waiting { one.resume() }
  }

  private func part(_ index: Int, turn own: Int) async throws -> ByteBuffer? {
    while own == turn {
      if isHeld {
        await withCheckedContinuation { held.append($0) }
      } else if index < offset + parts.count {
        let part = parts[index - offset]
        if !isReplayable {
          parts.removeFirst(index + 1 - offset)
          offset = index + 1
        }
        return part
      } else if let end {
        try end.get()
        return nil
      } else {
        await read()
      }
    }
    throw CancellationError()
  }

  private func read() async {
    let task = reading ?? Task { await pull() }
    reading = task
    await task.value
  }

  private func pull() async {
    do {
      if let part = try await source.next() {
        bytes += part.readableBytes
        if bytes > Self.longest { isReplayable = false }
        parts.append(part)
      } else {
        end = .success(())
      }
    } catch {
      end = .failure(error)
    }
    reading = nil
  }
}
