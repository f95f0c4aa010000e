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

extension ConnectionPool {
  static func pool(_ provider: String, _ use: Use, size: Int = 8) -> ConnectionPool {
    ConnectionPool(ProviderName(rawValue: provider)!, use, size: size)
  }

  static let test = pool("test", .refreshes)
}

extension HTTPTransport {
  func send(
    _ request: HTTPRequest, over pool: ConnectionPool
  ) async throws(TransportError) -> HTTPResponse {
    try await send(request, over: pool, late: nil)
  }
}

/// A server that answers requests for `/fast` with their Host, closes at `/broken`, and leaves the others without an
/// answer.
private final class HalfServer: Sendable {
  let open = Mutex(0)
  let most = Mutex(0)
  let all = Mutex(0)

  func with(_ body: (URL) async throws -> Void) async throws {
    try await TestServer.with { channel in
      let now = self.open.withLock { open in
        open += 1
        return open
      }
      self.all.withLock { $0 += 1 }
      self.most.withLock { $0 = max($0, now) }
      channel.closeFuture.whenComplete { _ in self.open.withLock { $0 -= 1 } }
      try channel.pipeline.syncOperations.addHandler(Answering())
    } _: {
      try await body($0)
    }
  }

  private final class Answering: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      let text = String(buffer: unwrapInboundIn(data))
      if text.hasPrefix("GET /broken ") { context.close(promise: nil) }
      guard text.hasPrefix("GET /fast ") else { return }
      let host = text.split(separator: "\r\n").first { $0.lowercased().hasPrefix("host: ") }?.dropFirst(6) ?? ""
      context.writeAndFlush(
        wrapOutboundOut(
          ByteBuffer(string: "HTTP/1.1 200 OK\r\nContent-Length: \(host.utf8.count)\r\n\r\n\(host)")), promise: nil)
    }
  }
}

@Suite("Pools of connections")
struct PoolTests {
  private func request(_ url: URL, _ path: String) -> HTTPRequest {
    HTTPRequest(purpose: .resource, method: "GET", url: url.appending(path: path))
  }

  /// How many requests without an answer there may be at once.
  private func hang(_ count: Int, _ transport: HTTPTransport, _ pool: ConnectionPool, _ url: URL) -> [Task<Void, Never>]
  {
    (0..<count).map { _ in Task { _ = try? await transport.send(request(url, "slow"), over: pool) } }
  }

  @Test(
    "A pool that is full of requests without an answer stops no other pool at the same server",
    arguments: [
      (ConnectionPool.pool("a", .refreshes, size: 2), ConnectionPool.pool("b", .refreshes, size: 2)),
      (.pool("a", .callers, size: 2), .pool("a", .refreshes, size: 2)),
      (.pool("a", .logins, size: 2), .pool("a", .callers, size: 2)),
      (.pool("a", .logins, size: 2), .pool("a", .exchanges, size: 2)),
    ])
  func apart(_ full: ConnectionPool, _ other: ConnectionPool) async throws {
    let transport = HTTPTransport(userAgent: "test", deadline: .seconds(60))
    let server = HalfServer()
    try await server.with { url in
      let hanging = hang(8, transport, full, url)
      defer { for task in hanging { task.cancel() } }
      #expect(await eventually { server.open.withLock { $0 } == 2 })
      let started = ContinuousClock.now
      let response = try await transport.send(request(url, "fast"), over: other)
      #expect(response.status == 200 && ContinuousClock.now - started < .seconds(30))
    }
    await transport.close()
  }

  @Test(
    "A pool with a reach connects to no nearer address",
    arguments: [
      (["127.0.0.1"], AddressScope.site, false), (["127.0.0.1"], .machine, true),
      (["10.0.0.1", "127.0.0.1"], .machine, true), (["169.254.169.254"], .machine, false),
      (["::ffff:127.0.0.1"], .global, false), (["10.0.0.1"], .global, false),
    ])
  func reach(_ addresses: [String], _ reach: AddressScope, allowed: Bool) async throws {
    let transport = HTTPTransport(
      userAgent: "test", deadline: .seconds(20), names: NameLookups(["provider.test": addresses]))
    try await HalfServer().with { url in
      var pool = ConnectionPool.test
      pool.reach = reach
      let named = try #require(URL(string: "http://provider.test:\(url.port ?? 0)"))
      if allowed {
        #expect(try await transport.send(request(named, "fast"), over: pool).status == 200)
        // That of the address that answered.
        #expect(try await transport.scope(of: named) == .machine)
      } else {
        do throws(TransportError) {
          _ = try await transport.send(request(named, "fast"), over: pool)
          Issue.record("a connection was made")
        } catch {
          #expect(error.cause == .reach && error.kind == .notSent)
        }
      }
    }
    await transport.close()
  }

  @Test(
    "The addresses of a name are tried in order until one answers, which is then the first",
    arguments: [["127.0.0.2", "127.0.0.1"], ["::1", "127.0.0.1"], ["127.0.0.1", "127.0.0.2"], ["127.0.0.1"]])
  func addresses(_ addresses: [String]) async throws {
    let names = NameLookups(["provider.test": addresses])
    let transport = HTTPTransport(userAgent: "test", deadline: .seconds(20), names: names)
    try await HalfServer().with { url in
      let named = try #require(URL(string: "http://provider.test:\(url.port ?? 0)"))
      let response = try await transport.send(request(named, "fast"), over: .test)
      #expect(String(decoding: response.body, as: UTF8.self) == "provider.test:\(url.port ?? 0)")
      #expect(try await names.addresses(of: "provider.test").first == "127.0.0.1")
    }
    await transport.close()
  }

