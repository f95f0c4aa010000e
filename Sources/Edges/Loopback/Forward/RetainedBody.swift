import HTTPServer
import NIOCore
import Principals

/// A request's body on its way to the server, kept as far as it could have to be sent again. Lives on the event loop of its
/// connection.
final class RetainedBody {
  /// Bytes that are kept.
  static let longest = 1 << 20
  /// A part costs at least this many bytes: the buffer that it came in.
  static let leastCost = 512

  enum Next {
    case part(ByteBuffer)
    case end
    case failed(HTTPBodyError)
  }

  enum State {
    /// More will come.
    case partial
    case whole
    case tooLong
    /// A part of it is not kept, as there is no room.
    case unkept
    case failed
  }

  /// Bytes; 0: there is none; nil: unknown.
  let length: Int?
  private let source: HTTPRequestBody
  private let budget: RetainedBytes
  private let share: Share
  /// The amount counted in the budget.
  private var counted = 0
  /// From the part number `offset` on.
  private var parts: [ByteBuffer] = []
  private var offset = 0
  private var bytes = 0
  private var isReplayable = true
  private var end: Next?
  /// The part that is sent next.
  private var index = 0
  private var cameMore: (() -> Void)?

  init(_ body: HTTPRequestBody, _ budget: RetainedBytes, _ share: Share) {
    source = body
    self.budget = budget
    self.share = share
    length = body.length
    body.receive { [weak self] in self?.receive($0) }
  }

  /// - Parameter action: called each time more has come that was wanted.
  func onMore(_ action: @escaping () -> Void) { cameMore = action }

  /// False if more arrived than was kept, and some of it was sent.
  var canRewind: Bool { index == 0 || isReplayable }

  /// Makes ``next()`` begin with the first part again; false if it cannot (``canRewind``).
  func rewind() -> Bool {
    guard canRewind else { return false }
    index = 0
    return true
  }

  /// The next part to send; nil: not received yet.
  func next() -> Next? {
    guard index < offset + parts.count else { return end }
    let part = parts[index - offset]
    index += 1
    if !isReplayable {
      parts.removeFirst(index - offset)
      offset = index
    }
    return .part(part)
  }

  func want() { source.want() }

  /// The complete body, if it is not longer than the kept maximum.
  var whole: [UInt8]? {
    guard case .end? = end, isReplayable else { return nil }
    return parts.flatMap { Array($0.readableBytesView) }
  }

  var state: State {
    if case .failed? = end { return .failed }
    if bytes > Self.longest { return .tooLong }
    guard isReplayable else { return .unkept }
    if case .end? = end { return .whole }
    return .partial
  }

  /// The request is over.
  func stop() {
    cameMore = nil
    discard()
    parts = []
  }

  deinit { budget.giveBack(counted, of: share) }

  /// It is not kept from now on.
  private func discard() {
    isReplayable = false
    budget.giveBack(counted, of: share)
    counted = 0
    parts.removeFirst(index - offset)
    offset = index
  }

  private func receive(_ event: HTTPRequestBody.Event) {
    switch event {
    case .part(let part):
      bytes += part.readableBytes
      if isReplayable {
        let cost = max(part.readableBytes, Self.leastCost)
        if bytes <= Self.longest, budget.acquire(cost, for: share) {
          counted += cost
        } else {
          discard()
        }
      }
      parts.append(part)
    case .end: end = .end
    case .failed(let error): end = .failed(error)
    }
    cameMore?()
  }
}
