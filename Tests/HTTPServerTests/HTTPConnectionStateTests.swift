import NIOCore
import NIOHTTP1
import Testing

@testable import HTTPServer

/// The events of one connection, and the resulting actions.
@Suite struct HTTPConnectionStateTests {
  enum Event: Sendable {
    case byte
    case get, head, old, oldHead, close, upgrade, connect
    case collect(Int), stream, withoutBody
    case body(String), end
    case noHTTP, headOverflow
    /// An answer in parts, with a length or without; the second parameter: more requests came.
    case begin(hasLength: Bool = false, hasMore: Bool = false), endParts
    case isLast(hasMore: Bool)
    case reply, answered(isLast: Bool)
    case sent, notSent
    case inputEnded, inputHandled, timedOut
    case stop(HTTPConnectionState.Wait? = nil, isUnread: Bool = false, isWriting: Bool = false)
    case ends, closed
    /// The progress, and whether input is dropped, whether a close must look incomplete, and whether all is sent.
    case look
  }

  private static func request(
    _ method: HTTPMethod, _ version: HTTPVersion = .http1_1, _ headers: HTTPHeaders = [:]
  ) -> HTTPServerRequestPart {
    .head(HTTPRequestHead(version: version, method: method, uri: "/", headers: headers))
  }

  private static func text(_ action: HTTPConnectionState.Action?) -> String {
    switch action {
    case .begin(let head): "begin \(head.method)"
    case .answer(_, let body): "answer " + String(buffer: body)
    case .pass(let bytes, _): "pass " + String(buffer: bytes)
    case .endBody: "endBody"
    case .stall: "stall"
    case .cut(_, let end): "cut \(end)"
    case .refuse(let refusal, let body): "refuse \(refusal)" + (body == nil ? "" : " cut")
    case .end(let end): "\(end)"
    case nil: "nothing"
    }
  }

  private static func look(_ state: HTTPConnectionState) -> String {
    let facts = [(state.isOver, "over"), (state.isCut, "cut"), (state.isSent, "sent"), (state.hasBegun, "begun")]
    return (["\(state.progress(.init(isWriting: false, isBehind: false)))"] + facts.filter(\.0).map(\.1))
      .joined(separator: " ")
  }

  /// The action; nil: the event has none.
  private static func apply(_ event: Event, to state: inout HTTPConnectionState) -> String? {
    switch event {
    case .byte: state.headBegan()
    case .get: return text(state.received(request(.GET)))
    case .head: return text(state.received(request(.HEAD)))
    case .old: return text(state.received(request(.GET, .http1_0)))
    case .oldHead: return text(state.received(request(.HEAD, .http1_0)))
    case .close: return text(state.received(request(.GET, .http1_1, ["Connection": "close"])))
    case .upgrade: return text(state.received(request(.GET, .http1_1, ["Upgrade": "websocket"])))
    case .connect: return text(state.received(request(.CONNECT)))
    case .collect(let limit): state.collect(atMost: limit)
    case .stream: state.stream(HTTPRequestBody(length: nil) {})
    case .withoutBody: state.answerWithoutBody()
    case .body(let bytes): return text(state.received(.body(ByteBuffer(string: bytes))))
    case .end: return text(state.received(.end(nil)))
    case .noHTTP: return text(state.failed(.invalidMethod))
    case .headOverflow: return text(state.failed(.headerOverflow))
    case .begin(let hasLength, let hasMore):
      return state.begin(hasLength: hasLength, hasMore: hasMore) ? "last" : "kept"
    case .endParts: return state.isLast(hasMore: false) ? "last" : "kept"
    case .isLast(let hasMore): return state.isLastAnswer(hasMore: hasMore) ? "last" : "kept"
    case .reply: state.begin()
    case .answered(let isLast): state.answered(isLast: isLast)
    case .sent: return state.sent(true) ? "close" : "endOutput"
    case .notSent: return state.sent(false) ? "close" : "endOutput"
    case .inputEnded: state.inputEnded()
    case .inputHandled: return text(state.inputHandled())
    case .timedOut: return text(state.timedOut())
    case .stop(let wait, let isUnread, let isWriting):
      return "\(state.stop(.init(isWriting: isWriting, isBehind: false), wait, isUnread: isUnread))"
    case .ends: state.end()
    case .closed: state.close()
    case .look: return look(state)
    }
    return nil
  }

  private static func actions(_ events: [Event], keepsConnections: Bool = true) -> [String] {
    var state = HTTPConnectionState(keepsConnections: keepsConnections)
    return events.compactMap { apply($0, to: &state) }
  }

