import Broker
import BrokerAPI
import HTTPServer
import NIOCore
import NIOHTTP1
import Testing

@testable import Loopback

/// The events of the client, the broker and the server, and the resulting actions.
@Suite struct ForwardedRequestTests {
  enum Event: Sendable {
    // The broker decides.
    case began
    case unknown, needsBody(RetainedBody.State)
    case allowed(isSigned: Bool = false)
    case refused(RetainedBody.State)
    // The client.
    case body(RetainedBody.State)
    case flushed(Bool)
    case tookMore, stop
    // The server.
    case asked, serverTookMore
    case bodyFailed
    case status(UInt, RetainedBody.State = .whole)
    case sent(String)
    case paused, ended
    case failed(RetainedBody.State = .whole)
    // The broker's verdict.
    case passed
    case again(canSend: Bool = true)
    case stepUp(String?)
    case refusedAnswer(RetainedBody.State = .whole)
  }

  private static let denied = RPCError(.notPermitted, "no rule")
  private static let error = RPCError(.loginRequired, "sign in")
  private static let call = #"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#

  private static func question(isSigned: Bool = false) -> ForwardedAnswer.Question {
    .init(isSigned: isSigned, filter: TokenFilter(["secret-token"]), redirect: { _ in nil })
  }

  private static func text(_ action: ForwardedAnswer.Action) -> String {
    switch action {
    case .judge(let head, let body, let upstream): "judge \(head.status.code) \(String(buffer: body))\(upstream)"
    case .begin(let head): "begin \(head.status.code)"
    case .write(let part): "pass \(String(buffer: part))"
    case .flush: "flush"
    case .pause: "pause"
    case .resume: "resume"
    case .end(let rest): "end\(rest.map { " " + String(buffer: $0) } ?? "")"
    case .reply(let reply): "answer \(reply.status.code) \(String(buffer: reply.body))"
    case .abort: "abort"
    }
  }

  private static func text(_ action: ForwardedRequest.Action?) -> String {
    switch action {
    case nil: "nothing"
    case .decide(let decider)?: "decide by \(decider)"
    case .read?: "read"
    case .send(let hasBody, let isRepeatable)?:
      "send\(hasBody ? " with body" : "")\(isRepeatable ? ", repeatable" : "")"
    case .write?: "write"
    case .answer(let action)?: text(action)
    case .cancel?: "cancel"
    case .refuse(let reply, let isCall)?: "refuse \(reply.status.code)\(isCall ? " a call" : "")"
    }
  }

