public import NIOCore

/// A request's body as it arrives, read on demand. Used on the event loop of its connection.
public final class HTTPRequestBody {
  public enum Event {
    case part(ByteBuffer)
    case end
    case failed(HTTPBodyError)
  }

  /// Bytes, if the request has a length; nil: it comes in chunks.
  public let length: Int?
  private let read: () -> Void
  private var receive: ((Event) -> Void)?
  /// Data that arrived before a reader.
  private var early: [Event] = []
  private var isOver = false
  /// The remaining bytes, if the request has a length.
  private(set) var left: Int
  /// Something was wanted, and nothing has come since.
  private(set) var isWanted = false

  init(length: Int?, read: @escaping () -> Void) {
    self.length = length
    left = length ?? 0
    self.read = read
  }

  /// Has all that comes delivered, until the end or a failure, which is the last.
  public func receive(_ action: @escaping (Event) -> Void) {
    let events = early
    early = []
    receive = action
    for event in events { deliver(event) }
  }

  /// Has the connection read once more. Each time one or several parts come, or the end.
  public func want() {
    guard !isOver else { return }
    isWanted = true
    read()
  }

  func yield(_ bytes: ByteBuffer) {
    left -= bytes.readableBytes
    guard !isOver else { return }
    deliver(.part(bytes))
  }

  func finish(_ error: HTTPBodyError?) {
    guard !isOver else { return }
    isOver = true
    deliver(error.map(Event.failed) ?? .end)
  }

  private func deliver(_ event: Event) {
    isWanted = false
    guard let receive else { return early.append(event) }
    if case .part = event {} else { self.receive = nil }
    receive(event)
  }
}

/// Why a request's body ended early.
public enum HTTPBodyError: Error, Sendable {
  /// The client hung up, or broke the framing.
  case cut
  case stalled
}