  @Test(
    "each event of a request has its action",
    arguments: [
      ([.look, .byte, .look, .get, .look], ["silent", "inHead", "begin GET", "inBody"]),
      // A body that is read first.
      (
        [.get, .collect(4), .look, .body("ab"), .body("cd"), .end, .look],
        ["begin GET", "inBody", "nothing", "nothing", "answer abcd", "handling"]
      ),
      ([.get, .collect(3), .body("ab"), .body("cd")], ["begin GET", "nothing", "refuse largeBody"]),
      ([.get, .collect(0), .end, .get, .body("a"), .end], ["begin GET", "answer ", "nothing", "nothing", "nothing"]),
      // A body that is passed on.
      (
        [.get, .stream, .look, .body("a"), .reply, .look, .body("b"), .end, .look],
        ["begin GET", "uploading", "pass a", "handling begun", "pass b", "endBody", "handling begun"]
      ),
      ([.get, .stream, .get], ["begin GET", "nothing"]),
      // Input that is dropped.
      ([.get, .withoutBody, .look, .body("a"), .end], ["begin GET", "handling over", "nothing", "nothing"]),
      ([.collect(1), .stream, .withoutBody, .look, .body("a"), .end], ["silent", "nothing", "nothing"]),
      ([.get, .collect(1), .byte, .stream, .look], ["begin GET", "inBody"]),
      // Input that cannot be parsed.
      ([.noHTTP, .headOverflow], ["refuse noHTTP", "refuse largeHead"]),
      ([.byte, .noHTTP], ["refuse noHTTP"]), ([.get, .collect(1), .noHTTP], ["begin GET", "refuse noHTTP"]),
      ([.get, .stream, .noHTTP], ["begin GET", "refuse noHTTP cut"]),
      ([.get, .stream, .reply, .noHTTP], ["begin GET", "cut close"]),
      ([.get, .stream, .end, .noHTTP], ["begin GET", "endBody", "nothing"]),
      // Late input.
      ([.timedOut], ["close"]), ([.byte, .timedOut], ["refuse lateHead"]),
      ([.get, .collect(1), .timedOut], ["begin GET", "refuse lateBody"]),
      ([.get, .stream, .timedOut], ["begin GET", "stall"]),
      ([.get, .stream, .end, .timedOut], ["begin GET", "endBody", "close"]), ([.ends, .timedOut], ["close"]),
      // The end of the input.
      ([.inputEnded, .inputHandled], ["closeWhenSent"]), ([.byte, .inputHandled], ["closeWhenSent"]),
      ([.get, .collect(1), .inputHandled], ["begin GET", "closeWhenSent"]),
      ([.get, .stream, .inputHandled], ["begin GET", "cut closeWhenSent"]),
      ([.get, .stream, .reply, .inputHandled], ["begin GET", "cut close"]),
      ([.get, .stream, .end, .inputHandled], ["begin GET", "endBody", "nothing"]),
    ] as [([Event], [String])])
  func request(_ events: [Event], _ expected: [String]) {
    #expect(Self.actions(events) == expected)
  }

  private static let asked: [Event] = [.get, .stream, .end]

  @Test(
    "the connection is kept unless its end belongs to the answer",
    arguments: [
      ([.get, .collect(1), .end, .isLast(hasMore: false)], ["kept"]),
      ([.old, .collect(1), .end, .isLast(hasMore: false)], ["last"]),
      ([.close, .collect(1), .end, .isLast(hasMore: true)], ["last"]),
      ([.upgrade, .collect(1), .end, .isLast(hasMore: false)], ["last"]),
      ([.connect, .collect(1), .end, .isLast(hasMore: false)], ["last"]),
      ([.get, .withoutBody, .isLast(hasMore: false)], ["last"]), ([.byte, .isLast(hasMore: false)], ["last"]),
      ([.inputEnded, .get, .collect(1), .end, .isLast(hasMore: true), .isLast(hasMore: false)], ["kept", "last"]),
      ([.get, .collect(1), .stop(), .end, .isLast(hasMore: false)], ["last"]),
      // In parts.
      (asked + [.begin(), .endParts], ["kept", "kept"]), (asked + [.begin(), .stop(), .endParts], ["kept", "last"]),
      (asked + [.begin(), .inputEnded, .endParts], ["kept", "last"]),
      (asked + [.inputEnded, .begin(hasMore: true), .endParts], ["kept", "last"]),
      ([.get, .stream, .begin(), .endParts], ["kept", "last"]),
      ([.close, .stream, .end, .begin(), .endParts], ["last", "last"]),
      ([.old, .stream, .end, .begin(hasLength: true)], ["last"]), ([.endParts], ["last"]),
    ] as [([Event], [String])])
  func keeping(_ events: [Event], _ expected: [String]) {
    #expect(Self.actions(events).filter { ["kept", "last"].contains($0) } == expected)
  }

