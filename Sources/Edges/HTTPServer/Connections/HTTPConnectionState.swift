import NIOCore
import NIOHTTP1

/// The state of one connection without its channel: the request that is read or answered, and whether another follows. Each
/// event has an action.
struct HTTPConnectionState {
  enum Phase {
    /// Between requests.
    case idle
    /// A part of a head came.
    case inHead
    /// A head was read, and it is not decided yet how the request is answered.
    case begun(HTTPRequestHead)
    case collecting(HTTPRequestHead, limit: Int, ByteBuffer)
    case streaming(HTTPRequestHead, HTTPRequestBody, Answer)
    /// The request is read to its end.
    ///
    /// - Parameter isLast: nothing that follows it is examined.
    case answering(HTTPRequestHead, Answer, isLast: Bool)
    /// The answer is written and the connection ends: further input is dropped, since closing would reset the
    /// connection and could lose the answer.
    ///
    /// - Parameter isCut: a close now must look incomplete: the end of the connection is that of the answer.
    case ending(Output, isCut: Bool)
    case closed
  }

  enum Answer: Equatable {
    case awaited
    /// - Parameter isUnframed: it ends with the connection.
    case begun(isLast: Bool, isUnframed: Bool)
  }

  enum Output { case unsent, sent }

  enum Action {
    case begin(HTTPRequestHead)
    case answer(HTTPRequestHead, ByteBuffer)
    case pass(ByteBuffer, to: HTTPRequestBody)
    case endBody(HTTPRequestBody)
    /// The body's reader may answer for that.
    case stall(HTTPRequestBody)
    /// The same; otherwise the connection ends.
    case cut(HTTPRequestBody, End)
    /// A body's reader is informed afterwards.
    case refuse(HTTPRefusal, HTTPRequestBody?)
    case end(End)
  }

  enum End {
    case close
    case closeWhenSent
  }

  /// The handler's figures at an event.
  struct Load {
    /// Parts of answers are not with the kernel.
    var isWriting: Bool
    /// Something came that was not handled at once.
    var isBehind: Bool
  }

  let keepsConnections: Bool
  private(set) var phase = Phase.idle
  /// No request is taken after the current one.
  private(set) var isStopping = false
  /// The client sends no more, so that there is nothing to wait for once it has its answer.
  private(set) var hasInputEnded = false

  init(keepsConnections: Bool) { self.keepsConnections = keepsConnections }

  // MARK: a request

  /// The first byte of a request came.
  mutating func headBegan() { if isIdle { phase = .inHead } }

  mutating func received(_ part: HTTPServerRequestPart) -> Action? {
    switch (part, phase) {
    case (.head(let head), .idle), (.head(let head), .inHead):
      // The decoder reads nothing after such a request, as another protocol could follow.
      isStopping = isStopping || head.headers.contains(name: "Upgrade") || head.method == .CONNECT
      phase = .begun(head)
      return .begin(head)
    case (.body(var bytes), .collecting(let head, let limit, var body)):
      guard body.readableBytes + bytes.readableBytes <= limit else { return .refuse(.largeBody, nil) }
      // One reference to the bytes.
      phase = .begun(head)
      body.writeBuffer(&bytes)
      phase = .collecting(head, limit: limit, body)
      return nil
    case (.end, .collecting(let head, _, let body)):
      phase = .answering(head, .awaited, isLast: !keepsConnections)
      return .answer(head, body)
    case (.body(let bytes), .streaming(_, let body, _)): return .pass(bytes, to: body)
    case (.end, .streaming(let head, let body, let answer)):
      phase = .answering(head, answer, isLast: false)
      return .endBody(body)
    case (.head, _), (.body, _), (.end, _): return nil
    }
  }

  mutating func collect(atMost limit: Int) {
    if case .begun(let head) = phase { phase = .collecting(head, limit: limit, ByteBuffer()) }
  }

  mutating func stream(_ body: HTTPRequestBody) {
    if case .begun(let head) = phase { phase = .streaming(head, body, .awaited) }
  }

  /// The body is dropped, and the connection ends with the answer.
  mutating func answerWithoutBody() {
    if case .begun(let head) = phase { phase = .answering(head, .awaited, isLast: true) }
  }

