import HTTPServer
import NIOHTTP1
import Testing

@testable import Loopback

/// A request and its body as events, and the resulting actions.
@Suite struct ForwardedRequestStateTests {
  enum Event: Sendable {
    case began
    case needsBody(RetainedBody.State)
    case body(RetainedBody.State)
    case allowed(canSend: Bool = true, hasBody: Bool = true)
    case refused(RetainedBody.State)
    case stop
  }

  private static func text(_ action: ForwardedRequestState.Action?) -> String {
    switch action {
    case nil: "nothing"
    case .decide(let byBody): byBody ? "decide by body" : "decide"
    case .read: "read"
    case .send: "send"
    case .write: "write"
    case .refuse(let reply): "refuse \(reply.status.code)"
    case .reply(let reply, let isCall): "reply \(reply.status.code)\(isCall ? " to a call" : "")"
    }
  }

  /// The action; nil: the event has none.
  private static func apply(_ event: Event, to state: inout ForwardedRequestState) -> String? {
    switch event {
    case .began: return text(state.began())
    case .needsBody(let body): return text(state.needsBody(body))
    case .body(let body): return text(state.bodyCame(body))
    case .allowed(let canSend, let hasBody): return text(state.allowed(canSend: canSend, hasBody: hasBody))
    case .refused(let body): return text(state.refused(HTTPReply(.badGateway, error: "e", "no", hint: "h"), body))
    case .stop: state.stop()
    }
    return nil
  }

  private static func actions(_ head: HTTPRequestHead, _ events: [Event]) -> [String] {
    var state = ForwardedRequestState(head)
    return events.compactMap { apply($0, to: &state) }
  }

  @Test(
    "Each event has its action",
    arguments: [
      ([.began, .allowed(hasBody: false), .body(.whole)], ["decide", "send", "nothing"]),
      (
        [.began, .body(.partial), .allowed(), .body(.partial), .body(.whole)],
        ["decide", "nothing", "send", "write", "write"]
      ),
      ([.allowed(), .body(.failed)], ["send", "write"]),
      // The body decides.
      (
        [.needsBody(.partial), .body(.partial), .body(.whole), .body(.whole)],
        ["read", "read", "decide by body", "nothing"]
      ),
      ([.needsBody(.whole), .allowed(hasBody: false), .body(.whole)], ["decide by body", "send", "nothing"]),
      ([.needsBody(.partial), .body(.failed)], ["read", "refuse 408"]),
      ([.needsBody(.partial), .body(.tooLong)], ["read", "refuse 413"]),
      ([.needsBody(.partial), .body(.unkept)], ["read", "refuse 503"]),
      ([.needsBody(.failed)], ["refuse 408"]), ([.needsBody(.tooLong)], ["refuse 413"]),
      ([.needsBody(.unkept)], ["refuse 503"]),
      // A retry.
      ([.allowed(), .allowed()], ["send", "send"]), ([.allowed(), .allowed(canSend: false)], ["send", "refuse 502"]),
      // A refusal, and the client's end.
      ([.refused(.partial), .body(.whole)], ["reply 502", "nothing"]), ([.refused(.whole)], ["reply 502"]),
      ([.allowed(), .refused(.partial), .body(.partial)], ["send", "reply 502", "nothing"]),
      ([.needsBody(.partial), .stop, .body(.whole)], ["read", "nothing"]),
      ([.allowed(), .stop, .body(.whole)], ["send", "nothing"]),
    ] as [([Event], [String])])
  func actions(_ events: [Event], _ expected: [String]) {
    #expect(Self.actions(HTTPRequestHead(version: .http1_1, method: .GET, uri: "/"), events) == expected)
  }

  @Test(
    "A refused JSON-RPC request is answered once its body is whole",
    arguments: [
      (
        [.refused(.partial), .body(.partial), .body(.whole), .body(.whole)],
        ["read", "read", "reply 502 to a call", "nothing"]
      ),
      ([.refused(.whole)], ["reply 502 to a call"]), ([.refused(.failed)], ["reply 502"]),
      ([.refused(.tooLong)], ["reply 502"]), ([.refused(.unkept)], ["reply 502"]),
      ([.refused(.partial), .body(.failed)], ["read", "reply 502"]),
      ([.refused(.partial), .body(.unkept)], ["read", "reply 502"]),
      ([.refused(.partial), .stop, .body(.whole)], ["read", "nothing"]),
      ([.needsBody(.partial), .body(.tooLong), .refused(.tooLong)], ["read", "refuse 413", "reply 502"]),
      ([.allowed(), .refused(.partial), .body(.whole)], ["send", "read", "reply 502 to a call"]),
    ] as [([Event], [String])])
  func calls(_ events: [Event], _ expected: [String]) {
    let head = HTTPRequestHead(
      version: .http1_1, method: .POST, uri: "/", headers: ["Content-Type": "application/json"])
    #expect(Self.actions(head, events) == expected)
  }
}
