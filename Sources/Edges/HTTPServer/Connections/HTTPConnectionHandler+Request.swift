import Listening
import NIOCore
import NIOHTTP1

// A request's head, and what becomes of the request by it.
extension HTTPConnectionHandler {
  func begin(_ head: HTTPRequestHead) {
    guard let context else { return }
    guard recordProgress() else {
      // Its place went to another connection.
      state.close()
      dropInput()
      return close()
    }
    client.pace?.spend(requests: 1, bytes: 0)
    times.late = nil
    let exchange = HTTPExchange(NIOLoopBound(self, eventLoop: context.eventLoop), context.channel, head)
    self.exchange = exchange
    if connections.checks != .none {
      let check = HeadCheck(
        port: context.channel.localAddress?.port, servesBrowsers: connections.checks == .everybody)
      if let refusal = check.refusal(of: head) { return refuse(refusal) }
    }
    switch conversation.intake(of: head) {
    case .refuse(let reply): refuse(reply)
    case .whole(let limit):
      if let length = head.headers.first(name: "Content-Length").flatMap({ Int($0) }), length > limit {
        return refuse(.largeBody)
      }
      if limit == 0, Self.hasBody(head) { return refuse(.largeBody) }
      incoming.bodyBegins()
      state.collect(atMost: limit)
      times.deadline = .now() + TimeAmount(connections.limits.stall)
      goOn(head)
    case .withoutBody:
      state.answerWithoutBody()
      answer(head, ByteBuffer())
    case .stream(let time, let reply):
      times.late = (.now() + TimeAmount(time), TimeAmount(time), reply)
      let hasBody = Self.hasBody(head)
      let length = hasBody ? head.headers.first(name: "Content-Length").flatMap { Int($0) } : 0
      let body = HTTPRequestBody(length: length) { [weak self] in self?.wantsBody() }
      state.stream(body)
      // A body's time runs while it is wanted; all of it has the answer's.
      times.deadline = nil
      goOn(head)
      // From now on it is read on demand. Without a body, its end is already here.
      if hasBody { pause() }
      conversation.stream(head, body, exchange)
    }
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer) {
    if state.isOver { dropInput() }
    (times.deadline, times.latest) = (nil, nil)
    guard let exchange else { return }
    conversation.answer(head, body, exchange)
    if self.exchange !== exchange, response.isFromMemory { client.pace?.spend(requests: -1, bytes: 0) }
  }

  private static func hasBody(_ head: HTTPRequestHead) -> Bool {
    head.headers.contains(name: "Transfer-Encoding")
      || head.headers.first(name: "Content-Length").map { $0 != "0" } ?? false
  }

  /// RFC 9110 §10.1.1.
  private func goOn(_ head: HTTPRequestHead) {
    guard let context, head.version == .http1_1, Self.hasBody(head),
      head.headers["Expect"].contains(where: { $0.lowercased() == "100-continue" })
    else { return }
    context.writeAndFlush(
      wrapOutboundOut(.head(HTTPResponseHead(version: .http1_1, status: .continue))), promise: nil)
  }

  private func wantsBody() {
    guard state.body != nil else { return }
    times.deadline = .now() + TimeAmount(connections.limits.stall)
    hasMore ? goOn() : context?.read()
  }

  func refuse(_ refusal: HTTPRefusal) {
    refuse(conversation.words(for: refusal, line: incoming.line.opening).last())
  }

  /// Answers without reading the rest of the request.
  private func refuse(_ reply: HTTPReply) {
    let reply = state.head.map(Self.hasBody) ?? true ? reply.last() : reply
    write(reply)
  }
}
