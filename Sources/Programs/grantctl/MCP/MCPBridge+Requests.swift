import BrokerAPI
import Synchronization

// One message to the server and its answer.
extension MCPBridge {
  private enum Outcome {
    case answered
    /// The connection ended before the answer: the last event, and the pause that the server wants.
    case lost(lastEvent: String?, retry: Int?)
    /// The server does not know the session.
    case sessionEnded(String)
    case failed(BridgeProblem)
  }

  /// A request of the client, until it is answered.
  func carry(_ line: [UInt8], _ message: BridgedMessage, _ key: [UInt8]) {
    var outcome = Outcome.answered
    for attempt in 1...Limit.attempts {
      guard !isCancelled(key) else { return }
      outcome = post(line, message, key)
      switch outcome {
      case .answered: return
      case .lost(let lastEvent?, let retry):
        outcome = resume(lastEvent, retry, message, key)
        return isCancelled(key) ? () : fail(message, outcome)
      case .lost(nil, _) where message.isRepeatable && attempt < Limit.attempts: Bridge.sleep(Limit.shortestPause)
      case .sessionEnded(let id) where renewSession(id): continue
      case .lost, .sessionEnded, .failed: return isCancelled(key) ? () : fail(message, outcome)
      }
    }
    if !isCancelled(key) { fail(message, outcome) }
  }

  private func fail(_ message: BridgedMessage, _ outcome: Outcome) {
    let problem: BridgeProblem
    switch outcome {
    case .answered: return
    case .lost: problem = .lost
    case .sessionEnded: problem = .sessionEnded
    case .failed(let error): problem = error
    }
    log(problem.line)
    write(
      BridgedMessage.error(
        problem.code, problem.message, hint: problem.hint, reason: problem.reason, id: message.requestID))
  }

  /// A notification, or the client's answer to a request of the server: nothing comes back.
  func deliver(_ line: [UInt8], _ message: BridgedMessage) {
    do throws(BridgeProblem) {
      let (exchange, place) = try open { !state.withLock { $0.isEnding } }
      guard exchange.send(request(line, message, place)), case .head(let head)? = try? exchange.next() else {
        return log("a notification was lost: the connection ended")
      }
      guard head.status >= 300 else { return }
      let body = exchange.body(atMost: Limit.refusal) ?? []
      log(BridgeProblem(head, body).line)
    } catch {
      log(error.line)
    }
  }

  private func request(_ line: [UInt8], _ message: BridgedMessage, _ place: Endpoint) -> ForwardExchange.Request {
    .init(method: "POST", target: place.target, headers: headers(message), body: line)
  }

  private func post(_ line: [UInt8], _ message: BridgedMessage, _ key: [UInt8]) -> Outcome {
    let session = state.withLock { $0.sessionID }
    let (exchange, place): (ForwardExchange, Endpoint)
    do throws(BridgeProblem) {
      (exchange, place) = try open { !isCancelled(key) }
    } catch {
      return .failed(error)
    }
    state.withLock { $0.running[key] = exchange }
    if isCancelled(key) { exchange.stop() }
    guard exchange.send(request(line, message, place)), case .head(let head)? = try? exchange.next() else {
      return .lost(lastEvent: nil, retry: nil)
    }
    if head.status == 404, let session, message.method != "initialize" { return .sessionEnded(session) }
    guard (200..<300).contains(head.status) else {
      let body = exchange.body(atMost: Limit.refusal) ?? []
      // A server may answer an error of JSON-RPC with any status.
      let answer = BridgedMessage(body)
      if case .response(let id) = answer.kind, answer.isError, id == message.requestID {
        write(body)
        return .answered
      }
      return .failed(BridgeProblem(head, body))
    }
    if message.method == "initialize" { record(session: head.first("mcp-session-id")) }
    switch head.type {
    case "text/event-stream": return stream(exchange, message)
    case "application/json":
      guard let body = exchange.body(atMost: Limit.message) else {
        return exchange.isStopped ? .answered : .lost(lastEvent: nil, retry: nil)
      }
      delivered(BridgedMessage(body), for: message)
      write(body)
      return .answered
    default:
      return message.requestID == nil ? .answered : .failed(.noAnswer(head))
    }
  }

  private func record(session: String?) {
    guard session.map(BridgeProblem.isHeader) ?? true else { return }
    state.withLock { $0.sessionID = session }
  }