  @Test("A request that may have reached one address is sent to no other")
  func sentOnce() async throws {
    let server = HalfServer()
    try await server.with { url in
      // Both are this server.
      let names = NameLookups(["provider.test": ["127.0.0.1", "::ffff:127.0.0.1"]])
      let transport = HTTPTransport(userAgent: "test", deadline: .seconds(20), names: names)
      let named = try #require(URL(string: "http://provider.test:\(url.port ?? 0)"))
      do throws(TransportError) {
        _ = try await transport.send(request(named, "broken"), over: .test)
        Issue.record("an answer")
      } catch {
        #expect(error.kind == .lost)
      }
      await transport.close()
    }
    #expect(server.all.withLock { $0 } == 1)
  }

  @Test("The next address is tried where there is no way to the first")
  func unreachable() async throws {
    // connect(2) to a broadcast address fails with ENETUNREACH, whatever routes there are.
    try await HalfServer().with { url in
      let names = NameLookups(["provider.test": ["255.255.255.255", "127.0.0.1"], "far.test": ["255.255.255.255"]])
      let transport = HTTPTransport(userAgent: "test", deadline: .seconds(20), names: names)
      let port = url.port ?? 0
      let near = try #require(URL(string: "http://provider.test:\(port)"))
      #expect(try await transport.send(request(near, "fast"), over: .test).status == 200)
      let far = try #require(URL(string: "http://far.test:\(port)"))
      await #expect(
        throws: TransportError(.notSent, "no connection to far.test: network is unreachable", cause: .unreachable)
      ) { _ = try await transport.send(request(far, "fast"), over: .test) }
      await transport.close()
    }
  }

  @Test(
    "A failure before the connection exists means not sent; after it, possibly sent",
    arguments: [EMFILE, ENOBUFS, ECONNREFUSED, ECONNRESET, EADDRNOTAVAIL, ENETUNREACH, EHOSTUNREACH, ETIMEDOUT])
  func phases(_ code: CInt) {
    for (isOpen, kind) in [(false, TransportError.Kind.notSent), (true, .lost)] {
      let error = IOError(errnoCode: code, reason: "read(descriptor:pointer:size:)")
      let failure = TransportError(error, host: "provider.test", isOpen: isOpen)
      #expect(failure.kind == kind)
      let words = String(cString: strerror(code)).lowercased()
      #expect(failure.message.hasSuffix(": \(words)"), "\(failure.message)")
    }
  }

  @Test("If no address answers, nothing was sent")
  func nowhere() async throws {
    let names = NameLookups(["provider.test": ["127.0.0.2", "127.0.0.3"]])
    let transport = HTTPTransport(userAgent: "test", deadline: .seconds(20), names: names)
    let url = try #require(URL(string: "http://provider.test:1/"))
    await #expect(
      throws: TransportError(.notSent, "no connection to provider.test: connection refused", cause: .refused)
    ) { _ = try await transport.send(request(url, "fast"), over: .test) }
    await transport.close()
  }

  @Test("A name whose lookup hangs stops no request for another")
  func hangingName() async throws {
    let ends = DispatchSemaphore(value: 0)
    defer { ends.signal() }
    let names = NameLookups(resolve: { host in
      if host == "slow.test" {
        ends.wait()
        ends.signal()
      }
      return .success(["127.0.0.1"])
    })
    let transport = HTTPTransport(userAgent: "test", deadline: .seconds(8), names: names)
    try await HalfServer().with { url in
      let slow = try #require(URL(string: "http://slow.test:\(url.port ?? 0)"))
      let waiting = (0..<20).map { _ in
        Task { () async -> TransportError? in
          do throws(TransportError) {
            _ = try await transport.send(request(slow, "fast"), over: .test)
            return nil
          } catch {
            return error
          }
        }
      }
      #expect(await eventually { names.count == 1 })
      let fast = try #require(URL(string: "http://fast.test:\(url.port ?? 0)"))
      // The other name hangs to the end: held up by it, this request would fail.
      _ = try await transport.send(request(fast, "fast"), over: .test)
      // Their own time is shorter than a lookup's here, and nothing was sent.
      for task in waiting { #expect(await task.value?.kind == .notSent) }
    }
    await transport.close()
  }

  @Test("A pool has as many connections as its size says, and a new size holds for the next request")
  func size() async throws {
    let transport = HTTPTransport(userAgent: "test", deadline: .seconds(20))
    let server = HalfServer()
    try await server.with { url in
      let few = hang(20, transport, .pool("a", .refreshes, size: 3), url)
      #expect(await eventually { server.open.withLock { $0 } == 3 })
      let many = hang(24, transport, .pool("a", .refreshes, size: 24), url)
      #expect(await eventually { server.open.withLock { $0 } == 27 })
      try await Task.sleep(for: .milliseconds(200))
      #expect(server.most.withLock { $0 } == 27)
      for task in few + many { task.cancel() }
    }
    await transport.close()
  }
}
