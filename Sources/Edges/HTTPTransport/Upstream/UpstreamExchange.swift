public import Broker
public import NIOCore
public import NIOHTTP1
public import OAuth

/// A request in the form for sending.
public struct UpstreamRequest: Sendable {
  public enum Body: Sendable {
    case none
    case whole(ByteBuffer)
    /// It is written as it arrives (``UpstreamExchange/write(_:)``).
    case streamed
  }

  public var server: UpstreamServer
  /// With everything but `Connection`.
  public var head: HTTPRequestHead
  public var body: Body
  /// Whether the server may get it twice (RFC 9110 §9.2.2): it is sent again where a kept connection ended before it answered.
  public var isRepeatable: Bool
  /// As of ``HTTPRequest/latestSend``.
  public var latestSend: Duration?

  public init(
    server: UpstreamServer, head: HTTPRequestHead, body: Body, isRepeatable: Bool, latestSend: Duration? = nil
  ) {
    self.server = server
    self.head = head
    self.body = body
    self.isRepeatable = isRepeatable
    self.latestSend = latestSend
  }

  func isTooLate(at uptime: Duration) -> Bool { latestSend.map { uptime > $0 } ?? false }
}

extension UpstreamRequest: Redacted {
  /// Its headers and its body may hold secrets.
  public var description: String { "\(head.method.rawValue) \(server.authority)" }
}

/// The result of a request. Called on its event loop, and never after it was cancelled.
public protocol UpstreamReceiver: AnyObject {
  /// There is a connection: whether the request is still to be sent. Called once, or twice where it is repeated.
  func upstreamMaySend() -> Bool
  /// The request was sent, or more of its body can be. Only for a streamed body.
  func upstreamTakesMore(_ exchange: UpstreamExchange)
  /// The answer's head; interim answers are omitted, except 101.
  func upstreamBegan(_ head: HTTPResponseHead)
  func upstreamSent(_ part: ByteBuffer)
  /// All received data were delivered.
  func upstreamPaused()
  /// The answer is whole.
  func upstreamEnded()
  /// There is no answer, or no more of it.
  func upstreamFailed(_ error: TransportError)
}

/// One request and its answer. Lives on its event loop.
public final class UpstreamExchange {
  let request: UpstreamRequest
  private(set) var receiver: (any UpstreamReceiver)?
  var connection: UpstreamConnection?
  /// In which it waits for a connection.
  weak var pool: UpstreamPool?
  var isPaused = false
  /// It was sent once more already.
  var isRepeated = false

  init(_ request: UpstreamRequest, _ receiver: any UpstreamReceiver) {
    self.request = request
    self.receiver = receiver
  }

  // MARK: The request's body

  /// Whether the server's side takes more of the body now.
  public var isWritable: Bool { connection?.isWritable ?? false }

  public func write(_ bytes: ByteBuffer) { connection?.write(bytes) }
  /// Sends the written output.
  public func flush() { connection?.flush() }
  /// The body is whole.
  public func endBody() { connection?.endBody() }

  // MARK: The answer

  /// Reads no more of the answer for now.
  public func pause() {
    guard !isPaused else { return }
    isPaused = true
    connection?.setReading(false)
  }

  public func resume() {
    guard isPaused else { return }
    isPaused = false
    connection?.setReading(true)
  }

  /// The rest is not wanted.
  public func cancel() {
    receiver = nil
    connection?.cancel(self)
    connection = nil
    pool?.remove(self)
    pool = nil
  }

  // MARK: The end

  func end() {
    connection = nil
    let last = receiver
    receiver = nil
    last?.upstreamEnded()
  }

  func fail(_ error: TransportError) {
    connection = nil
    let last = receiver
    receiver = nil
    // A request that was sent once may have arrived.
    last?.upstreamFailed(isRepeated ? error.lost : error)
  }
}

extension TransportError {
  /// The same of a request that may have arrived.
  var lost: TransportError { kind == .notSent ? TransportError(.lost, message, cause: cause) : self }
}

extension UpstreamReceiver {
  public func upstreamMaySend() -> Bool { true }
  public func upstreamTakesMore(_ exchange: UpstreamExchange) {}
  public func upstreamPaused() {}
}
