import Broker
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import OAuth
import Synchronization
import TestSupport
import Testing

@testable import HTTPTransport

/// A server of raw bytes. `/once` is answered as the first request of its connection alone: the next ends it.
private final class RawServer: Sendable {
  let connections = Mutex(0)
  let requests = Mutex<[String]>([])

  static let answers = [
    "/ok": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "/once": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nonce",
    "/none": "HTTP/1.1 099 None\r\nContent-Length: 0\r\n\r\n",
    "/cut": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab",
    "/early": "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "/hang": "", "/silent": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "/end": "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end", "/close": "",
    "/twice": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmore",
  ]

  func with(_ body: (URL) async throws -> Void) async throws {
    try await TestServer.with { channel in
      self.connections.withLock { $0 += 1 }
      try channel.pipeline.syncOperations.addHandler(Answering(self))
    } _: {
      try await body($0)
    }
  }

  private final class Answering: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private let server: RawServer
    private var isLast = false

    init(_ server: RawServer) { self.server = server }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      let text = String(buffer: unwrapInboundIn(data))
      let path = String(text.split(separator: " ").dropFirst().first ?? "")
      server.requests.withLock { $0.append(text) }
      guard !isLast, let answer = RawServer.answers[path] else { return context.close(promise: nil) }
      isLast = path == "/once"
      let closes = ["/cut", "/end", "/close", "/silent"].contains(path)
      // The answer and the end in one segment.
      if path == "/silent" {
        try? context.channel.syncOptions?.setOption(.tcpOption(.init(rawValue: TCP_CORK)), value: 1)
      }
      context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
      if closes { context.close(promise: nil) }
    }
  }
}

/// What came of a request.
private struct Came: Sendable, Equatable {
  var status: UInt = 0
  var body = ""
  var failure: TransportError.Kind?
}

private final class Recorder: UpstreamReceiver {
  private let done: EventLoopPromise<Came>
  private var came = Came()
  private let parts: [String]
  private var isSent = false

  init(_ done: EventLoopPromise<Came>, parts: [String]) {
    self.done = done
    self.parts = parts
  }

  func upstreamTakesMore(_ exchange: UpstreamExchange) {
    guard !isSent, exchange.isWritable else { return }
    isSent = true
    for part in parts { exchange.write(ByteBuffer(string: part)) }
    exchange.endBody()
  }
  func upstreamBegan(_ head: HTTPResponseHead) { came.status = head.status.code }
  func upstreamSent(_ part: ByteBuffer) { came.body += String(buffer: part) }
  func upstreamEnded() { done.succeed(came) }
  func upstreamFailed(_ error: TransportError) {
    came.failure = error.kind
    done.succeed(came)
  }
}