  @Test(
    "each event of an answer and of the end has its action",
    arguments: [
      ([.answered(isLast: false), .look, .byte, .look], ["silent", "inHead"]),
      (
        [.answered(isLast: true), .look, .sent, .look, .sent],
        ["answering over", "endOutput", "over over sent", "endOutput"]
      ),
      ([.answered(isLast: true), .notSent, .look], ["close", "answering over"]),
      // There is nothing to wait for.
      ([.inputEnded, .answered(isLast: true), .sent, .look], ["close", "answering over"]),
      ([.sent, .notSent], ["close", "close"]), ([.ends, .sent], ["endOutput"]),
      // A second end changes nothing.
      ([.answered(isLast: true), .answered(isLast: false), .look], ["answering over"]),
      ([.answered(isLast: true), .sent, .ends, .look], ["endOutput", "over over sent"]),
      (
        [.closed, .answered(isLast: true), .ends, .byte, .get, .noHTTP, .inputHandled, .look],
        ["nothing", "nothing", "nothing", "over over"]
      ),
      ([.answered(isLast: true), .get, .body("a"), .end, .noHTTP], ["nothing", "nothing", "nothing", "nothing"]),
      // An answer that is not asked for.
      ([.reply, .begin(), .look], ["last", "silent"]),
    ] as [([Event], [String])])
  func ends(_ events: [Event], _ expected: [String]) {
    #expect(Self.actions(events) == expected)
  }

  @Test(
    "a close looks incomplete while the end of the connection would be that of the answer",
    arguments: [
      (.old, false, true), (.old, true, false), (.oldHead, false, false), (.get, false, false), (.close, false, false),
    ] as [(Event, Bool, Bool)])
  func cut(_ request: Event, hasLength: Bool, isCut: Bool) {
    var state = HTTPConnectionState(keepsConnections: true)
    func apply(_ events: Event...) { for event in events { _ = Self.apply(event, to: &state) } }
    apply(request, .stream)
    #expect(!state.isCut)
    apply(.begin(hasLength: hasLength))
    #expect(state.isCut == isCut)
    apply(.end)
    #expect(state.isCut == isCut)
    apply(.answered(isLast: true))
    #expect(state.isCut == isCut)
    apply(.notSent)
    #expect(state.isCut == isCut)
    apply(.sent)
    #expect(!state.isCut)
  }

  @Test(
    "the stop closes connections without a request that is being answered",
    arguments: [
      ([.stop()], ["close"]), ([.stop(isUnread: true)], ["closeWhenSent"]), ([.byte, .stop()], ["close"]),
      ([.byte, .stop(isWriting: true)], ["nothing"]), ([.get, .collect(1), .stop()], ["begin GET", "hurry"]),
      ([.get, .stream, .stop()], ["begin GET", "nothing"]),
      ([.get, .stream, .end, .stop()], ["begin GET", "endBody", "nothing"]),
      ([.ends, .stop()], ["nothing"]), ([.ends, .sent, .stop()], ["endOutput", "close"]),
      ([.stop(.turn)], ["nothing"]), ([.stop(.pace)], ["closeWhenSent"]),
      ([.stop(.turn), .get, .stream, .end, .endParts], ["nothing", "begin GET", "endBody", "last"]),
    ] as [([Event], [String])])
  func stop(_ events: [Event], _ expected: [String]) {
    #expect(Self.actions(events) == expected)
  }

  @Test(
    "a connection for one request drops the rest, and the stop closes it while its body comes",
    arguments: [
      ([.get, .collect(1), .end, .look, .isLast(hasMore: true)], ["begin GET", "answer ", "handling over", "last"]),
      ([.get, .collect(1), .stop()], ["begin GET", "close"]), ([.get, .stream, .stop()], ["begin GET", "nothing"]),
    ] as [([Event], [String])])
  func once(_ events: [Event], _ expected: [String]) {
    #expect(Self.actions(events, keepsConnections: false) == expected)
  }

  @Test(
    "input is taken one request at a time, and not while the client does not read",
    arguments: [
      ([], true, false), ([.byte], true, false), ([.get], false, false), ([.get, .collect(1)], true, false),
      ([.get, .stream], true, true), ([.get, .stream, .end], false, false), ([.get, .withoutBody], false, false),
      ([.ends], false, false), ([.closed], false, false),
    ] as [([Event], Bool, Bool)])
  func takes(_ events: [Event], ifWritable: Bool, otherwise: Bool) {
    var state = HTTPConnectionState(keepsConnections: true)
    for event in events { _ = Self.apply(event, to: &state) }
    #expect(state.takes(isWritable: true) == ifWritable)
    #expect(state.takes(isWritable: false) == otherwise)
  }

  @Test("a connection between requests that writes or has more to handle is not silent", arguments: [false, true])
  func busy(inHead: Bool) {
    var state = HTTPConnectionState(keepsConnections: true)
    if inHead { state.headBegan() }
    #expect(state.progress(.init(isWriting: true, isBehind: true)) == .answering)
    #expect(state.progress(.init(isWriting: false, isBehind: true)) == .inBody)
    #expect(state.progress(.init(isWriting: false, isBehind: false)) == (inHead ? .inHead : .silent))
  }
}
