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

/// Clients that end their side after the request, and clients that have closed.
@Suite(.timeLimit(.minutes(5))) struct HalfCloseTests {
  static let kinds = ["port", "socket"]
  private static let request = "POST /whole HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\n\r\nab"

  /// A server of `application` for the time of `body`, which gets its address and the `Host` of requests to it.
  private func serving(
    _ kind: String, _ application: Holding, _ body: (LocalListener, String) async throws -> Void
  ) async throws {
    let path = "/tmp/half-close-\(getpid())-\(UInt(bitPattern: ObjectIdentifier(application).hashValue)).sock"
    let server = HTTPServer(
      address: kind == "port" ? .loopback(host: "127.0.0.1", port: 0) : .unix(path: path),
      group: MultiThreadedEventLoopGroup.singleton, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
      application: application)
    let place = try await server.start()
    let port = place.split(separator: ":").last.flatMap { Int($0) }
    do {
      try await body(
        port.map { .loopback(host: "127.0.0.1", port: $0) } ?? .unix(path: path), port == nil ? "x" : place)
    } catch {
      await server.stop()
      throw error
    }
    await server.stop()
  }

  @Test("All that a client has asked is answered after it has ended its side", arguments: kinds)
  func pipelined(_ kind: String) async throws {
    try await serving(kind, Holding()) { address, host in
      let one = Self.request.replacing("HOST", with: host)
      let answer = try exchange(one + one + one, with: address, endsOutput: true)
      #expect(answer.ranges(of: "HTTP/1.1 200 OK").count == 3)
      #expect(answer.ranges(of: "Connection: close").count == 1)
    }
  }

  @Test("An answer that takes its time and is large comes whole", arguments: kinds)
  func large(_ kind: String) async throws {
    let application = Holding(answer: String(repeating: "z", count: 4_000_000), after: .milliseconds(1500))
    try await serving(kind, application) { address, host in
      let answer = try exchange(Self.request.replacing("HOST", with: host), with: address, endsOutput: true)
      #expect(answer.ranges(of: "z").count == 4_000_000)
    }
  }

  @Test("A client with an incomplete request, or none, gets no answer or an error", arguments: kinds, [true, false])
  func cut(_ kind: String, _ isSilent: Bool) async throws {
    try await serving(kind, Holding()) { address, host in
      let text = isSilent ? "" : String(Self.request.replacing("HOST", with: host).dropLast(1))
      let answer = try exchange(text, with: address, endsOutput: true)
      #expect(answer.isEmpty || (!isSilent && answer.hasPrefix("HTTP/1.1 400 ")))
    }
  }

  @Test("A closed connection is noticed while its request is handled", arguments: kinds)
  func gone(_ kind: String) async throws {
    let application = Holding(after: .seconds(3600))
    try await serving(kind, application) { address, host in
      let request = Self.request.replacing("HOST", with: host)
      let descriptor = try connected(to: address)
      #expect(send(descriptor, request, request.utf8.count, 0) == request.utf8.count)
      try await eventually("it is handled") { application.counts.withLock { $0.begun } == 1 }
      shutdown(descriptor, Int32(SHUT_WR))
      let exchange = try #require(application.exchanges.withLock { $0.first })
      // The end of its side is noticed, and the periodic check does not end the request for it.
      #expect(
        await eventually {
          try await exchange.loop.submit {
            let handler = try exchange.channel.pipeline.syncOperations.handler(type: HTTPConnectionHandler.self)
            handler.checkTime(.now())
            return handler.state.hasInputEnded
          }.get()
        })
      #expect(application.counts.withLock { $0.ended } == 0)
      close(descriptor)
      try await eventually("it is noticed") { application.counts.withLock { $0.ended } == 1 }
    }
  }
}

/// Answers with a text after some time.
private final class Holding: CallerApplication {
  let text: String
  let pause: TimeAmount
  let counts = Mutex((begun: 0, ended: 0))
  let exchanges = Mutex<[HTTPExchange]>([])

  init(answer: String = "ok", after pause: TimeAmount = .zero) { (text, self.pause) = (answer, pause) }

  var identifiesCallers: Bool { true }
  func conversation(with caller: Caller?) -> any HTTPConversation { Held(self) }
}

private final class Held: HTTPConversation {
  private let application: Holding

  init(_ application: Holding) { self.application = application }

  func intake(of head: HTTPRequestHead) -> BodyHandling { .whole(atMost: 1024) }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    let application = self.application
    application.exchanges.withLock { $0.append(exchange) }
    application.counts.withLock { $0.begun += 1 }
    exchange.onEnd { application.counts.withLock { $0.ended += 1 } }
    let reply = HTTPReply(.ok, type: "text/plain", application.text)
    exchange.loop.scheduleTask(in: application.pause) { exchange.reply(reply) }
  }
}