  /// Before the client sees it: it may send the next message at once.
  private func delivered(_ answer: BridgedMessage, for message: BridgedMessage) {
    if message.method == "initialize", let version = answer.agreedVersion { state.withLock { $0.version = version } }
  }

  /// Passes the events of an answer.
  private func stream(_ exchange: ForwardExchange, _ message: BridgedMessage) -> Outcome {
    var reader = EventStreamReader(longest: Limit.message)
    var isAnswered = false
    while let part = try? exchange.next() {
      guard case .body(let bytes) = part else { break }
      do throws(EventStreamReader.TooLong) {
        for event in try reader.append(bytes) where event.type == "message" && !event.data.isEmpty {
          let answer = BridgedMessage(event.data)
          if answer.kind == .other { isAnswered = true }
          delivered(answer, for: message)
          write(event.data)
          if case .response(let id) = answer.kind, id == message.requestID {
            exchange.stop()
            return .answered
          }
        }
      } catch {
        exchange.stop()
        return .failed(.tooLong)
      }
    }
    // A batch has as many answers as it has requests: the end of the stream is the end.
    if message.requestID == nil || isAnswered { return .answered }
    return .lost(lastEvent: reader.lastID, retry: reader.retry)
  }

  /// Requests the rest of a stream (Last-Event-ID), until the answer has come.
  private func resume(_ lastEvent: String, _ retry: Int?, _ message: BridgedMessage, _ key: [UInt8]) -> Outcome {
    var (last, retry, failures) = (lastEvent, retry, 0)
    while failures < Limit.resumptions, !isCancelled(key) {
      Bridge.sleep(min(Limit.longestPause, retry.map { .milliseconds(min($0, 60_000)) } ?? .seconds(1)))
      let (exchange, place): (ForwardExchange, Endpoint)
      do throws(BridgeProblem) {
        (exchange, place) = try open { !isCancelled(key) }
      } catch {
        return .failed(error)
      }
      state.withLock { $0.running[key] = exchange }
      if isCancelled(key) { exchange.stop() }
      let request = ForwardExchange.Request(
        method: "GET", target: place.target, headers: headers(nil, lastEvent: last), body: nil)
      failures += 1
      guard exchange.send(request), case .head(let head)? = try? exchange.next() else { continue }
      guard head.status == 200, head.type == "text/event-stream" else {
        if head.status >= 500 { continue }
        return .failed(BridgeProblem(head, exchange.body(atMost: Limit.refusal) ?? []))
      }
      switch stream(exchange, message) {
      case .lost(let event?, let pause):
        if event != last { failures = 0 }
        (last, retry) = (event, pause ?? retry)
      case .lost: break
      case .answered: return .answered
      case .sessionEnded(let id): return .sessionEnded(id)
      case .failed(let problem): return .failed(problem)
      }
    }
    return .lost(lastEvent: nil, retry: nil)
  }

  /// Begins another session with the client's own `initialize`, once for all requests that have lost it.
  ///
  /// - Parameter id: the session that the server does not know.
  private func renewSession(_ id: String) -> Bool {
    renewing.withLock { _ in
      let (current, initialize) = state.withLock { ($0.sessionID, $0.initialize) }
      guard current == id else { return current != nil }
      guard let initialize, let (exchange, place) = try? open(whileWanted: { true }) else { return false }
      let message = BridgedMessage(initialize)
      guard exchange.send(request(initialize, message, place)), case .head(let head)? = try? exchange.next(),
        head.status == 200, let session = head.first("mcp-session-id"), exchange.firstAnswer(Limit.message) != nil
      else { return false }
      exchange.stop()
      record(session: session)
      let done = Array(#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.utf8)
      deliver(done, BridgedMessage(done))
      listen()
      log("the server had ended the session; another one was begun")
      return true
    }
  }
}

extension ForwardExchange {
  /// The first message of an answer; nil: there is none.
  fileprivate func firstAnswer(_ limit: Int) -> [UInt8]? {
    var bytes = 0
    while let part = try? next() {
      switch part {
      case .head: return nil
      case .body(let piece):
        bytes += piece.count
        guard bytes <= limit else { return nil }
        // Events end with an empty line, and so does the answer's last one.
        if piece.suffix(2) == [0x0A, 0x0A] || piece.suffix(4) == [0x0D, 0x0A, 0x0D, 0x0A] { return piece }
      case .end: return bytes > 0 ? [] : nil
      }
    }
    return nil
  }
}
