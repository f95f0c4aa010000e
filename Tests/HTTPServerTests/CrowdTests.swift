import BrokerAPI
import Dispatch
import Glibc
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

/// Clients that ask more than they read, stop in the middle, or come in crowds, and answers on their way at the end.
@Suite(.timeLimit(.minutes(1)), .serialized) struct CrowdTests {
  private static let size = 8 << 20

  /// Where a server is, and the server.
  private struct Served {
    let port: Int
    let server: HTTPServer

    var address: LocalListener { .loopback(host: "127.0.0.1", port: port) }

    func connect() throws -> Int32 { try connected(to: address) }

    func request(_ path: String, _ headers: String = "", method: String = "GET", version: String = "1.1") -> String {
      "\(method) \(path) HTTP/\(version)\r\nHost: 127.0.0.1:\(port)\r\n\(headers)\r\n"
    }
  }

  private func serving(
    _ application: Answers = Answers(), limits change: (inout HTTPServer.Limits) -> Void = { _ in },
    on group: MultiThreadedEventLoopGroup = .singleton, _ body: (Served) async throws -> Void
  ) async throws {
    var limits = HTTPServer.Limits()
    change(&limits)
    let server = HTTPServer(
      address: .loopback(host: "127.0.0.1", port: 0), limits: limits, group: group,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, application: application)
    let port = try #require(try await server.start().split(separator: ":").last.flatMap { Int($0) })
    do { try await body(Served(port: port, server: server)) } catch {
      await server.stop()
      throw error
    }
    await server.stop()
  }

  private func send(_ text: String, to descriptor: Int32) {
    #expect(Glibc.send(descriptor, text, text.utf8.count, Int32(MSG_NOSIGNAL)) == text.utf8.count)
  }

  /// Bytes that come until the end, or what ended it.
  private func receive(_ descriptor: Int32, atMost most: Int = .max) -> Result<Int, Wrong> {
    var (part, count) = ([UInt8](repeating: 0, count: 65_536), 0)
    while count < most {
      let more = recv(descriptor, &part, part.count, 0)
      if more < 0 { return .failure(Wrong(code: errno)) }
      if more == 0 { break }
      count += more
    }
    return .success(count)
  }

  private struct Wrong: Error, Equatable { var code: Int32 }

  @Test("Of a client that reads no answer no more requests are taken, and its connection ends")
  func unread() async throws {
    try await serving(limits: { $0.stall = .seconds(2) }) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      let many = Array(String(repeating: served.request("/none"), count: 2000).utf8)
      var (sent, isOpen) = (0, true)
      let begun = ContinuousClock.now
      while isOpen, ContinuousClock.now - begun < .seconds(20) {
        let count = many.withUnsafeBytes {
          Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        }
        if count > 0 { sent += count } else { isOpen = errno == EAGAIN }
        if count < many.count { try await Task.sleep(for: .milliseconds(5)) }
      }
      #expect(!isOpen && sent < 16 << 20)
    }
  }

  @Test("Crowds of requests on kept connections keep nobody else waiting")
  func crowd() async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
    try await serving(on: group) { served in
      let many = Array(String(repeating: served.request("/none"), count: 2000).utf8)
      let descriptors = try (0..<100).map { _ in try served.connect() }
      let isOver = Mutex(false)
      let flood = DispatchWorkItem {
        var (offsets, part) = (descriptors.map { _ in 0 }, [UInt8](repeating: 0, count: 1 << 20))
        while !isOver.withLock({ $0 }) {
          for (index, descriptor) in descriptors.enumerated() {
            let count = many[offsets[index]...].withUnsafeBytes {
              Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
            }
            if count > 0 { offsets[index] = (offsets[index] + count) % many.count }
            while recv(descriptor, &part, part.count, Int32(MSG_DONTWAIT)) > 0 {}
          }
        }
      }
      DispatchQueue(label: "flood").async(execute: flood)
      try await Task.sleep(for: .seconds(1))
      var times: [Duration] = []
      for _ in 0..<40 {
        let begun = ContinuousClock.now
        let answer = try exchange(served.request("/zero", "Connection: close\r\n"), with: served.address)
        #expect(answer.hasPrefix("HTTP/1.1 200 OK"))
        times.append(ContinuousClock.now - begun)
      }
      isOver.withLock { $0 = true }
      flood.wait()
      for descriptor in descriptors { close(descriptor) }
      let worst = times.max() ?? .zero
      #expect(worst < .milliseconds(250))
    }
    try await group.shutdownGracefully()
  }

  @Test("Many requests in one write are answered in their order, whatever their number")
  func pipelined() async throws {
    try await serving { served in
      let many = (1...3000).map { served.request("/number-\($0)") }.joined()
      let answer = try exchange(many + served.request("/zero", "Connection: close\r\n"), with: served.address)
      let numbers = answer.split(separator: "number-").dropFirst().compactMap { Int($0.prefix { $0.isNumber }) }
      #expect(numbers == Array(1...3000))
    }
  }

  @Test("All that was asked before a client ended its side is answered")
  func askedBeforeEnd() async throws {
    let answers = Answers()
    try await serving(answers) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/later"), to: descriptor)
      #expect(await eventually { answers.held.withLock { $0.count } == 1 })
      send((1...200).map { served.request("/number-\($0)") }.joined(), to: descriptor)
      shutdown(descriptor, CInt(SHUT_WR))
      try await Task.sleep(for: .milliseconds(200))
      answers.held.withLock { $0[0] }.reply(HTTPReply(.ok, type: "text/plain", "late"))
      #expect(text(descriptor).components(of: "HTTP/1.1 ") == 201)
    }
  }

  @Test(
    "Half of a request behind an answer, and the end, take nothing of the answer", arguments: ["\r\n", "GET /", "POST"])
  func halfBehindAnswer(_ half: String) async throws {
    let answers = Answers()
    try await serving(answers) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/later"), to: descriptor)
      #expect(await eventually { answers.held.withLock { $0.count } == 1 })
      send(half == "POST" ? served.request("/whole", "Content-Length: 9\r\n", method: "POST") : half, to: descriptor)
      try await Task.sleep(for: .milliseconds(100))
      shutdown(descriptor, CInt(SHUT_WR))
      try await Task.sleep(for: .milliseconds(100))
      answers.held.withLock { $0[0] }.reply(HTTPReply(.ok, type: "text/plain", "late"))
      let answer = text(descriptor)
      #expect(answer.hasPrefix("HTTP/1.1 200 OK") && answer.hasSuffix("late"))
    }
  }

  @Test("A body that stops is answered, and its connection ends though the client keeps it open")
  func stalledBody() async throws {
    try await serving(limits: {
      $0.stall = .seconds(1)
      $0.linger = .seconds(1)
    }) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/body", "Content-Length: 5\r\n", method: "POST") + "ab", to: descriptor)
      var part = [UInt8](repeating: 0, count: 4096)
      let count = recv(descriptor, &part, part.count, 0)
      #expect(String(decoding: part.prefix(max(0, count)), as: UTF8.self).hasPrefix("HTTP/1.1 408"))
      try await Task.sleep(for: .seconds(4))
      // Nobody is there: a reset answers the first, and the second fails.
      _ = Glibc.send(descriptor, "c", 1, Int32(MSG_NOSIGNAL))
      try await Task.sleep(for: .milliseconds(100))
      #expect(Glibc.send(descriptor, "c", 1, Int32(MSG_NOSIGNAL)) < 0)
    }
  }

  @Test("Chunks that break are told so, and the answer is read though more is sent")
  func brokenChunks() async throws {
    try await serving { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/body", "Transfer-Encoding: chunked\r\n", method: "POST") + "1\r\na\r\n", to: descriptor)
      try await Task.sleep(for: .milliseconds(100))
      send("zz\r\n" + String(repeating: "x", count: 200_000), to: descriptor)
      try await Task.sleep(for: .milliseconds(300))
      shutdown(descriptor, CInt(SHUT_WR))
      #expect(text(descriptor).hasPrefix("HTTP/1.1 400"))
    }
  }

  @Test("What is half of a request only once the stop has begun holds it up no more", arguments: ["GET /", "POST"])
  func halfAfterStop(_ half: String) async throws {
    let answers = Answers()
    try await serving(answers) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/later"), to: descriptor)
      #expect(await eventually { answers.held.withLock { $0.count } == 1 })
      let rest = half == "POST" ? served.request("/whole", "Content-Length: 9\r\n", method: "POST") : half
      send((1...4).map { served.request("/number-\($0)") }.joined() + rest, to: descriptor)
      try await Task.sleep(for: .milliseconds(100))
      let exchange = answers.held.withLock { $0[0] }
      try await exchange.channel.eventLoop.submit {
        let handler = try exchange.channel.pipeline.syncOperations.handler(type: ConnectionHandler.self)
        exchange.reply(HTTPReply(.ok, type: "text/plain", "late"))
        handler.connections.stop()
      }.get()
      let begun = ContinuousClock.now
      await served.server.stop()
      #expect(ContinuousClock.now - begun < .seconds(4))
      #expect(text(descriptor).hasPrefix("HTTP/1.1 200 OK"))
    }
  }

  private func text(_ descriptor: Int32) -> String {
    var (part, all) = ([UInt8](repeating: 0, count: 65_536), [UInt8]())
    while case let count = recv(descriptor, &part, part.count, 0), count > 0 { all += part[..<count] }
    return String(decoding: all, as: UTF8.self)
  }

  @Test("The end of a client's side is noticed behind a body in many chunks", arguments: 50...60)
  func endBehindChunks(_ chunks: Int) async throws {
    try await serving { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      let head = served.request("/whole", "Transfer-Encoding: chunked\r\n", method: "POST")
      send(head + String(repeating: "0000000001\r\nx\r\n", count: chunks), to: descriptor)
      shutdown(descriptor, CInt(SHUT_WR))
      let begun = ContinuousClock.now
      _ = receive(descriptor)
      #expect(ContinuousClock.now - begun < .seconds(3))
    }
  }

  @Test("A connection keeps its place until all that was read of it is answered")
  func placeWhileBehind() async throws {
    let answers = Answers()
    try await serving(answers) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/later"), to: descriptor)
      #expect(await eventually { answers.held.withLock { $0.count } == 1 })
      let (connection, exchange) = (try await connection(of: answers), answers.held.withLock { $0[0] })
      send((1...30).map { served.request("/number-\($0)") }.joined(), to: descriptor)
      try await Task.sleep(for: .milliseconds(200))
      let loop = exchange.channel.eventLoop
      let isTaken = try await loop.flatSubmit {
        exchange.reply(HTTPReply(.ok, type: "text/plain", "late"))
        // When that is sent, and before the connection has its next turn.
        return loop.submit { connection.closeIfIdle() }
      }.get()
      #expect(!isTaken)
      shutdown(descriptor, CInt(SHUT_WR))
      #expect(text(descriptor).components(of: "HTTP/1.1 ") == 31)
    }
  }

  @Test("A connection whose turn has not come is forgotten with its server")
  func forgotten() async throws {
    let answers = Answers()
    let kept = Mutex<[() -> Bool]>([])
    try await serving(answers) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/later"), to: descriptor)
      #expect(await eventually { answers.held.withLock { $0.count } == 1 })
      let exchange = try #require(answers.held.withLock { $0.popLast() })
      let loop = exchange.channel.eventLoop
      send((1...1500).map { served.request("/number-\($0)") }.joined(), to: descriptor)
      try await loop.submit {
        let handler = try exchange.channel.pipeline.syncOperations.handler(type: ConnectionHandler.self)
        exchange.reply(HTTPReply(.ok, type: "text/plain", "late"))
        let holder = Weak(handler)
        kept.withLock { $0.append { holder.value == nil } }
        handler.connections.stop()
        handler.close()
      }.get()
      await served.server.stop()
    }
    #expect(await eventually { kept.withLock { $0[0]() } })
  }

  @Test("At the stop all answers that were made are read, also where more was asked")
  func unreadAtStop() async throws {
    try await serving { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      let many = Array(String(repeating: served.request("/none"), count: 20_000).utf8)
      var sent = 0
      // Until it takes no more.
      for _ in 0..<200 {
        let count = many[sent...].withUnsafeBytes {
          Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        }
        if count > 0 { sent += count }
        try await Task.sleep(for: .milliseconds(5))
      }
      async let stop: Void = served.server.stop()
      try await Task.sleep(for: .milliseconds(100))
      #expect(try receive(descriptor).get() > 0)
      await stop
    }
  }

  @Test("A request whose body does not come holds up no stop, and is told so")
  func halfSent() async throws {
    try await serving { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/whole", "Content-Length: 10\r\n", method: "POST"), to: descriptor)
      try await Task.sleep(for: .milliseconds(200))
      let begun = ContinuousClock.now
      await served.server.stop()
      #expect(ContinuousClock.now - begun < .seconds(4))
      var answer = [UInt8](repeating: 0, count: 64)
      let count = recv(descriptor, &answer, answer.count, 0)
      #expect(String(decoding: answer.prefix(max(0, count)), as: UTF8.self).hasPrefix("HTTP/1.1 408"))
    }
  }

  @Test("An answer that is written and not yet read comes whole, also when the server stops")
  func stopWhileSending() async throws {
    try await serving { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/large"), to: descriptor)
      try await Task.sleep(for: .milliseconds(300))
      async let stop: Void = served.server.stop()
      try await Task.sleep(for: .milliseconds(300))
      let count = try receive(descriptor).get()
      #expect(count > Self.size)
      await stop
    }
  }

  @Test("A connection does not have to go for another before its answer is sent")
  func placeWhileSending() async throws {
    let answers = Answers()
    try await serving(answers) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/large"), to: descriptor)
      #expect(await eventually { answers.held.withLock { $0.count } == 1 })
      let connection = try await connection(of: answers)
      #expect(await eventually { connection.progress == .answering })
      #expect(!connection.closeIfIdle())
      #expect(try receive(descriptor, atMost: Self.size).get() >= Self.size)
      #expect(await eventually { connection.progress == .silent })
      #expect(connection.closeIfIdle())
    }
  }

  /// That of the first request that was kept.
  private func connection(of answers: Answers) async throws -> HTTPConnection {
    let channel = try #require(answers.held.withLock { $0.first }).channel
    return try await channel.eventLoop.submit {
      try channel.pipeline.syncOperations.handler(type: ConnectionHandler.self).connection
    }.get()
  }

  @Test("An answer that is made as the server stops is sent")
  func answerAtStop() async throws {
    let answers = Answers()
    try await serving(answers) { served in
      let descriptors = try (0..<10).map { _ in try served.connect() }
      defer { for one in descriptors { close(one) } }
      for one in descriptors { send(served.request("/later"), to: one) }
      #expect(await eventually { answers.held.withLock { $0.count } == 10 })
      let held = answers.held.withLock { $0 }
      for one in held {
        one.channel.eventLoop.execute { usleep(20_000) }
        one.reply(HTTPReply(.ok, type: "text/plain", "late"))
      }
      await served.server.stop()
      for one in descriptors { #expect(try receive(one).get() > 0) }
    }
  }

  @Test("The last answer of a connection comes whole to a client that pauses", arguments: ["close", "keep-alive"])
  func pause(_ kind: String) async throws {
    try await serving(limits: { $0.linger = .seconds(1) }) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request("/large", "Connection: \(kind)\r\n"), to: descriptor)
      try await Task.sleep(for: .seconds(4))
      #expect(try receive(descriptor, atMost: Self.size).get() >= Self.size)
    }
  }

  @Test(
    "A body where there is to be none is refused at once",
    arguments: ["Content-Length: 1", "Transfer-Encoding: chunked"])
  func noBody(_ header: String) async throws {
    try await serving { served in
      let begun = ContinuousClock.now
      let answer = try exchange(served.request("/zero", "\(header)\r\n"), with: served.address)
      #expect(answer.hasPrefix("HTTP/1.1 413") && ContinuousClock.now - begun < .seconds(3))
    }
  }

  @Test("A connection that has to go for another is one of which no request was begun")
  func evicted() async throws {
    let answers = Answers()
    try await serving(answers) { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      #expect(try exchange(served.request("/zero", "Connection: close\r\n"), with: served.address).contains("zero"))
      send(served.request("/later"), to: descriptor)
      #expect(await eventually { answers.held.withLock { $0.count } == 1 })
      let exchange = try #require(answers.held.withLock { $0.first })
      let connection = try await connection(of: answers)
      #expect(!connection.closeIfIdle())
      exchange.reply(HTTPReply(.ok, type: "text/plain", "late"))
      #expect(await eventually { connection.progress == .silent })
      // The next request comes as its place is taken away.
      try await connection.channel.eventLoop.submit {
        send(served.request("/later"), to: descriptor)
        usleep(20_000)
        #expect(connection.closeIfIdle())
      }.get()
      _ = receive(descriptor)
      #expect(answers.held.withLock { $0.count } == 1)
    }
  }

  @Test(
    "An answer that is as long as its connection ends with a reset where it is cut", arguments: ["/endless", "/long"])
  func cut(_ path: String) async throws {
    try await serving { served in
      let descriptor = try served.connect()
      defer { close(descriptor) }
      send(served.request(path, version: "1.0"), to: descriptor)
      try await Task.sleep(for: .milliseconds(200))
      await served.server.stop(within: .milliseconds(500))
      #expect(receive(descriptor) == .failure(Wrong(code: ECONNRESET)))
    }
  }
}

