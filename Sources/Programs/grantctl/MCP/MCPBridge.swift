import BrokerAPI
import BrokerSocket
import Platform
import Synchronization

/// Messages of the Model Context Protocol from standard input to a server behind the broker, and back. Each request has a
/// thread and a connection; the token stays in the broker.
final class MCPBridge: Sendable {
  enum Limit {
    /// Bytes of a message in either direction.
    static let message = 4 << 20
    /// Requests at once; further ones get an error.
    static let requests = 64
    /// How long a broker may be away, such as during a restart.
    static let absence = Duration.seconds(30)
    /// A request that was not answered is sent this often, at most.
    static let attempts = 4
    /// Requests for the rest of a stream in a row that bring nothing.
    static let resumptions = 8
    static let refusal = 64 << 10
    static let shortestPause = Duration.milliseconds(200)
    static let longestPause = Duration.seconds(30)
    /// After the end of standard input: for the answers, and for the end of the session.
    static let lastAnswers = Duration.milliseconds(1200)
    static let farewell = Duration.milliseconds(500)
  }

  /// The broker's socket for HTTP, and the server's path there.
  struct Endpoint: Sendable {
    var socket: String
    var target: String
  }

  struct State {
    var sessionID: String?
    var version: String?
    /// The client's own, sent again if the server has lost the session.
    var initialize: [UInt8]?
    var running: [[UInt8]: ForwardExchange?] = [:]
    var listener: ForwardExchange?
    var isListening = false
    var isEnding = false
    var cancelled: Set<[UInt8]> = []
  }

  let state = Mutex(State())
  private let writing = Mutex(())
  private let out: @Sendable ([UInt8]) -> Void
  let log: @Sendable (String) -> Void
  private let find: @Sendable () -> Result<Endpoint, BridgeProblem>
  private let isExpected: @Sendable (UInt32) -> Bool
  private let found = Mutex<Endpoint?>(nil)
  /// One session is begun at a time.
  let renewing = Mutex(())

  /// - Parameters:
  ///   - find: where the server is; may block. Called until it succeeds.
  ///   - isExpected: whether the broker may be of this user.
  ///   - out: writes one message with its newline.
  init(
    find: @escaping @Sendable () -> Result<Endpoint, BridgeProblem>,
    from isExpected: @escaping @Sendable (UInt32) -> Bool,
    out: @escaping @Sendable ([UInt8]) -> Void, log: @escaping @Sendable (String) -> Void
  ) {
    self.find = find
    self.isExpected = isExpected
    self.out = out
    self.log = log
  }

  // MARK: Standard input

  /// A line of standard input, without its newline.
  func received(_ line: [UInt8]) {
    guard line.contains(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return }
    let message = BridgedMessage(line)
    switch message.kind {
    case .request(let id, let method):
      if method == "initialize" { state.withLock { $0.initialize = line } }
      start(line, message, id.serialized())
    case .batch: start(line, message, line)
    case .notification(let method):
      if let id = message.cancelled { return cancelled(id, line, message) }
      deliver(line, message)
      if method == "notifications/initialized" { listen() }
    case .response: deliver(line, message)
    case .other:
      write(BridgedMessage.error(-32700, "the line is not a message of JSON-RPC 2.0", hint: nil, id: nil))
    }
  }

  func receivedTooLong() {
    write(
      BridgedMessage.error(
        -32600, "a message is longer than \(Limit.message >> 20) MiB", hint: "Send less at a time.", id: nil))
  }

  private func start(_ line: [UInt8], _ message: BridgedMessage, _ key: [UInt8]) {
    let isAdmitted = state.withLock { state in
      guard state.running.count < Limit.requests, state.running[key] == nil else { return false }
      state.running[key] = .some(nil)
      state.cancelled.remove(key)
      return true
    }
    let code =
      isAdmitted
      ? OwnThread.start("request") { [self] in
        carry(line, message, key)
        state.withLock { state in
          state.running[key] = nil
          state.cancelled.remove(key)
        }
      } : -1
    guard code != 0 else { return }
    if isAdmitted { state.withLock { $0.running[key] = nil } }
    write(
      BridgedMessage.error(
        Int64(ErrorReason.overloaded.code), "more than \(Limit.requests) requests at once, or one id twice",
        hint: "Wait for their answers.", reason: ErrorReason.overloaded.rawValue, id: message.requestID))
  }

