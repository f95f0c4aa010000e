import Glibc
import Listening
import Logging
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

extension SocketHolder {
  fileprivate var keeper: SocketKeeper {
    SocketKeeper(earlier: { self.earlier($0) }, keep: { self.keep($0, $1) }, remove: { self.remove($0) })
  }
}

/// A loopback port: both addresses or none, and the same over a restart.
@Suite(.timeLimit(.minutes(5))) struct LoopbackBindingTests {
  private func server(_ host: String = "127.0.0.1", _ port: Int = 0, _ holder: SocketHolder? = nil) -> HTTPServer {
    HTTPServer(
      address: .loopback(host: host, port: port), keeper: holder?.keeper, group: MultiThreadedEventLoopGroup.singleton,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, application: Answers())
  }

  private func port(_ server: HTTPServer) async throws -> Int {
    try #require(try await server.start().split(separator: ":").last.flatMap { Int($0) })
  }

  /// The errno of a connection; 0: the kernel accepts it.
  private func connects(_ host: String, _ port: Int) -> Int32 {
    let isV6 = host == "::1"
    let descriptor = socket(isV6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    guard let address = try? SocketAddress(ipAddress: host, port: port) else { return EINVAL }
    return address.withSockAddr { connect(descriptor, $0, socklen_t($1)) == 0 ? 0 : errno }
  }

  @Test("a port is had on both addresses, with either one in the configuration", arguments: ["127.0.0.1", "::1"])
  func both(host: String) async throws {
    let server = server(host)
    let port = try await port(server)
    #expect(connects("127.0.0.1", port) == 0 && connects("::1", port) == 0)
    await server.stop()
    #expect(connects("127.0.0.1", port) == ECONNREFUSED && connects("::1", port) == ECONNREFUSED)
  }

  @Test("a port that another program has on one address is not served on the other, and its user is named")
  func taken() async throws {
    let other = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .bind(to: SocketAddress(ipAddress: "::1", port: 0)).get()
    let port = try #require(other.localAddress?.port)
    let holder = SocketHolder()
    let error = await #expect(throws: HTTPServerError.self) { try await server("127.0.0.1", port, holder).start() }
    #expect(error?.code == EADDRINUSE && error?.owner == getuid() && error?.place == "port \(port) of ::1")
    #expect(error?.message == "Address already in use by a program of uid \(getuid())")
    #expect(connects("127.0.0.1", port) == ECONNREFUSED)
    #expect(holder.names.isEmpty)
    try await other.close()
    let free = server("127.0.0.1", port)
    #expect(try await free.start() == "127.0.0.1:\(port)")
    await free.stop()
  }

  @Test("no client is served on one address of a port whose other one is taken") func halfBound() async throws {
    let other = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .bind(to: SocketAddress(ipAddress: "::1", port: 0)).get()
    let port = try #require(other.localAddress?.port)
    let isOver = Mutex(false)
    let client = Task.detached { [self] in
      var answered = 0
      while !isOver.withLock({ $0 }) { answered += hasAnswer("127.0.0.1", port) ? 1 : 0 }
      return answered
    }
    for _ in 0..<300 { await #expect(throws: HTTPServerError.self) { try await server("127.0.0.1", port).start() } }
    isOver.withLock { $0 = true }
    #expect(await client.value == 0)
    try await other.close()
  }

  private func hasAnswer(_ host: String, _ port: Int) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    guard let address = try? SocketAddress(ipAddress: host, port: port),
      address.withSockAddr({ connect(descriptor, $0, socklen_t($1)) }) == 0
    else { return false }
    let request = Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
    var byte: UInt8 = 0
    return send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) > 0 && recv(descriptor, &byte, 1, 0) > 0
  }

  @Test("a held port stays taken between two servers, and is free after the last") func held() async throws {
    let holder = SocketHolder()
    let first = server("127.0.0.1", 0, holder)
    let port = try await port(first)
    #expect(holder.names == ["\(port)-v4", "\(port)-v6"])
    await first.stop()
    #expect(connects("127.0.0.1", port) == 0 && connects("::1", port) == 0)
    await #expect(throws: HTTPServerError.self) { try await server("127.0.0.1", port).start() }
    let second = server("127.0.0.1", port, holder)
    #expect(try await second.start() == "127.0.0.1:\(port)")
    await second.retire()
    #expect(holder.names.isEmpty)
    #expect(connects("127.0.0.1", port) == ECONNREFUSED)
  }
}
