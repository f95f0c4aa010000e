import Glibc
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import Principals
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

@Suite(.timeLimit(.minutes(5))) struct ServerTests {
  /// A server of ``Echoes`` for the time of `body`, and its port.
  private func serving(
    limits change: (inout HTTPServer.Limits) -> Void = { _ in }, _ body: (Int) async throws -> Void
  ) async throws {
    var limits = HTTPServer.Limits()
    change(&limits)
    let server = HTTPServer(
      address: .loopback(host: "127.0.0.1", port: 0), limits: limits, group: MultiThreadedEventLoopGroup.singleton,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, application: Echoes())
    let place = try await server.start()
    let port = try #require(place.split(separator: ":").last.flatMap { Int($0) })
    do {
      try await body(port)
    } catch {
      await server.stop()
      throw error
    }
    await server.stop()
  }

  @Test("The kernel says who asks, and a connection serves one request after the other")
  func kept() async throws {
    try await serving { port in
      let one = "POST /whole HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nContent-Length: 2\r\n\r\nab"
      let last = "GET /whole HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n\r\n"
      let answer = try exchange(one + one + last, port)
      #expect(answer.components(of: "HTTP/1.1 200 OK") == 3)
      #expect(answer.components(of: "uid \(getuid()): ab") == 2)
    }
  }

  @Test("A streamed body is returned unchanged, by length and in chunks")
  func streamed() async throws {
    try await serving { port in
      let head = "POST /stream HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n"
      let body = String(repeating: "x", count: 300_000)
      let byLength = try exchange(head + "Content-Length: 300000\r\n\r\n" + body, port)
      #expect(byLength.components(of: "x") == 300_000)
      let inChunks = try exchange(head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", port)
      #expect(inChunks.contains("hello"))
    }
  }

  @Test("An answer before the end of the body is the only one, although the body's end leads to another")
  func answeredEarly() async throws {
    try await Served.with { served in
      let client = try served.client()
      client.send(served.request("/body", "Content-Length: 9\r\n", method: "POST") + "ab")
      #expect(await eventually { served.answers.held.withLock { $0.count } == 1 })
      served.answers.held.withLock { $0[0] }.reply(HTTPReply(.ok, type: "text/plain", "early"))
      let text = client.text()
      #expect(text.answers == 1 && text.hasPrefix("HTTP/1.1 200 ") && text.hasSuffix("early"))
    }
  }

  @Test("A body's time runs while it is requested, and not while no handler reads it")
  func unwanted() async throws {
    // The handler reads after four seconds, twice the time of a stall.
    try await serving(limits: { $0.stall = .seconds(2) }) { port in
      let request =
        "POST /later HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\nContent-Length: 5\r\n"
        + "Expect: 100-continue\r\n\r\n"
      let descriptor = try connect(port)
      defer { close(descriptor) }
      #expect(send(descriptor, request, request.utf8.count, 0) == request.utf8.count)
      var answer = [UInt8](repeating: 0, count: 4096)
      func read() -> String {
        let count = recv(descriptor, &answer, answer.count, 0)
        return String(decoding: answer.prefix(max(0, count)), as: UTF8.self)
      }
      // The head was read without the body.
      var text = read()
      #expect(text.hasPrefix("HTTP/1.1 100 Continue\r\n\r\n"))
      #expect(send(descriptor, "hello", 5, 0) == 5)
      while case let more = read(), !more.isEmpty { text += more }
      #expect(text.contains("HTTP/1.1 200 OK") && text.contains("hello"))
    }
  }

  @Test("An answer's time runs from the body's latest part")
  func longBody() async throws {
    // Each part of the body has longer than the answer.
    try await Served.with(limits: { $0.stall = .seconds(600) }) { served in
      let asking = try await served.asking("/body", "Content-Length: 3\r\n", method: "POST")
      let first = try #require(try await asking.on { $0.times.late?.due })
      var latest = first
      for letter in "ab" {
        let before = latest
        asking.client.send(String(letter))
        try await asking.expect { $0.times.late.map { $0.due > before } ?? false }
        latest = try #require(try await asking.on { $0.times.late?.due })
      }
      // The time from the request's head is over, and then that from the latest part.
      try await asking.on { $0.checkTime(first) }
      #expect(asking.exchange.isOpen)
      let end = latest
      try await asking.on { $0.checkTime(end) }
      #expect(asking.client.text().hasPrefix("HTTP/1.1 504 "))
    }
  }

  @Test(
    "A request that is none, too large or too late is answered as such, and the connection ends",
    arguments: [
      ("rubbish\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n folded\r\n\r\n", 400),
      ("GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX: \("a".times(20_000))\r\n\r\n", 431),
      ("GET /\("a".times(17_000)) HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", 414),
      ("\r\n".times(300_000), 431),
      ("POST /whole HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 100000\r\n\r\n", 413),
      ("POST /whole HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
      ("POST /whole HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 9\r\n\r\nab", 408),
      ("GET /whole HTTP/1.1\r\nHost: 127.0", 408),
      ("POST /refused HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Length: 500000\r\n\r\n\("b".times(500_000))", 404),
    ])
  func bounded(_ request: String, _ status: Int) async throws {
    // Short only if it has to pass: a busy machine may need longer to read a large request.
    let time = Duration.seconds(status == 408 ? 1 : 60)
    try await serving(limits: { ($0.headTime, $0.stall) = (time, time) }) { port in
      let answer = try exchange(request.replacing("PORT", with: "\(port)"), port)
      #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
      #expect(answer.contains("Connection: close"))
      #expect(answer.components(of: "Content-Length: ") == 1)
    }
  }

  @Test("Data after the last answer are dropped up to a limit, and then the connection is cut")
  func dropped() async throws {
    try await serving(limits: { ($0.dropped, $0.linger) = (100_000, .seconds(60)) }) { port in
      let descriptor = try connect(port)
      defer { close(descriptor) }
      let head = "POST /refused HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nContent-Length: 100000000\r\n\r\n"
      #expect(send(descriptor, head, head.utf8.count, 0) == head.utf8.count)
      let part = [UInt8](repeating: UInt8(ascii: "b"), count: 65_536)
      var sent = 0
      while sent < 100_000_000, case let count = send(descriptor, part, part.count, Int32(MSG_NOSIGNAL)), count > 0 {
        sent += count
      }
      #expect(sent < 100_000_000)
    }
  }

  @Test("A holder's idle connections make room for its next one, and a busy one keeps its place")
  func places() async throws {
    try await serving(limits: { $0.connectionsPerHolder = 3 }) { port in
      var idle: [Int32] = []
      for _ in 0..<5 { idle.append(try connect(port)) }
      defer { for one in idle { close(one) } }
      // Those that were just accepted are not known yet.
      try await eventually("there is a place") {
        try exchange("GET /whole HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n\r\n", port)
          .hasPrefix("HTTP/1.1 200 OK")
      }
    }
  }

  @Test("A client that expects 100 before its body gets it")
  func continued() async throws {
    try await serving { port in
      let request =
        "POST /whole HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
        + "Connection: close\r\n\r\nab"
      let answer = try exchange(request, port)
      #expect(answer.hasPrefix("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"))
    }
  }

  private func connect(_ port: Int) throws -> Int32 { try connected(to: .loopback(host: "127.0.0.1", port: port)) }

  private func exchange(_ text: String, _ port: Int) throws -> String {
    try HTTPServerTests.exchange(text, with: .loopback(host: "127.0.0.1", port: port))
  }
}

/// Says who asks and what, or sends the body back.
private struct Echoes: CallerApplication {
  var identifiesCallers: Bool { true }
  func conversation(with caller: Caller?) -> any HTTPConversation { Echo(caller) }
}

private final class Echo: HTTPConversation {
  private let caller: Caller?

  init(_ caller: Caller?) { self.caller = caller }

  func intake(of head: HTTPRequestHead) -> BodyHandling {
    switch head.uri {
    case "/whole": .whole(atMost: 1024)
    case "/stream", "/later": .stream(within: .seconds(60), else: HTTPReply(.gatewayTimeout))
    default: .refuse(HTTPReply(.notFound, error: "not_found", "nothing is here"))
    }
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    let who = caller.map { "uid \($0.uid)" } ?? "nobody"
    exchange.reply(HTTPReply(.ok, type: "text/plain", "\(who): \(String(buffer: body))"))
  }

  func stream(_ head: HTTPRequestHead, _ body: HTTPRequestBody, _ exchange: HTTPExchange) {
    exchange.begin(HTTPResponseHead(version: .http1_1, status: .ok, headers: ["Transfer-Encoding": "chunked"]))
    body.receive { event in
      switch event {
      case .part(let part):
        exchange.write(part)
        exchange.flush()
        body.want()
      case .end: exchange.end()
      case .failed: exchange.abort()
      }
    }
    guard head.uri == "/later" else { return body.want() }
    exchange.loop.assumeIsolated().scheduleTask(in: .seconds(4)) { body.want() }
  }
}

extension String {
  fileprivate func components(of text: String) -> Int { ranges(of: text).count }
  fileprivate func times(_ count: Int) -> String { String(repeating: self, count: count) }
}
