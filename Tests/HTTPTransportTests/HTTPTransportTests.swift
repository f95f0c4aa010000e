import Broker
import Foundation
import NIOCore
import NIOPosix
import OAuth
import Synchronization
import Testing

@testable import HTTPTransport

/// A server that answers every connection with the same bytes, and then closes or stays silent.
private struct ScriptedServer {
  let channel: any Channel

  static func with(
    _ answer: String, closes: Bool, after delay: TimeAmount = .zero, _ body: (URL) async throws -> Void
  ) async throws {
    try await TestServer.with(path: "/token") { channel in
      try channel.pipeline.syncOperations.addHandler(Answering(answer: answer, closes: closes, delay: delay))
    } _: {
      try await body($0)
    }
  }

  private final class Answering: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: String
    private let closes: Bool
    private let delay: TimeAmount
    private var hasAnswered = false

    init(answer: String, closes: Bool, delay: TimeAmount) {
      self.answer = answer
      self.closes = closes
      self.delay = delay
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      guard !hasAnswered else { return }
      hasAnswered = true
      context.eventLoop.assumeIsolated().scheduleTask(in: delay) { [self] in
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
        if closes { context.close(promise: nil) }
      }
    }
  }
}

@Suite("Requests to providers")
struct HTTPTransportTests {
  private static let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

  private func send(
    _ answer: String, closes: Bool = true, deadline: Duration = .seconds(60)
  ) async throws -> Result<HTTPResponse, TransportError> {
    let transport = HTTPTransport(userAgent: "test", deadline: deadline)
    var result: Result<HTTPResponse, TransportError> = .failure(TransportError(.notSent, "not asked"))
    try await ScriptedServer.with(answer, closes: closes) { url in
      do throws(TransportError) {
        result = .success(try await transport.send(HTTPRequest(purpose: .token, method: "POST", url: url), over: .test))
      } catch {
        result = .failure(error)
      }
    }
    await transport.close()
    return result
  }

  private func kind(_ result: Result<HTTPResponse, TransportError>) -> TransportError.Kind? {
    if case .failure(let error) = result { error.kind } else { nil }
  }

  @Test(
    "A server that stalls ends with the deadline, before the head, within it and within the body",
    arguments: ["", "HTTP/1.1 200 OK\r\nContent-Le", head + "Content-Length: 100\r\n\r\n{\"access_token\":"])
  func stalls(answer: String) async throws {
    let started = ContinuousClock.now
    let result = try await send(answer, closes: false, deadline: .seconds(8))
    #expect(kind(result) == .timedOut)
    #expect(ContinuousClock.now - started < .seconds(60))
  }

  @Test(
    "A connection that ends before the answer does is lost: it may have been acted on",
    arguments: [
      "", head + "Content-Length: 100\r\n\r\n{\"access_token\":",
    ])
  func ends(answer: String) async throws {
    #expect(kind(try await send(answer)) == .lost)
  }

  @Test("A status below 100 is not an answer, and ends no process", arguments: ["099", "000", "001"])
  func noStatus(code: String) async throws {
    #expect(kind(try await send("HTTP/1.1 \(code) x\r\n\r\n")) == .lost)
  }