  /// The client wants no answer. In the revisions without sessions the end of the connection is the cancellation.
  private func cancelled(_ id: JSON, _ line: [UInt8], _ message: BridgedMessage) {
    let key = id.serialized()
    state.withLock { if $0.running[key] != nil { $0.cancelled.insert(key) } }
    if state.withLock({ $0.version }) != nil { deliver(line, message) }
    state.withLock { $0.running[key] ?? nil }?.stop()
  }

  func isCancelled(_ key: [UInt8]) -> Bool { state.withLock { $0.cancelled.contains(key) || $0.isEnding } }

  /// Standard input has ended: the last answers are awaited, and the session is ended.
  func end() {
    wait(Limit.lastAnswers) { state.withLock { $0.running.isEmpty } }
    let (running, listener, session) = state.withLock { state in
      state.isEnding = true
      return (state.running.values.compactMap { $0 }, state.listener, state.sessionID)
    }
    for exchange in running + [listener].compactMap(\.self) { exchange.stop() }
    guard session != nil, let place = found.withLock({ $0 }),
      let exchange = try? ForwardExchange(to: place.socket, from: isExpected),
      exchange.send(.init(method: "DELETE", target: place.target, headers: headers(nil), body: nil))
    else { return }
    _ = try? exchange.next(within: Limit.farewell)
  }

  // MARK: Standard output

  func write(_ message: [UInt8]) {
    guard !message.isEmpty else { return }
    // Within JSON a line break is white space.
    let line = message.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 } + [0x0A]
    writing.withLock { _ in out(line) }
  }

  // MARK: Requests

  private func endpoint() throws(BridgeProblem) -> Endpoint {
    if let known = found.withLock({ $0 }) { return known }
    let place = try find().get()
    found.withLock { $0 = place }
    return place
  }

  /// A connection to the broker; waits while it is restarted.
  func open(whileWanted isWanted: () -> Bool) throws(BridgeProblem) -> (exchange: ForwardExchange, place: Endpoint) {
    let end = Bridge.uptime() + Limit.absence
    while true {
      let problem: BridgeProblem
      do throws(BridgeProblem) {
        let place = try endpoint()
        do throws(ConnectFailure) {
          return (try ForwardExchange(to: place.socket, from: isExpected), place)
        } catch {
          problem = BridgeProblem(error, at: place.socket)
        }
      } catch {
        problem = error
      }
      guard problem.mayPass, Bridge.uptime() < end, isWanted() else { throw problem }
      Bridge.sleep(Limit.shortestPause)
    }
  }

  /// - Parameter message: nil: the request has no message.
  func headers(_ message: BridgedMessage?, lastEvent: String? = nil) -> [(name: String, value: String)] {
    let (session, version) = state.withLock { ($0.sessionID, $0.version) }
    var headers = [("Accept", message == nil ? "text/event-stream" : "application/json, text/event-stream")]
    if message != nil { headers.append(("Content-Type", "application/json")) }
    if message?.method != "initialize" {
      if let session { headers.append(("Mcp-Session-Id", session)) }
      if let version = message?.version ?? version, BridgeProblem.isHeader(version) {
        headers.append(("MCP-Protocol-Version", version))
      }
    }
    if let message, message.version != nil, let method = message.method {
      headers.append(("Mcp-Method", BridgedMessage.headerValue(method)))
      if let name = message.name { headers.append(("Mcp-Name", BridgedMessage.headerValue(name))) }
    }
    if let lastEvent, BridgeProblem.isHeader(lastEvent) { headers.append(("Last-Event-ID", lastEvent)) }
    return headers
  }

  private func wait(_ limit: Duration, until isDone: () -> Bool) {
    let end = Bridge.uptime() + limit
    while !isDone(), Bridge.uptime() < end { Bridge.sleep(.milliseconds(10)) }
  }
}
