import Glibc
import Logging
import NIOCore
import NIOPosix
import Testing

@testable import HTTPServer

/// Callers that the broker has no descriptor or memory to identify.
@Suite(.timeLimit(.minutes(5))) struct UnidentifiedCallerTests {
  /// The answer to a request of such a caller.
  private func answer(_ application: any CallerApplication, to request: String) async throws -> String {
    let (loop, limits) = (MultiThreadedEventLoopGroup.singleton.next(), HTTPServer.Limits())
    let (channel, other) = try await accepted(on: loop, limits)
    defer { close(other) }
    try await loop.submit {
      let served = NIOLoopBound(ServedConnections(limits, application.checks, loop: loop), eventLoop: loop)
      let places = HolderConnectionLimits(
        application, limits, on: loop, Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
      places.accepted(HTTPConnection(channel, .unidentified(uid: 60_001), served))
    }.get()
    #expect(send(other, request, request.utf8.count, Int32(MSG_NOSIGNAL)) == request.utf8.count)
    shutdown(other, CInt(SHUT_WR))
    var (part, all) = ([UInt8](repeating: 0, count: 65_536), [UInt8]())
    while case let count = recv(other, &part, part.count, 0), count > 0 { all += part[..<count] }
    return String(decoding: all, as: UTF8.self)
  }

  @Test("a caller that cannot be identified now may try again") func refused() async throws {
    let text = try await answer(Answers(), to: "GET /zero HTTP/1.1\r\nHost: x\r\n\r\n")
    #expect(text.hasPrefix("HTTP/1.1 503 ") && text.contains("\r\nRetry-After: 1\r\n"))
    #expect(text.contains("\r\nConnection: close\r\n") && text.contains("temporarily_unavailable"))
  }
}
