import BrokerSocket
import Synchronization

/// One HTTP request to the broker's Unix socket and its answer, on a connection of its own. Its calls block their thread; only
/// ``stop()`` may be called by another one.
final class ForwardExchange: Sendable {
  struct Request {
    var method: String
    var target: String
    var headers: [(name: String, value: String)]
    var body: [UInt8]?
  }

  private static let sending = Duration.seconds(30)
  private static let readAtOnce = 64 << 10

  private let socket: ConnectedSocket
  private let stopped = Atomic(false)
  private let reader = Mutex(AnswerReader())
  private let waiting = Mutex<[AnswerReader.Part]>([])

  init(to path: String, from isExpected: (UInt32) -> Bool) throws(ConnectFailure) {
    socket = try ConnectedSocket.connect(path: path, within: Self.sending, from: isExpected)
  }

  /// False: it was not sent as a whole.
  func send(_ request: Request) -> Bool {
    var head = "\(request.method) \(request.target) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    for header in request.headers { head += "\(header.name): \(header.value)\r\n" }
    if let body = request.body { head += "Content-Length: \(body.count)\r\n" }
    return socket.send(Array((head + "\r\n").utf8) + (request.body ?? []))
  }

  /// The next part; nil: the connection has ended before the answer, or its time is over.
  ///
  /// - Parameter patience: nil: without an end.
  func next(within patience: Duration? = nil) throws(AnswerReader.Fault) -> AnswerReader.Part? {
    var left = patience
    while true {
      if let part = waiting.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { return part }
      if patience != nil, !socket.hasInput(within: &left) { return nil }
      let bytes = socket.receive(atMost: Self.readAtOnce)
      guard !bytes.isEmpty else {
        return reader.withLock { $0.finish() } && !isStopped ? .end : nil
      }
      let parts = try reader.withLock { reader throws(AnswerReader.Fault) in try reader.append(bytes) }
      waiting.withLock { $0 += parts }
    }
  }

  /// The rest of the body; nil: it is longer, or incomplete.
  func body(atMost limit: Int) -> [UInt8]? {
    var body: [UInt8] = []
    while let part = try? next() {
      switch part {
      case .head: return nil
      case .body(let bytes):
        body += bytes
        guard body.count <= limit else { return nil }
      case .end: return body
      }
    }
    return nil
  }

  var isStopped: Bool { stopped.load(ordering: .relaxed) }

  /// Ends the connection; a call that waits returns.
  func stop() {
    stopped.store(true, ordering: .relaxed)
    socket.shutDown()
  }
}