/// Answers by path; those for `/later` are kept.
private final class Answers: CallerApplication {
  let held = Mutex<[HTTPExchange]>([])

  var identifiesCallers: Bool { true }
  func conversation(with caller: Caller?) -> any HTTPConversation { Answer(self) }
}

private final class Answer: HTTPConversation {
  private let answers: Answers

  init(_ answers: Answers) { self.answers = answers }

  func intake(of head: HTTPRequestHead) -> HTTPIntake {
    switch head.uri {
    case "/zero": .whole(atMost: 0)
    case "/later", "/whole": .whole(atMost: 1000)
    case "/large", "/long", "/endless", "/body": .stream(within: .seconds(60), else: HTTPReply(.gatewayTimeout))
    default: .refuse(HTTPReply(.notFound, type: "text/plain", "nothing at \(head.uri)"))
    }
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    guard head.uri == "/zero" else { return answers.held.withLock { $0.append(exchange) } }
    exchange.reply(HTTPReply(.ok, type: "text/plain", "zero"))
  }

  func stream(_ head: HTTPRequestHead, _ body: HTTPRequestBody, _ exchange: HTTPExchange) {
    answers.held.withLock { $0.append(exchange) }
    if head.uri == "/body" {
      body.receive { event in
        switch event {
        case .part: body.want()
        case .end: exchange.reply(HTTPReply(.ok))
        case .failed: exchange.reply(HTTPReply(.requestTimeout))
        }
      }
      return body.want()
    }
    let length: HTTPHeaders = head.uri == "/large" ? ["Content-Length": "\(8 << 20)"] : [:]
    exchange.begin(HTTPResponseHead(version: .http1_1, status: .ok, headers: length))
    guard head.uri != "/endless" else {
      exchange.write(ByteBuffer(string: "half of "))
      return exchange.flush()
    }
    exchange.write(ByteBuffer(repeating: 120, count: 8 << 20))
    exchange.flush()
    exchange.loop.execute { exchange.end() }
  }
}

private final class Weak: @unchecked Sendable {
  weak var value: ConnectionHandler?

  init(_ value: ConnectionHandler) { self.value = value }
}

extension String {
  fileprivate func components(of text: String) -> Int { ranges(of: text).count }
}