@Suite(.timeLimit(.minutes(5))) struct UpstreamTests {
  private let loop = MultiThreadedEventLoopGroup.singleton.next()

  private func send(
    _ path: String, _ method: HTTPMethod = .GET, at url: URL, by transport: HTTPTransport, size: Int = 8,
    parts: [String] = []
  ) async throws -> Came {
    let server = try #require(UpstreamServer(url, over: .pool("test", .forwarded, size: size), tls: nil))
    var headers: HTTPHeaders = ["Host": server.authority]
    if !parts.isEmpty { headers.add(name: "Content-Length", value: "\(parts.joined().utf8.count)") }
    let request = UpstreamRequest(
      server: server, head: HTTPRequestHead(version: .http1_1, method: method, uri: path, headers: headers),
      body: parts.isEmpty ? .none : .streamed, isRepeatable: method == .GET)
    return try await loop.flatSubmit { [loop] in
      let done = loop.makePromise(of: Came.self)
      let recorder = Recorder(done, parts: parts)
      _ = transport.upstreams(on: loop).send(request, to: recorder)
      return done.futureResult
    }.get()
  }

  private func expect(
    _ wanted: Came, from path: String, _ method: HTTPMethod = .GET, at url: URL, by transport: HTTPTransport,
    parts: [String] = [], sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let came = try await send(path, method, at: url, by: transport, parts: parts)
    #expect(came == wanted, sourceLocation: sourceLocation)
  }

  private func with(_ body: (RawServer, URL, HTTPTransport) async throws -> Void) async throws {
    let transport = HTTPTransport(userAgent: "test")
    let server = RawServer()
    try await server.with { url in
      do { try await body(server, url, transport) } catch {
        await transport.close()
        throw error
      }
      await transport.close()
    }
  }

  @Test("Requests one after the other share a connection, and interim answers are left out")
  func kept() async throws {
    try await with { server, url, transport in
      for path in ["/ok", "/early", "/ok"] {
        try await expect(Came(status: 200, body: "ok"), from: path, at: url, by: transport)
      }
      try await expect(Came(status: 200, body: "ok"), from: "/ok", .POST, at: url, by: transport, parts: ["a", "b"])
      #expect(server.connections.withLock { $0 } == 1)
      let last = try #require(server.requests.withLock { $0.last })
      #expect(
        last.hasPrefix("POST /ok HTTP/1.1\r\nHost: 127.0.0.1:\(url.port ?? 0)\r\n") && last.hasSuffix("\r\n\r\nab"))
    }
  }

  @Test("A kept connection that the server had closed costs a GET nothing, and is reported for a POST")
  func closed() async throws {
    try await with { server, url, transport in
      _ = try await send("/once", at: url, by: transport)
      try await expect(Came(status: 200, body: "ok"), from: "/ok", at: url, by: transport)
      #expect(server.connections.withLock { $0 } == 2)
      _ = try await send("/once", at: url, by: transport)
      try await expect(Came(failure: .lost), from: "/ok", .POST, at: url, by: transport)
      // Once only, and never by a first connection.
      try await expect(Came(failure: .lost), from: "/close", at: url, by: transport)
    }
  }

  @Test("An invalid or truncated answer fails; one that ends with its connection is complete")
  func odd() async throws {
    try await with { server, url, transport in
      try await expect(Came(failure: .lost), from: "/none", at: url, by: transport)
      try await expect(Came(status: 200, body: "ab", failure: .lost), from: "/cut", at: url, by: transport)
      try await expect(Came(status: 200, body: "to the end"), from: "/end", at: url, by: transport)
      try await expect(Came(status: 200, body: "ok"), from: "/ok", at: url, by: transport)
      #expect(server.connections.withLock { $0 } == 4)
    }
  }

  @Test("An unrequested answer is not used for a later request")
  func unasked() async throws {
    try await with { _, url, transport in
      try await expect(Came(status: 200, body: "ok"), from: "/twice", at: url, by: transport)
      try await expect(Came(status: 200, body: "ok"), from: "/ok", at: url, by: transport)
    }
  }

  @Test("Data after an answer are not used for the next one, even if that waited for the connection")
  func behind() async throws {
    try await with { server, url, transport in
      async let first = send("/twice", at: url, by: transport, size: 1)
      // One that is not repeated.
      async let second = send("/ok", .POST, at: url, by: transport, size: 1)
      let (one, other) = try await (first, second)
      #expect(one == Came(status: 200, body: "ok") && other == Came(status: 200, body: "ok"))
      // The two tasks may start in either order.
      let isSecondLater = server.requests.withLock { $0.first?.contains("/twice") == true }
      #expect(server.connections.withLock { $0 } == (isSecondLater ? 2 : 1))
    }
  }

  @Test("A server that closes each connection without announcing it gets no request on a closed one")
  func silent() async throws {
    try await with { server, url, transport in
      async let first = send("/silent", .POST, at: url, by: transport, size: 1)
      async let second = send("/silent", .POST, at: url, by: transport, size: 1)
      let (one, other) = try await (first, second)
      #expect(one == Came(status: 200, body: "ok") && other == Came(status: 200, body: "ok"))
      #expect(server.connections.withLock { $0 } == 2)
    }
  }

  @Test("A request without a waiting caller keeps no slot in the queue")
  func cancelled() async throws {
    try await with { server, url, transport in
      let upstream = try #require(UpstreamServer(url, over: .pool("test", .forwarded, size: 1), tls: nil))
      let request = UpstreamRequest(
        server: upstream,
        head: HTTPRequestHead(version: .http1_1, method: .GET, uri: "/hang", headers: ["Host": upstream.authority]),
        body: .none, isRepeatable: true)
      func counts() async throws -> UpstreamPool.Counts {
        try await loop.submit { [loop] in transport.upstreams(on: loop).connections(to: upstream) }.get()
      }
      let sent = try await loop.submit { [loop] in
        let done = loop.makePromise(of: Came.self)
        done.succeed(Came())
        return NIOLoopBound(
          (0..<50).map { _ in transport.upstreams(on: loop).send(request, to: Recorder(done, parts: [])) },
          eventLoop: loop)
      }.get()
      #expect(await eventually { try await counts() == .init(idle: 0, open: 1, waiting: 49) })
      let left = try await loop.submit { [loop] in
        for one in sent.value.dropFirst() { one.cancel() }
        defer { sent.value[0].cancel() }
        return transport.upstreams(on: loop).connections(to: upstream)
      }.get()
      #expect(left == .init(idle: 0, open: 1, waiting: 0))
      #expect(await eventually { try await counts() == .init(idle: 0, open: 0, waiting: 0) })
    }
  }

  @Test("There are no more connections than the pool has, and all requests are answered")
  func bounded() async throws {
    try await with { server, url, transport in
      let all = try await withThrowingTaskGroup(of: Came.self) { group in
        for _ in 0..<40 { group.addTask { try await send("/ok", at: url, by: transport, size: 3) } }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(all.count == 40 && all.allSatisfy { $0.body == "ok" })
      #expect(server.connections.withLock { $0 } <= 3)
    }
  }

  @Test("If no server listens the request was not sent")
  func refused() async throws {
    let transport = HTTPTransport(userAgent: "test")
    let url = try #require(URL(string: "http://127.0.0.1:1"))
    try await expect(Came(failure: .notSent), from: "/ok", at: url, by: transport)
    await transport.close()
    try await expect(Came(failure: .notSent), from: "/ok", at: url, by: transport)
  }
}
