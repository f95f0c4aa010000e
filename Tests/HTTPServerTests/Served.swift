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

/// A server of ``Answers`` on a port, and its clients.
struct Served {
  let port: Int
  let server: HTTPServer
  let answers: Answers

  var address: LocalListener { .loopback(host: "127.0.0.1", port: port) }

  /// Serves for the time of `body`.
  static func with(
    limits change: (inout HTTPServer.Limits) -> Void = { _ in },
    on group: MultiThreadedEventLoopGroup = .singleton, _ body: (Served) async throws -> Void
  ) async throws {
    var limits = HTTPServer.Limits()
    change(&limits)
    let answers = Answers()
    let server = HTTPServer(
      address: .loopback(host: "127.0.0.1", port: 0), limits: limits, group: group,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, application: answers)
    let port = try #require(try await server.start().split(separator: ":").last.flatMap { Int($0) })
    do { try await body(Served(port: port, server: server, answers: answers)) } catch {
      await server.stop()
      throw error
    }
    await server.stop()
  }

  func client() throws -> Client { try Client(self) }

  /// A client whose first request is kept, and waits for its answer.
  func asking(
    _ path: String = "/later", _ headers: String = "", method: String = "GET", version: String = "1.1"
  ) async throws -> Asking {
    let (client, before) = (try client(), answers.held.withLock { $0.count })
    client.send(request(path, headers, method: method, version: version))
    #expect(await eventually { answers.held.withLock { $0.count } > before })
    let exchange = answers.held.withLock { $0[before] }
    let handler = try await exchange.loop.submit {
      let handler = try exchange.channel.pipeline.syncOperations.handler(type: HTTPConnectionHandler.self)
      return NIOLoopBound(handler, eventLoop: exchange.loop)
    }.get()
    return Asking(client: client, exchange: exchange, handler: handler)
  }

  func request(_ path: String, _ headers: String = "", method: String = "GET", version: String = "1.1") -> String {
    "\(method) \(path) HTTP/\(version)\r\nHost: 127.0.0.1:\(port)\r\n\(headers)\r\n"
  }

  /// The number of requests that are refused at once.
  func requests(_ count: Int) -> String { (1...count).map { request("/number-\($0)") }.joined() }

  /// A request of which the body is missing, or the head's end.
  func half(_ kind: String) -> String {
    kind == "POST" ? request("/whole", "Content-Length: 9\r\n", method: "POST") : kind
  }
}

/// A client's connection, which lives as long as this.
final class Client: Sendable {
  struct Failure: Error, Equatable { var code: Int32 }

  let descriptor: Int32

  init(_ served: Served) throws { descriptor = try connected(to: served.address) }

  deinit { close(descriptor) }

  func send(_ text: String) {
    #expect(Glibc.send(descriptor, text, text.utf8.count, Int32(MSG_NOSIGNAL)) == text.utf8.count)
  }

  /// What is taken without waiting; nil: the connection is over.
  func offer(_ bytes: some Collection<UInt8>) -> Int? {
    let count = Array(bytes).withUnsafeBytes {
      Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
    }
    return count >= 0 ? count : errno == EAGAIN ? 0 : nil
  }

  func endSide() { shutdown(descriptor, CInt(SHUT_WR)) }

  /// All that comes until the end.
  func text() -> String {
    var (part, all) = ([UInt8](repeating: 0, count: 65_536), [UInt8]())
    while case let count = recv(descriptor, &part, part.count, 0), count > 0 { all += part[..<count] }
    return String(decoding: all, as: UTF8.self)
  }

  /// Bytes that come until the end, or what ended it.
  func receive(atMost most: Int = .max) -> Result<Int, Failure> {
    var (part, count) = ([UInt8](repeating: 0, count: 65_536), 0)
    while count < most {
      let more = recv(descriptor, &part, part.count, 0)
      if more < 0 { return .failure(Failure(code: errno)) }
      if more == 0 { break }
      count += more
    }
    return .success(count)
  }
}

/// A client's request that is kept, and the server's side of its connection.
struct Asking {
  let client: Client
  let exchange: HTTPExchange
  let handler: NIOLoopBound<HTTPConnectionHandler>

  var loop: any EventLoop { handler.eventLoop }

  /// What is so of the connection's handler, on its loop.
  func on<Value: Sendable>(_ look: @escaping @Sendable (HTTPConnectionHandler) throws -> Value) async throws -> Value {
    try await loop.submit { try look(handler.value) }.get()
  }

  /// Waits until it is so.
  func expect(
    sourceLocation: SourceLocation = #_sourceLocation, _ condition: @escaping @Sendable (HTTPConnectionHandler) -> Bool
  ) async throws {
    #expect(await eventually { try await on(condition) }, sourceLocation: sourceLocation)
  }

  func answer() { exchange.reply(HTTPReply(.ok, type: "text/plain", "late")) }

  var connection: HTTPConnection { get async throws { try await on { $0.connection } } }
}

/// Answers by path. The exchanges of those for `/later`, and of those that are streamed, are kept.
final class Answers: CallerApplication {
  /// Bytes of a large answer.
  static let size = 8 << 20

  let held = Mutex<[HTTPExchange]>([])

  var identifiesCallers: Bool { true }
  func conversation(with caller: Caller?) -> any HTTPConversation { Answer(self) }
}

private final class Answer: HTTPConversation {
  private let answers: Answers

  init(_ answers: Answers) { self.answers = answers }

  func intake(of head: HTTPRequestHead) -> BodyHandling {
    switch head.uri {
    case "/zero", "/memory": .whole(atMost: 0)
    case "/later", "/whole": .whole(atMost: 1000)
    case "/large", "/long", "/endless", "/body": .stream(within: .seconds(60), else: HTTPReply(.gatewayTimeout))
    default: .refuse(HTTPReply(.notFound, type: "text/plain", "nothing at \(head.uri)"))
    }
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    if head.uri == "/memory" {
      var reply = HTTPReply(.ok, type: "text/plain", "kept")
      reply.isFromMemory = true
      return exchange.reply(reply)
    }
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
    let length: HTTPHeaders = head.uri == "/large" ? ["Content-Length": "\(Answers.size)"] : [:]
    exchange.begin(HTTPResponseHead(version: .http1_1, status: .ok, headers: length))
    guard head.uri != "/endless" else {
      exchange.write(ByteBuffer(string: "half of "))
      return exchange.flush()
    }
    exchange.write(ByteBuffer(repeating: 120, count: Answers.size))
    exchange.flush()
    exchange.loop.execute { exchange.end() }
  }
}

extension String {
  /// How many answers it has.
  var answers: Int { ranges(of: "HTTP/1.1 ").count }
}
