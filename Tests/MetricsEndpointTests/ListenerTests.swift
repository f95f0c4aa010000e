import Broker
import Foundation
import Glibc
import HTTPServer
import Logging
import MetricsEndpoint
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct ListenerTests {
  static let text = "# TYPE a gauge\na 1\n# EOF\n"

  /// A listener for the time of `body`, and its port.
  private func listening(
    _ address: LocalListener = .loopback(host: "127.0.0.1", port: 0),
    limits change: (inout HTTPServer.Limits) -> Void = { _ in },
    scrape: @escaping @Sendable () async -> String = { text },
    _ body: (Int) async throws -> Void
  ) async throws {
    var limits = HTTPServer.Limits.metrics
    change(&limits)
    let listener = HTTPServer(
      address: address, limits: limits, group: MultiThreadedEventLoopGroup.singleton,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, application: MetricsApplication(scrape: scrape))
    let place = try await listener.start()
    let port = place.split(separator: ":").last.flatMap { Int($0.prefix { $0 != "/" }) }
    do {
      try await body(port ?? 0)
    } catch {
      await listener.stop()
      throw error
    }
    await listener.stop()
  }

  private func request(_ line: String = "GET /metrics HTTP/1.1", host: String, more: String = "") -> String {
    "\(line)\r\nHost: \(host)\r\n\(more)\r\n"
  }

  @Test("GET /metrics answers with OpenMetrics text")
  func answers() async throws {
    try await listening { port in
      let answer = try await send(request(host: "127.0.0.1:\(port)"), to: port)
      #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
      let head = answer.lowercased()
      for header in [
        "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8", "cache-control: no-store",
        "x-content-type-options: nosniff", "connection: close", "content-length: \(Self.text.utf8.count)",
      ] {
        #expect(head.contains("\r\n\(header)\r\n"))
      }
      #expect(answer.hasSuffix("\r\n\r\n" + Self.text))
    }
  }

  @Test(
    "everything else is refused by its status",
    arguments: [
      ("GET / HTTP/1.1", "127.0.0.1:PORT", 404), ("GET /metrics/ HTTP/1.1", "127.0.0.1:PORT", 404),
      ("POST /metrics HTTP/1.1", "127.0.0.1:PORT", 404), ("GET /metrics?name=a HTTP/1.1", "localhost:PORT", 200),
      ("GET /metrics HTTP/1.1", "[::1]:PORT", 200), ("GET /metrics HTTP/1.1", "LOCALHOST:PORT", 200),
      ("GET /metrics HTTP/1.1", "evil.example:PORT", 421), ("GET /metrics HTTP/1.1", "127.0.0.1", 421),
      ("GET /metrics HTTP/1.1", "127.0.0.1:1", 421), ("GET /metrics HTTP/1.1", "", 421),
      ("GET /metrics HTTP/1.1", "127.0.0.1:PORT\r\nHost: evil.example", 400), ("rubbish", "127.0.0.1:PORT", 400),
      ("GET http://evil.example/metrics HTTP/1.1", "127.0.0.1:PORT", 400),
      ("HEAD /metrics HTTP/1.1", "127.0.0.1:PORT", 200),
    ])
  func refuses(_ line: String, _ host: String, _ status: Int) async throws {
    try await listening { port in
      let host = host.replacing("PORT", with: "\(port)")
      let answer = try await send(request(line, host: host), to: port)
      #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
      #expect(answer.hasSuffix(Self.text) == (status == 200 && line.hasPrefix("GET")))
    }
  }

  @Test("a request without a Host is valid only in HTTP/1.0")
  func withoutHost() async throws {
    try await listening { port in
      let answer1 = try await send("GET /metrics HTTP/1.0\r\n\r\n", to: port)
      #expect(answer1.hasPrefix("HTTP/1.1 200"))
      let answer2 = try await send("GET /metrics HTTP/1.1\r\n\r\n", to: port)
      #expect(answer2.hasPrefix("HTTP/1.1 400"))
    }
  }

  @Test("silent connections are evicted for a request")
  func crowded() async throws {
    try await listening(limits: { $0.connectionsPerHolder = 2 }) { port in
      _ = [try await connect(to: port), try await connect(to: port)]
      try await eventually("there is a place") {
        try await send(request(host: "127.0.0.1:\(port)"), to: port).hasSuffix(Self.text)
      }
    }
  }

  @Test("a Unix socket is for the user and the group, replaces one left by a crash, and is removed with the listener")
  func unixSocket() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "m-\(UInt32.random(in: 0 ... .max))")
      .path(percentEncoded: false)
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let path = "\(folder)/s"
    for _ in 1...2 {
      try await listening(.unix(path: path)) { _ in
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mode & 0o7777 == 0o660)
        let client = Client()
        client.channel = try await client.bootstrap.connect(unixDomainSocketPath: path).get()
        let answer = try await client.exchange(request(host: "anything"))
        #expect(answer.hasSuffix(Self.text))
      }
      #expect(!FileManager.default.fileExists(atPath: path))
      // The remains of a crash: a socket without a server.
      let left = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
      let size = socklen_t(MemoryLayout<sockaddr_un>.size)
      withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { #expect(bind(left, $0, size) == 0) }
      }
      close(left)
      #expect(FileManager.default.fileExists(atPath: path))
    }
  }

  @Test("a Unix socket that another program serves is left alone")
  func servedByAnother() async throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "m-\(UInt32.random(in: 0 ... .max))")
      .path(percentEncoded: false)
    try await listening(.unix(path: path)) { _ in
      let error = await #expect(throws: HTTPServerError.self) {
        try await listening(.unix(path: path)) { _ in }
      }
      #expect(error?.code == EADDRINUSE)
      let client = Client()
      client.channel = try await client.bootstrap.connect(unixDomainSocketPath: path).get()
      #expect(try await client.exchange(request(host: "anything")).hasSuffix(Self.text))
    }
  }

  @Test("a file that is not a socket is kept, and a taken port is reported")
  func cannotBeHad() async throws {
    try await listening { port in
      let error = await #expect(throws: HTTPServerError.self) {
        try await listening(.loopback(host: "127.0.0.1", port: port)) { _ in }
      }
      #expect(error?.place == "port \(port) of 127.0.0.1" && error?.owner == getuid())
      #expect(
        error?.hint("[metrics] listen") == "stop the program that has it, or choose another in [metrics] listen")
    }
    let file = FileManager.default.temporaryDirectory.appending(path: "m-\(UInt32.random(in: 0 ... .max))")
    try Data("mine".utf8).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    await #expect(throws: HTTPServerError.self) {
      try await listening(.unix(path: file.path(percentEncoded: false))) { _ in }
    }
    #expect(try Data(contentsOf: file) == Data("mine".utf8))
  }

  @Test(
    "a configured value is an address of this machine, or refused",
    arguments: [
      ("127.0.0.1:9464", .success(.loopback(host: "127.0.0.1", port: 9464))),
      ("[::1]:9464", .success(.loopback(host: "::1", port: 9464))),
      ("localhost:0", .success(.loopback(host: "127.0.0.1", port: 0))),
      ("/run/grantd/metrics.sock", .success(.unix(path: "/run/grantd/metrics.sock"))),
      ("0.0.0.0:9464", .failure(.notLoopback(host: "0.0.0.0"))), ("[::]:9464", .failure(.notLoopback(host: "[::]"))),
      ("192.168.0.1:1", .failure(.notLoopback(host: "192.168.0.1"))),
      (":9464", .failure(.notLoopback(host: "every address"))),
      ("example.com:1", .failure(.notLoopback(host: "example.com"))),
      ("127.0.0.1", .failure(.noAddress)), ("", .failure(.noAddress)), ("127.0.0.1:", .failure(.noPort)),
      ("127.0.0.1:65536", .failure(.noPort)), ("127.0.0.1:-1", .failure(.noPort)), ("127.0.0.1:+1", .failure(.noPort)),
      ("127.0.0.1:99999999999999999999", .failure(.noPort)), ("::1:9464", .failure(.notLoopback(host: "::1"))),
      ("/" + String(repeating: "a", count: 107), .failure(.pathTooLong)),
    ] as [(String, Result<LocalAddress, LocalAddress.Failure>)])
  func address(_ text: String, _ expected: Result<LocalAddress, LocalAddress.Failure>) {
    #expect(Result { () throws(LocalAddress.Failure) in try LocalAddress(text) } == expected)
  }

  // MARK: A client

  private func connect(to port: Int) async throws -> Client {
    let client = Client()
    client.channel = try await client.bootstrap.connect(host: "127.0.0.1", port: port).get()
    return client
  }

  /// All that comes until the listener hangs up.
  private func send(_ text: String, to port: Int) async throws -> String {
    try await connect(to: port).exchange(text)
  }
}

private final class Client: Sendable {
  private let collected = Mutex("")
  private let held = Mutex<(any Channel)?>(nil)

  var channel: (any Channel)? {
    get { held.withLock { $0 } }
    set { held.withLock { $0 = newValue } }
  }

  var bootstrap: ClientBootstrap {
    ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(
          Collector { text in self.collected.withLock { $0 += text } })
      }
    }
  }

  func exchange(_ text: String) async throws -> String {
    try? await channel?.writeAndFlush(ByteBuffer(string: text))
    try await channel?.closeFuture.get()
    return collected.withLock { $0 }
  }
}

private final class Collector: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  private let take: (String) -> Void

  init(_ take: @escaping (String) -> Void) { self.take = take }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { take(String(buffer: unwrapInboundIn(data))) }
  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