  /// The input cannot be parsed.
  func failed(_ error: HTTPParserError) -> Action? {
    switch phase {
    case .idle, .inHead, .begun, .collecting:
      if case .headerOverflow = error { .refuse(.largeHead, nil) } else { .refuse(.noHTTP, nil) }
    // Framing that breaks in the middle of a body: nothing after it is another request.
    case .streaming(_, let body, .awaited): .refuse(.noHTTP, body)
    case .streaming(_, let body, .begun): .cut(body, .close)
    case .answering, .ending, .closed: nil
    }
  }

  // MARK: the answer

  /// An answer in parts begins.
  ///
  /// - Returns: whether the connection ends with it.
  mutating func begin(hasLength: Bool, hasMore: Bool) -> Bool {
    // HTTP/1.0 has no chunks: the connection's end is that of the answer.
    let isUnframed = head?.version == .http1_0 && !hasLength
    let isLast = isLastAnswer(hasMore: hasMore) || isUnframed
    begin(.begun(isLast: isLast, isUnframed: isUnframed && head?.method != .HEAD))
    return isLast
  }

  /// A complete answer is being written.
  mutating func begin() { begin(.begun(isLast: false, isUnframed: false)) }

  private mutating func begin(_ answer: Answer) {
    switch phase {
    case .streaming(let head, let body, _): phase = .streaming(head, body, answer)
    case .answering(let head, _, let isLast): phase = .answering(head, answer, isLast: isLast)
    case .idle, .inHead, .begun, .collecting, .ending, .closed: break
    }
  }

  /// Whether the connection ends with the answer in parts that ends now. During the request's body it does: the client still
  /// sends.
  func isLast(hasMore: Bool) -> Bool {
    guard case .begun(let isLast, _) = answer else { return true }
    return isLast || isStopping || body != nil || hasAskedAll(hasMore)
  }

  /// The answer is written.
  mutating func answered(isLast: Bool) {
    switch phase {
    case .ending, .closed: break
    case .idle, .inHead, .begun, .collecting, .streaming, .answering:
      phase = isLast ? .ending(.unsent, isCut: isCut) : .idle
    }
  }

  /// All of the last answer is with the kernel, or the channel failed.
  ///
  /// - Returns: close now; otherwise only the output, and wait for the client.
  mutating func sent(_ isSent: Bool) -> Bool {
    guard isSent, case .ending = phase else { return true }
    phase = .ending(hasInputEnded ? .unsent : .sent, isCut: false)
    return hasInputEnded
  }

  // MARK: the end

  /// The client sends no more.
  mutating func inputEnded() { hasInputEnded = true }

  /// The client sends no more, and all that it sent is handled.
  func inputHandled() -> Action? {
    switch phase {
    case .idle, .inHead, .begun, .collecting: .end(.closeWhenSent)
    case .streaming(_, let body, .awaited): .cut(body, .closeWhenSent)
    case .streaming(_, let body, .begun): .cut(body, .close)
    case .answering, .ending, .closed: nil
    }
  }

  /// Its time is over.
  func timedOut() -> Action {
    switch phase {
    case .inHead: .refuse(.lateHead, nil)
    case .collecting: .refuse(.lateBody, nil)
    case .streaming(_, let body, _): .stall(body)
    case .idle, .begun, .answering, .ending, .closed: .end(.close)
    }
  }

  enum Stop: Equatable {
    case closeWhenSent
    case close
    /// The rest of its body has a short time.
    case hurry
    /// Its answer is the last.
    case nothing
  }

  /// Why the next request is not handled yet.
  enum Wait { case turn, pace }

  /// The server stops.
  ///
  /// - Parameter isUnread: the client has sent more than is read.
  mutating func stop(_ load: Load, _ wait: Wait?, isUnread: Bool) -> Stop {
    isStopping = true
    switch wait {
    // It has a request that is handled when its turn comes.
    case .turn: return .nothing
    // Its user has sent too many requests for the time that is left.
    case .pace: return .closeWhenSent
    case nil: break
    }
    guard progress(load) > (keepsConnections ? .inHead : .inBody) else {
      // Bytes that are not read would have the kernel drop answers that it has not sent yet.
      return isUnread ? .closeWhenSent : .close
    }
    if case .collecting = phase { return .hurry }
    return .nothing
  }

  /// No answer follows.
  mutating func end() {
    switch phase {
    case .ending, .closed: break
    case .idle, .inHead, .begun, .collecting, .streaming, .answering: phase = .ending(.unsent, isCut: isCut)
    }
  }

  mutating func close() { phase = .closed }
}
