import Broker
import Callback
import Glibc
import HTTPServer
import Listening
import Logging
import NIOCore
import NIOPosix
import TestSupport
import Testing

extension SocketHolder {
  fileprivate var keeper: SocketKeeper {
    SocketKeeper(earlier: { self.earlier($0) }, keep: { self.keep($0, $1) }, remove: { self.remove($0) })
  }
}

@Suite struct SocketKeeperTests {
  private func listener(
    _ configuration: CallbackListener.Configuration, _ holder: SocketHolder,
    handler: any CallbackHandler = ScriptedHandler()
  ) -> CallbackListener {
    CallbackListener(
      configuration: configuration, handler: handler, group: MultiThreadedEventLoopGroup.singleton,
      keeper: holder.keeper, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }

  @Test("A browser that comes between two listeners is answered by the second", arguments: ["127.0.0.1", "::1"])
  func between(host: String) async throws {
    let holder = SocketHolder()
    let (before, after) = (ScriptedHandler(), ScriptedHandler())
    let first = listener(.init(), holder, handler: before)
    try await first.start()
    let port = try #require(first.port)
    #expect(holder.names == ["\(port)-v4", "\(port)-v6"])
    await first.standBack()
    // It is connected before a server can answer it.
    let connection = try await RawClient(host: host, port: port).open()
    try await connection.write("GET /callback?x HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n")
    await first.stop()
    #expect(before.urls.isEmpty)
    let second = listener(.init(preferredPort: port), holder, handler: after)
    try await second.start()
    #expect(second.port == port && second.addresses.count == 2 && second.warnings.isEmpty)
    #expect(try await connection.response().status == 200)
    #expect(after.urls.count == 1)
    await second.retire()
    #expect(holder.names.isEmpty)
  }

  @Test("Who came just before may still ask")
  func justBefore() async throws {
    let (holder, handler) = (SocketHolder(), ScriptedHandler())
    var configuration = CallbackListener.Configuration()
    // It begins with the accepted connection, and a busy machine may need seconds until the request below.
    configuration.limits.firstWords = .seconds(6)
    let listener = listener(configuration, holder, handler: handler)
    try await listener.start()
    let port = try #require(listener.port)
    let connection = try await RawClient(port: port).open()
    // It is accepted when another one is answered, as both are on one loop.
    #expect(try await RawClient(port: port).request("GET", "/callback?first").status == 200)
    async let ended: Void = end(listener)
    try await connection.write("GET /callback?second HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n")
    #expect(try await connection.response().status == 200)
    await ended
    #expect(handler.urls.count == 2)
  }

  private func end(_ listener: CallbackListener) async {
    await listener.standBack()
    await listener.stop()
  }

  @Test("Without held sockets, a listener serves until it stops")
  func notHeld() async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { listener, client async throws in
      await listener.standBack()
      #expect(try await client.request("GET", "/callback").status == 200)
    }
  }

  @Test("Nothing stays held of a port that is taken on one family")
  func half() async throws {
    let other = try await ListenerTests.squat("::1")
    let taken = try #require(other.localAddress?.port)
    let holder = SocketHolder()
    let alone = listener(.init(port: taken, ipv6: false), holder)
    try await alone.start()
    await alone.stop()
    #expect(holder.names == ["\(taken)-v4"])
    let both = listener(.init(port: taken), holder)
    await #expect(throws: CallbackListenerError.portTaken(port: taken, address: "::1")) { try await both.start() }
    #expect(holder.names.isEmpty)
    try await other.close().get()
  }

  @Test("A socket held under a wrong name is not served")
  func wrong() async throws {
    let stranger = try await ListenerTests.squat("127.0.0.1")
    let port = try #require(stranger.localAddress?.port)
    let holder = SocketHolder()
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #expect(holder.keep(descriptor, "\(port)-v6"))
    close(descriptor)
    try await stranger.close().get()
    let mine = listener(.init(port: port), holder)
    try await mine.start()
    #expect(try await RawClient(host: "::1", port: port).request("GET", "/callback").status == 200)
    await mine.retire()
  }
}