  /// - Returns: the actions; empty: the event has none.
  private static func apply(_ event: Event, to request: inout ForwardedRequest) -> [String] {
    switch event {
    case .began: return [text(request.began())]
    case .unknown: return [text(request.decided(.unknown, .partial))]
    case .needsBody(let body): return [text(request.decided(.needsBody, body))]
    case .allowed(let isSigned): return [text(request.decided(.allowed(question(isSigned: isSigned)), .partial))]
    case .refused(let body): return [text(request.decided(.refused(denied), body))]
    case .body(let body): return [text(request.bodyCame(body))]
    case .flushed(let isWritable): return [text(request.flushed(isWritable: isWritable))]
    case .tookMore: return [text(request.clientTookMore())]
    case .stop:
      request.stop()
      return []
    case .asked: return [text(request.serverAsked())]
    case .serverTookMore: return [text(request.serverTookMore())]
    case .bodyFailed: return [text(request.bodyFailed(.failed))]
    case .status(let status, let body):
      let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: Int(status)))
      return [text(request.serverBegan(head, body))]
    case .sent(let part): return [text(request.serverSent(ByteBuffer(string: part)))]
    case .paused: return [text(request.serverPaused())]
    case .ended: return [text(request.serverEnded())]
    case .failed(let body): return [text(request.serverFailed(TransportError(.lost, "it hung up"), body))]
    case .passed: return request.judged(.passed, .whole).map { text($0) }
    case .again(let canSend):
      return request.judged(.again(question(), canSend: canSend), canSend ? .whole : .unkept).map { text($0) }
    case .stepUp(let body):
      return request.judged(.stepUp(error, body: { body.map { Array($0.utf8) } }), .whole).map { text($0) }
    case .refusedAnswer(let body): return request.judged(.refused(error), body).map { text($0) }
    }
  }

  private static func actions(
    _ events: [Event], _ method: HTTPMethod = .GET, _ headers: HTTPHeaders = [:], hasBody: Bool = true
  ) -> [String] {
    let head = HTTPRequestHead(version: .http1_1, method: method, uri: "/", headers: headers)
    var request = ForwardedRequest(head, hasBody: hasBody)
    return events.flatMap { apply($0, to: &request) }
  }

  @Test(
    "the decision and the body have their actions",
    arguments: [
      ([.began, .allowed(), .asked], ["decide by cache", "send with body", "nothing"]),
      ([.began, .unknown, .allowed()], ["decide by cache", "decide by head", "send with body"]),
      (
        [.began, .body(.partial), .allowed(), .serverTookMore, .body(.partial), .body(.whole)],
        ["decide by cache", "nothing", "send with body", "write", "write", "write"]
      ),
      ([.allowed(), .body(.failed)], ["send with body", "write"]),
      // The body decides.
      (
        [.needsBody(.partial), .body(.partial), .body(.whole), .body(.whole), .allowed(), .serverTookMore],
        ["read", "read", "decide by body", "nothing", "send with body", "write"]
      ),
      ([.needsBody(.whole), .allowed()], ["decide by body", "send with body"]),
      ([.needsBody(.partial), .body(.failed)], ["read", "refuse 408"]),
      ([.needsBody(.partial), .body(.tooLong)], ["read", "refuse 413"]),
      ([.needsBody(.partial), .body(.unkept)], ["read", "refuse 503"]),
      ([.needsBody(.failed)], ["refuse 408"]), ([.needsBody(.tooLong)], ["refuse 413"]),
      ([.needsBody(.unkept)], ["refuse 503"]),
      ([.needsBody(.whole), .refused(.whole)], ["decide by body", "refuse 403"]),
      // A refusal ends it.
      ([.refused(.partial), .body(.whole), .allowed(), .asked], ["refuse 403", "nothing", "nothing", "cancel"]),
      // The client hung up.
      ([.stop, .began, .allowed()], ["nothing", "nothing"]),
      ([.needsBody(.partial), .stop, .body(.whole), .allowed()], ["read", "nothing", "nothing"]),
      (
        [.allowed(), .stop, .asked, .body(.whole), .serverTookMore, .bodyFailed],
        ["send with body", "cancel", "nothing", "nothing", "nothing"]
      ),
    ] as [([Event], [String])])
  func decisions(_ events: [Event], _ expected: [String]) { #expect(Self.actions(events) == expected) }

  @Test(
    "a request may be repeated if it is safe, unsigned and without a body",
    arguments: [
      (.GET, false, false, "send, repeatable"), (.HEAD, false, false, "send, repeatable"),
      (.OPTIONS, false, false, "send, repeatable"), (.POST, false, false, "send"), (.DELETE, false, false, "send"),
      (.GET, true, false, "send with body"), (.GET, false, true, "send"),
    ] as [(HTTPMethod, Bool, Bool, String)])
  func repeatable(_ method: HTTPMethod, _ hasBody: Bool, _ isSigned: Bool, _ expected: String) {
    #expect(Self.actions([.allowed(isSigned: isSigned)], method, hasBody: hasBody) == [expected])
    let later = Self.actions([.allowed(), .serverTookMore, .body(.whole)], method, hasBody: hasBody).dropFirst()
    #expect(Array(later) == (hasBody ? ["write", "write"] : ["nothing", "nothing"]))
  }

  @Test(
    "the answer reaches the client at the pace of both sides",
    arguments: [
      (
        [.status(200), .sent("ab"), .paused, .flushed(true), .sent("cd"), .ended],
        ["begin 200", "pass ab", "flush", "resume", "pass cd", "end"]
      ),
      (
        [.status(200), .sent("ab"), .paused, .flushed(false), .tookMore, .stop, .sent("cd"), .paused, .ended],
        ["begin 200", "pass ab", "flush", "pause", "resume", "nothing", "nothing", "nothing"]
      ),
      ([.flushed(false), .tookMore, .paused], ["nothing", "nothing", "nothing"]),
      ([.status(200), .stop, .flushed(false), .tookMore], ["begin 200", "nothing", "nothing"]),
      ([.status(200), .sent("a"), .failed()], ["begin 200", "pass a", "abort"]),
      ([.failed(), .failed(), .status(200)], ["refuse 502", "nothing", "nothing"]),
      // Nothing more of the body is sent to a server that refuses.
      (
        [.serverTookMore, .status(403), .serverTookMore, .body(.whole)],
        ["write", "judge 403 paused", "nothing", "nothing"]
      ),
      ([.status(200), .body(.whole)], ["begin 200", "write"]),
      // The client's body ends early.
      ([.bodyFailed, .asked, .status(200)], ["refuse 408", "cancel", "nothing"]),
      ([.status(200), .sent("a"), .bodyFailed], ["begin 200", "pass a", "abort"]),
    ] as [([Event], [String])])
  func answers(_ events: [Event], _ expected: [String]) {
    #expect(Self.actions([.allowed()] + events) == ["send with body"] + expected)
  }

  @Test(
    "a verdict passes the answer, replaces it or has the request sent again",
    arguments: [
      (
        [.status(401), .sent("no"), .ended, .refusedAnswer()],
        ["nothing", "nothing", "judge 401 noended", "refuse 502"]
      ),
      (
        [.status(401), .ended, .again(), .asked, .serverTookMore, .status(200)],
        ["nothing", "judge 401 ended", "send with body", "nothing", "write", "begin 200"]
      ),
      (
        [.status(401), .ended, .again(canSend: false), .asked, .passed],
        ["nothing", "judge 401 ended", "refuse 502", "cancel"]
      ),
      (
        [.status(403), .sent("a"), .ended, .passed],
        ["judge 403 paused", "nothing", "nothing", "begin 403", "pass a", "end"]
      ),
      (
        [.status(403), .sent("a"), .passed, .flushed(true), .sent("b"), .ended],
        ["judge 403 paused", "nothing", "begin 403", "pass a", "flush", "resume", "pass b", "end"]
      ),
      ([.status(403), .stepUp(nil), .flushed(false)], ["judge 403 paused", "begin 403", "flush", "pause"]),
      // No answer waits for it.
      ([.passed, .again(), .stepUp(nil), .refusedAnswer()], []), ([.status(200), .again()], ["begin 200"]),
      ([.status(403), .stop, .passed, .again()], ["judge 403 paused"]),
      ([.status(403), .bodyFailed, .again(), .passed], ["judge 403 paused", "refuse 408"]),
    ] as [([Event], [String])])
  func verdicts(_ events: [Event], _ expected: [String]) {
    #expect(Self.actions([.allowed()] + events) == ["send with body"] + expected)
  }

  @Test(
    "an error waits for the body of a JSON-RPC request, which shows its id",
    arguments: [
      (
        [.refused(.partial), .body(.partial), .body(.whole), .body(.whole)],
        ["read", "read", "refuse 403 a call", "nothing"]
      ),
      ([.refused(.whole)], ["refuse 403 a call"]), ([.refused(.failed)], ["refuse 403"]),
      ([.refused(.tooLong)], ["refuse 403"]), ([.refused(.unkept)], ["refuse 403"]),
      ([.refused(.partial), .body(.failed)], ["read", "refuse 403"]),
      ([.refused(.partial), .body(.unkept)], ["read", "refuse 403"]),
      ([.refused(.partial), .stop, .body(.whole)], ["read", "nothing"]),
      ([.needsBody(.partial), .body(.tooLong)], ["read", "refuse 413"]),
      // The server's side failed at once, or later.
      (
        [.allowed(), .failed(.partial), .asked, .body(.whole)],
        ["send with body", "read", "cancel", "refuse 502 a call"]
      ),
      (
        [.allowed(), .status(101, .partial), .sent("a"), .ended, .body(.whole)],
        ["send with body", "read", "nothing", "nothing", "refuse 502 a call"]
      ),
      (
        [.allowed(), .status(403), .refusedAnswer(.partial), .refusedAnswer(), .body(.whole)],
        ["send with body", "judge 403 paused", "read", "refuse 502 a call"]
      ),
      // Only a client with a call shows the error of the broker.
      ([.allowed(), .status(403), .stepUp(call)], ["send with body", "judge 403 paused", "refuse 502 a call"]),
      ([.allowed(), .status(403), .stepUp("{}")], ["send with body", "judge 403 paused", "begin 403", "flush"]),
      ([.allowed(), .status(403), .stepUp(nil)], ["send with body", "judge 403 paused", "begin 403", "flush"]),
    ] as [([Event], [String])])
  func calls(_ events: [Event], _ expected: [String]) {
    #expect(Self.actions(events, .POST, ["Content-Type": "application/json"]) == expected)
  }
}