  /// Heads whose body ends otherwise than they say.
  private static let wrongEnds = [
    head + "\r\n{", head + "Content-Length: 100\r\n\r\n{", head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{",
  ]

  @Test("An answer that is complete JSON is accepted, whatever length its head states", arguments: wrongEnds)
  func wrongEnd(begun: String) async throws {
    for _ in 0..<20 { #expect(try await send(begun + "}").get().body == Data("{}".utf8)) }
    // Both take the whole time, in which a busy machine has sent the request.
    async let whole = send(begun + "}", closes: false, deadline: .seconds(8))
    async let half = send(begun, closes: false, deadline: .seconds(8))
    #expect(try await whole.get().body == Data("{}".utf8))
    #expect(kind(try await half) == .timedOut)
  }

  @Test("A late answer is read on after its time, which is said once, and no longer than its limit")
  func late() async throws {
    let transport = HTTPTransport(userAgent: "test", deadline: .seconds(6))
    let answer = Self.head + "Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    let told = Mutex<[TransportError]>([])
    let late = { LateAnswer(limit: $0) { error in told.withLock { $0.append(error) } } }
    try await ScriptedServer.with(answer, closes: true, after: .seconds(20)) { url in
      let request = HTTPRequest(purpose: .token, method: "POST", url: url)
      let response = try await transport.send(request, over: .test, late: late(.seconds(60)))
      #expect(response.body == Data("{}".utf8))
      let overdue = TransportError(.timedOut, "127.0.0.1 did not answer in time", cause: .silence)
      #expect(told.withLock { $0 } == [overdue])
      await #expect(throws: overdue) {
        _ = try await transport.send(request, over: .test, late: late(.seconds(8)))
      }
      #expect(told.withLock { $0.count } == 2)
      await #expect(throws: overdue) { _ = try await transport.send(request, over: .test) }
    }
    await transport.close()
    #expect(told.withLock { $0.count } == 2)
  }

  @Test("If no server listens, nothing was sent")
  func refused() async throws {
    let transport = HTTPTransport(userAgent: "test")
    let url = try #require(URL(string: "http://127.0.0.1:1/token"))
    let started = ContinuousClock.now
    do throws(TransportError) {
      _ = try await transport.send(HTTPRequest(purpose: .token, method: "POST", url: url), over: .test)
      Issue.record("somebody answered")
    } catch {
      #expect(error.kind == .notSent && error.cause == .refused, "\(error)")
      #expect(error.message == "no connection to 127.0.0.1: connection refused")
    }
    #expect(ContinuousClock.now - started < .seconds(25))
    await transport.close()
  }

  @Test("An unknown name and an answer that is not TLS differ, in texts without internal terms")
  func causes() async throws {
    let transport = HTTPTransport(userAgent: "test")
    var errors: [TransportError] = []
    func ask(_ url: URL) async {
      do throws(TransportError) {
        _ = try await transport.send(HTTPRequest(purpose: .discovery, method: "GET", url: url), over: .test)
      } catch {
        errors.append(error)
      }
    }
    await ask(try #require(URL(string: "https://no-such-host.invalid/")))
    try await ScriptedServer.with("HTTP/1.1 400 Bad Request\r\n\r\n", closes: true) { url in
      await ask(try #require(URL(string: "https://127.0.0.1:\(url.port ?? 0)/")))
    }
    await transport.close()
    #expect(errors.map(\.kind) == [.notSent, .notSent])
    // Without any name service it may not answer.
    #expect(errors.first.map { [.nameLookup, .silence].contains($0.cause) } == true)
    #expect(errors.last?.cause == .tls)
    #expect(errors.last?.message == "no secure connection to 127.0.0.1: the server does not use TLS")
  }

  @Test("A redirect is an answer, not followed")
  func redirect() async throws {
    let answer = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n"
    #expect(try await send(answer).get().status == 302)
  }

  @Test("A body over 1 MiB is refused")
  func tooLarge() async throws {
    let body = String(repeating: "x", count: (1 << 20) + 1)
    #expect(kind(try await send(Self.head + "Content-Length: \(body.utf8.count)\r\n\r\n" + body)) == .tooLarge)
  }

  @Test("each request asks for no content coding")
  func acceptEncoding() async throws {
    let received = Received()
    let transport = HTTPTransport(userAgent: "test", deadline: .seconds(60))
    try await TestServer.with { channel in
      try channel.pipeline.syncOperations.addHandler(Receiving(received))
    } _: { url in
      for purpose in [
        HTTPRequest.Purpose.token, .discovery, .keys, .userinfo, .registration, .revocation, .device, .par,
      ] {
        let request = HTTPRequest(
          purpose: purpose, method: "GET", url: url, headers: [.init("accept-encoding", "gzip")])
        _ = try await transport.send(request, over: .test, late: nil)
      }
    }
    await transport.close()
    let heads = received.text.withLock { $0 }.lowercased()
    #expect(heads.components(separatedBy: "accept-encoding: identity\r\n").count == 9)
    #expect(!heads.contains("gzip"))
  }
}

private final class Received: Sendable { let text = Mutex("") }

/// Answers each request with an empty JSON object.
private final class Receiving: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer
  private let received: Received

  init(_ received: Received) { self.received = received }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    received.text.withLock { $0 += String(buffer: unwrapInboundIn(data)) }
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
  }
}
