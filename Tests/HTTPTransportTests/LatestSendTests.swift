import Broker
import Foundation
import Grants
import NIOCore
import NIOPosix
import OAuth
import Synchronization
import TestSupport
import Testing

@testable import HTTPTransport

/// Answers each request, and counts them.
private final class CountingServer: Sendable {
  let requests = Mutex(0)

  func with(_ body: (URL) async throws -> Void) async throws {
    try await TestServer.with { channel in
      try channel.pipeline.syncOperations.addHandler(Answering(self))
    } _: {
      try await body($0)
    }
  }

  private final class Answering: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private let server: CountingServer
    init(_ server: CountingServer) { self.server = server }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      server.requests.withLock { $0 += 1 }
      let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
      context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
    }
  }
}

@Suite(.timeLimit(.minutes(5))) struct LatestSendTests {
  @Test(
    "A request is not sent after its latest time, in which a stopped process counts, over a kept or a new connection",
    arguments: [Duration.seconds(11), .seconds(14)])
  func tooLate(_ resumed: Duration) async throws {
    let server = CountingServer()
    let uptime = Mutex(Duration.seconds(8))
    let transport = HTTPTransport(userAgent: "grantd") { uptime.withLock { $0 } }
    let pool = ConnectionPool(ProviderName(rawValue: "example")!, .refreshes, size: 1)
    try await server.with { url in
      var request = HTTPRequest(purpose: .token, method: "GET", url: url)
      request.latestSend = .seconds(10)
      let first = try await transport.send(request, over: pool, late: nil)
      #expect(first.status == 200)
      // The connection is kept for 5 s.
      uptime.withLock { $0 = resumed }
      var kind: TransportError.Kind?
      do throws(TransportError) {
        _ = try await transport.send(request, over: pool, late: nil)
      } catch { kind = error.kind }
      #expect(kind == .notSent)
      request.latestSend = .seconds(20)
      let last = try await transport.send(request, over: pool, late: nil)
      #expect(last.status == 200)
    }
    #expect(server.requests.withLock { $0 } == 2)
    await transport.close()
  }
}
