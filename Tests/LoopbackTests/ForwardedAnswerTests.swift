import BrokerAPI
import HTTPServer
import NIOCore
import NIOHTTP1
import Testing

@testable import Loopback

/// Answers of a server as events, and the resulting actions.
@Suite struct ForwardedAnswerTests {
  enum Event: Sendable {
    case began(UInt, HTTPHeaders = [:])
    case sent(String)
    case paused, ended, failed
    case flushed(Bool), tookMore
    case passed, refused, shownStepUp, stepUp
  }

  private static func answer(
    _ method: HTTPMethod = .GET, _ version: HTTPVersion = .http1_1, isSigned: Bool = false
  ) -> ForwardedAnswer {
    var answer = ForwardedAnswer(HTTPRequestHead(version: version, method: method, uri: "/"))
    answer.asked(
      .init(
        isSigned: isSigned, filter: TokenFilter(["secret-token"]),
        redirect: { $0.hasPrefix("/") ? "/forward/work" + $0 : nil }))
    return answer
  }

  private static func text(_ action: ForwardedAnswer.Action?) -> [String] {
    guard let action else { return [] }
    switch action {
    case .judge(let head, let body, let upstream):
      return ["judge \(head.status.code) \(String(buffer: body))\(upstream)"]
    case .begin(let head): return ["begin \(head.status.code)"]
    case .write(let part): return ["write \(String(buffer: part))"]
    case .flush: return ["flush"]
    case .pause: return ["pause"]
    case .resume: return ["resume"]
    case .end(let rest): return ["end\(rest.map { " " + String(buffer: $0) } ?? "")"]
    case .reply(let reply): return ["reply \(reply.status.code) \(String(buffer: reply.body))"]
    case .abort: return ["abort"]
    }
  }

  private static let gone = HTTPReply(.badGateway, error: "bad_gateway", "no answer")
  private static let error = RPCError(.loginRequired, "sign in")

  private static func apply(_ events: [Event], to answer: inout ForwardedAnswer) -> [String] {
    events.flatMap { event -> [String] in
      do throws(ForwardedAnswer.Refusal) {
        return try apply(event, to: &answer)
      } catch {
        return ["refuse \(error.reply.status.code)"]
      }
    }
  }

