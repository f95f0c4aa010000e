import Broker
import Callback
import Logging
import NIOCore
import NIOPosix
import Testing

@Suite struct ListenerTests {
  static func listener(
    _ configuration: CallbackListener.Configuration, handler: any CallbackHandler = ScriptedHandler()
  ) -> CallbackListener {
    CallbackListener(
      configuration: configuration, handler: handler, group: MultiThreadedEventLoopGroup.singleton,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }

  /// A foreign socket, on a port that is free in the other family: other tests use many ports.
  static func squat(_ host: String) async throws -> any Channel {
    let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
    for _ in 0..<16 {
      let socket = try await bootstrap.bind(host: host, port: 0).get()
      let port = try #require(socket.localAddress?.port)
      if let probe = try? await bootstrap.bind(host: host == "::1" ? "127.0.0.1" : "::1", port: port).get() {
        try await probe.close().get()
        return socket
      }
      try await socket.close().get()
    }
    throw CallbackListenerError.noCommonPort(attempts: 16)
  }

  @Test("Both families are served on one port", arguments: ["127.0.0.1", "::1"])
  func families(host: String) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { listener, client async throws in
      let port = try #require(listener.port)
      #expect(listener.addresses == ["127.0.0.1:\(port)", "[::1]:\(port)"])
      #expect(listener.warnings.isEmpty)
      #expect(try await RawClient(host: host, port: port).request("GET", "/callback?x").status == 200)
      #expect(handler.urls == ["http://\(host == "::1" ? "[::1]" : host):\(port)/callback?x"])
    }
  }

  @Test(
    "One family alone works, and the other is closed then", arguments: [("127.0.0.1", "::1"), ("::1", "127.0.0.1")])
  func alone(open: String, closed: String) async throws {
    var configuration = CallbackListener.Configuration()
    configuration.ipv4 = open == "127.0.0.1"
    configuration.ipv6 = open == "::1"
    let handler = ScriptedHandler()
    try await withListener(configuration, handler: handler) { listener, client async throws in
      #expect(listener.addresses.count == 1)
      let response = try await RawClient(host: open, port: client.port).request("GET", "/callback")
      #expect(response.status == 200)
      // Another process may have that number there.
      _ = try? await RawClient(host: closed, port: client.port).request("GET", "/callback?foreign")
      #expect(handler.urls.count == 1)
    }
  }

  @Test("17. It listens on nothing but the loopback literals")
  func otherAddresses() async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      _ = try? await RawClient(host: "127.0.0.2", port: client.port)
        .request("GET", "/callback", headers: ["Host: 127.0.0.1:\(client.port)"])
      #expect(handler.urls.isEmpty)
    }
  }

  @Test("The port is kept over a restart, and before the start and after the end there is none")
  func restart() async throws {
    let handler = ScriptedHandler()
    let first = Self.listener(.init(), handler: handler)
    #expect(first.port == nil && first.addresses.isEmpty)
    try await first.start()
    let port = try #require(first.port)
    #expect(try await RawClient(port: port).request("GET", "/callback").status == 200)
    await first.stop()
    #expect(first.port == nil && first.addresses.isEmpty)
    _ = try? await RawClient(port: port).request("GET", "/callback?late")
    #expect(handler.urls.count == 1)
    try await withListener(.init(preferredPort: port)) { second, client async throws in
      #expect(second.port == port)
      #expect(second.warnings.isEmpty)
      #expect(try await client.request("GET", "/callback").status == 200)
    }
  }

  @Test("A preferred port that is taken on either family is replaced", arguments: ["127.0.0.1", "::1"])
  func preferredTaken(host: String) async throws {
    let other = try await Self.squat(host)
    let taken = try #require(other.localAddress?.port)
    try await withListener(.init(preferredPort: taken)) { listener, client async throws in
      #expect(listener.port != taken)
      #expect(listener.addresses.count == 2)
      #expect(listener.warnings.count == 1 && listener.warnings.allSatisfy { $0.contains("\(taken)") })
      #expect(try await client.request("GET", "/callback").status == 200)
    }
    try await other.close().get()
  }

  @Test("A fixed port that is taken on either family is an error that names it", arguments: ["127.0.0.1", "::1"])
  func fixedTaken(host: String) async throws {
    let other = try await Self.squat(host)
    let taken = try #require(other.localAddress?.port)
    let listener = Self.listener(.init(port: taken))
    let error = await #expect(throws: CallbackListenerError.self) { try await listener.start() }
    #expect(error == .portTaken(port: taken, address: host))
    #expect(error?.description.contains("\(taken)") == true)
    #expect(listener.port == nil)
    try await other.close().get()
    // Nothing of the first attempt was left open.
    try await withListener(.init(port: taken)) { listener, _ async throws in #expect(listener.port == taken) }
  }

  @Test("Two listeners cannot have one port")
  func twice() async throws {
    try await withListener { _, client async throws in
      await #expect(throws: CallbackListenerError.portTaken(port: client.port, address: "127.0.0.1")) {
        try await Self.listener(.init(port: client.port)).start()
      }
    }
  }

  @Test(
    "A configuration that cannot work is refused",
    arguments: [
      (CallbackListener.Configuration(ipv4: false, ipv6: false), CallbackListenerError.noAddressFamily),
      (CallbackListener.Configuration(port: 65536), .invalidPort(65536)),
      (CallbackListener.Configuration(port: -1), .invalidPort(-1)),
    ])
  func refused(configuration: CallbackListener.Configuration, error: CallbackListenerError) async {
    await #expect(throws: error) { try await Self.listener(configuration).start() }
  }

  @Test("A listener starts once")
  func once() async throws {
    let listener = Self.listener(.init())
    try await listener.start()
    await #expect(throws: CallbackListenerError.notIdle) { try await listener.start() }
    await listener.stop()
    await listener.stop()
    await #expect(throws: CallbackListenerError.notIdle) { try await listener.start() }
  }

  @Test("The end does not wait for idle connections, but lets a handler answer")
  func stop() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.stop = .seconds(60)
    let handler = ScriptedHandler(holds: true)
    let listener = Self.listener(configuration, handler: handler)
    try await listener.start()
    let client = RawClient(port: try #require(listener.port))
    let idle = try await client.open()
    let partial = try await client.open()
    try await partial.write("GET /call")
    async let busy = client.request("GET", "/callback?x")
    await handler.asked(1)
    async let stopped: Void = listener.stop()
    #expect(try await idle.response().raw.isEmpty)
    #expect(try await partial.response().raw.isEmpty)
    handler.letGo()
    let response = try await busy
    #expect(response.status == 200 && response.body.hasSuffix("</html>\n"))
    await stopped
  }

  @Test("The end does not wait for a handler for ever")
  func stopBounded() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.stop = .milliseconds(100)
    let handler = ScriptedHandler(holds: true)
    let listener = Self.listener(configuration, handler: handler)
    try await listener.start()
    let client = RawClient(port: try #require(listener.port))
    async let busy = client.request("GET", "/callback?x")
    await handler.asked(1)
    await listener.stop()
    #expect(try await busy.raw.isEmpty)
    handler.letGo()
  }
}
