import Platform
import Synchronization

// The stream of the server's own messages (GET).
extension MCPBridge {
  /// Requests it until the session ends. A server without one answers 405.
  func listen() {
    let isNew = state.withLock { state in
      guard !state.isListening, !state.isEnding, state.version != nil else { return false }
      state.isListening = true
      return true
    }
    guard isNew else { return }
    let code = OwnThread.start("listener") { [self] in
      keepListening()
      state.withLock { ($0.isListening, $0.listener) = (false, nil) }
    }
    if code != 0 { state.withLock { $0.isListening = false } }
  }

  private var isOver: Bool { state.withLock { $0.isEnding } }

  private func keepListening() {
    var last: String?
    var retry: Int?
    var pause = Limit.shortestPause
    let session = state.withLock { $0.sessionID }
    while !isOver, state.withLock({ $0.sessionID }) == session {
      guard let (exchange, place) = try? open(whileWanted: { !isOver }) else {
        Bridge.sleep(Limit.longestPause)
        continue
      }
      state.withLock { $0.listener = exchange }
      if isOver { exchange.stop() }
      let request = ForwardExchange.Request(
        method: "GET", target: place.target, headers: headers(nil, lastEvent: last), body: nil)
      if exchange.send(request), case .head(let head)? = try? exchange.next() {
        guard head.status < 400 || head.status >= 500 || head.status == 429 else { return }
        if head.status == 200, head.type == "text/event-stream" {
          pause = Limit.shortestPause
          var reader = EventStreamReader(longest: Limit.message)
          pass(exchange, &reader)
          (last, retry) = (reader.lastID ?? last, reader.retry ?? retry)
        }
      }
      exchange.stop()
      guard !isOver else { return }
      Bridge.sleep(max(pause, retry.map { .milliseconds(min($0, 60_000)) } ?? .zero))
      pause = min(pause * 2, Limit.longestPause)
    }
  }

  private func pass(_ exchange: ForwardExchange, _ reader: inout EventStreamReader) {
    while let part = try? exchange.next() {
      guard case .body(let bytes) = part, let events = try? reader.append(bytes) else { return }
      for event in events where event.type == "message" && !event.data.isEmpty { write(event.data) }
    }
  }
}