  private static func apply(
    _ event: Event, to answer: inout ForwardedAnswer
  ) throws(ForwardedAnswer.Refusal) -> [String] {
    switch event {
    case .began(let status, let headers):
      let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: Int(status)), headers: headers)
      return text(try answer.began(head))
    case .sent(let part): return text(answer.sent(ByteBuffer(string: part)))
    case .paused: return text(answer.paused())
    case .ended: return text(answer.ended())
    case .failed: return text(try answer.failed(gone))
    case .flushed(let isWritable): return text(answer.flushed(isWritable: isWritable))
    case .tookMore: return text(answer.clientTookMore())
    case .passed: return try judged(.passed, &answer)
    case .refused: return try judged(.refused(error), &answer)
    case .shownStepUp: return try judged(.stepUp(error, isShown: true), &answer)
    case .stepUp: return try judged(.stepUp(error, isShown: false), &answer)
    }
  }

  private static func judged(
    _ verdict: ForwardedAnswer.Verdict, _ answer: inout ForwardedAnswer
  ) throws(ForwardedAnswer.Refusal) -> [String] {
    try answer.judged(verdict).flatMap { text($0) }
  }

  private static let short: HTTPHeaders = ["Content-Length": "4"]

  @Test(
    "Each event has its action",
    arguments: [
      (
        [.began(200), .sent("ab"), .paused, .sent("cd"), .ended], ["begin 200", "write ab", "flush", "write cd", "end"]
      ),
      ([.began(200, short), .sent("ab"), .paused, .sent("cd"), .ended], ["reply 200 abcd"]),
      ([.began(204), .ended], ["begin 204", "end"]),
      ([.began(200), .sent("a"), .failed], ["begin 200", "write a", "abort"]),
      ([.began(200, short), .sent("a"), .failed], ["refuse 502"]),
      ([.failed], ["refuse 502"]), ([.sent("a"), .ended, .paused], []),
      ([.began(101)], ["refuse 502"]), ([.began(200, ["Content-Encoding": "gzip"])], ["refuse 502"]),
      ([.began(200, ["Transfer-Encoding": "gzip, chunked"])], ["refuse 502"]),
      ([.began(302, ["Location": "/x"])], ["begin 302"]),
      ([.began(302, ["Location": "https://other.example/"])], ["refuse 502"]),
      ([.began(201, ["Location": "https://other.example/"])], ["begin 201"]),
      // The token is covered, even if it comes in two parts.
      (
        [.began(200), .sent("a secret-"), .sent("token b"), .ended],
        ["begin 200", "write a ", "write (redacted)** b", "end"]
      ),
      ([.began(200), .sent("a secret-"), .ended], ["begin 200", "write a ", "end secret-"]),
      // A refusal is judged with its body.
      ([.began(401), .sent("no"), .sent("pe"), .ended, .refused], ["judge 401 nopeended", "refuse 502"]),
      ([.began(401), .ended, .passed], ["judge 401 ended", "refuse 502"]),
      ([.began(401), .ended, .stepUp], ["judge 401 ended", "refuse 502"]),
      ([.began(401), .failed], ["refuse 502"]),
      // Other errors at once; their data wait for the verdict.
      ([.began(403), .sent("a"), .ended, .passed], ["judge 403 paused", "begin 403", "write a", "end"]),
      (
        [.began(403), .sent("a"), .passed, .sent("b")],
        ["judge 403 paused", "begin 403", "write a", "flush", "write b"]
      ),
      ([.began(403, short), .sent("abcd"), .ended, .stepUp], ["judge 403 paused", "reply 403 abcd"]),
      (
        [.began(403, short), .sent("ab"), .passed, .sent("cd"), .ended],
        ["judge 403 paused", "resume", "reply 403 abcd"]
      ),
      // A refusal instead of the answer is the only one.
      ([.began(403, ["Content-Encoding": "gzip"]), .failed, .passed], ["judge 403 paused", "refuse 502"]),
      // Only a streamed answer waits for its client.
      ([.began(200), .flushed(false), .tookMore, .flushed(true)], ["begin 200", "pause", "resume", "resume"]),
      ([.began(200, short), .flushed(false), .tookMore], []),
      ([.began(403), .flushed(false), .tookMore], ["judge 403 paused"]),
      ([.began(403), .sent("a"), .shownStepUp, .sent("b"), .ended], ["judge 403 paused", "refuse 502"]),
      ([.began(403), .failed, .passed], ["judge 403 paused", "begin 403", "abort"]),
      ([.began(500), .ended], ["begin 500", "end"]), ([.passed], []), ([.began(200), .passed], ["begin 200"]),
    ] as [([Event], [String])])
  func actions(_ events: [Event], _ expected: [String]) {
    var answer = Self.answer()
    #expect(Self.apply(events, to: &answer) == expected)
  }

  @Test("A signed request has every answer judged") func signed() {
    var answer = Self.answer(isSigned: true)
    #expect(
      Self.apply([.began(200), .sent("a"), .passed, .ended], to: &answer)
        == ["judge 200 paused", "begin 200", "write a", "flush", "end"])
  }

  @Test("A long refusal is judged without the rest of its body") func longRefusal() {
    var answer = Self.answer()
    let part = String(repeating: "x", count: ForwardedAnswer.longestRefusal)
    #expect(Self.apply([.began(401), .sent(part)], to: &answer).isEmpty)
    #expect(Self.apply([.sent("y"), .sent("z")], to: &answer) == ["judge 401 \(part)cancelled"])
  }

  @Test("An answer to HEAD has no body, and one to a client of HTTP/1.0 is not chunked") func forms() throws {
    func headers(_ method: HTTPMethod, _ version: HTTPVersion, _ headers: HTTPHeaders = [:]) throws -> HTTPHeaders {
      var answer = Self.answer(method, version)
      let action = try answer.began(HTTPResponseHead(version: .http1_1, status: .ok, headers: headers))
      guard case .begin(let head)? = action else { throw Unexpected() }
      return head.headers
    }
    #expect(try headers(.GET, .http1_1)["Transfer-Encoding"] == ["chunked"])
    #expect(try headers(.GET, .http1_0)["Transfer-Encoding"].isEmpty)
    let head = try headers(.HEAD, .http1_1, ["Content-Length": "4", "Content-Encoding": "gzip"])
    #expect(head["Content-Length"] == ["4"] && head["Transfer-Encoding"].isEmpty)
  }

  @Test("Nothing of a request's body follows a refusal, until it is sent again")
  func states() {
    var answer = Self.answer()
    #expect(!answer.isHeld)
    _ = Self.apply([.began(401)], to: &answer)
    #expect(answer.isHeld && !answer.isJudged)
    _ = Self.apply([.ended], to: &answer)
    #expect(answer.isJudged)
    answer.asked(.init(isSigned: false, filter: TokenFilter([]), redirect: { _ in nil }))
    #expect(!answer.isHeld && !answer.isJudged)
    #expect(Self.apply([.began(200)], to: &answer) == ["begin 200"])
  }
}

private struct Unexpected: Error {}
