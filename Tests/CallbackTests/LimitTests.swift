import Broker
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import Callback

@Suite struct LimitTests {
  static let quick: CallbackListener.Limits = {
    var limits = CallbackListener.Limits()
    // A busy machine may need more to send its request: `sendInTime`.
    limits.request = .seconds(1)
    limits.linger = .milliseconds(300)
    return limits
  }()

  /// A client has a minute for its request, even if others wait for its connection's slot: here it is late only if this
  /// machine is busy.
  static let patient: CallbackListener.Limits = {
    var limits = CallbackListener.Limits()
    limits.request = .seconds(60)
    limits.firstWords = .seconds(60)
    limits.unhurried = .seconds(60)
    return limits
  }()

  struct Size: Sendable, CustomTestStringConvertible {
    var name: String
    var target = "/callback?a"
    var headers: [String] = []
    var status: Int

    var testDescription: String { name }
  }

  static let sizes: [Size] = [
    Size(name: "a line that just fits", target: long(16 * 1024 - 15), status: 200),
    Size(name: "a line that is one too long", target: long(16 * 1024 - 14), status: 414),
    Size(name: "a huge line", target: long(4 * 1024 * 1024), status: 414),
    Size(name: "headers that fit", headers: ["A: \(String(repeating: "a", count: 30_000))"], status: 200),
    Size(name: "a header too large", headers: ["A: \(String(repeating: "a", count: 33_000))"], status: 431),
    Size(
      name: "headers too large in all", headers: (0..<40).map { "A\($0): \(String(repeating: "a", count: 1000))" },
      status: 431),
    Size(name: "100 headers", headers: (0..<99).map { "A\($0): a" }, status: 200),
    Size(name: "101 headers", headers: (0..<100).map { "A\($0): a" }, status: 431),
    Size(name: "2,000 headers", headers: (0..<2000).map { "A\($0): a" }, status: 431),
  ]

  static func long(_ length: Int) -> String {
    let start = "/callback?"
    return start + String(repeating: "a", count: length - start.utf8.count)
  }

  @Test("A request line has 16 KiB and headers 32 KiB or 100", arguments: sizes)
  func size(_ test: Size) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.request("GET", test.target, headers: test.headers)
      // A huge request is cut while it is sent, which may take the page away.
      #expect(response.status == test.status || (test.target.utf8.count > 1_000_000 && response.raw.isEmpty))
      #expect(handler.urls.count == (test.status == 200 ? 1 : 0))
      #expect(try await client.request("GET", "/callback").status == 200)
    }
  }

  @Test(
    "A body is not waited for, and dropped",
    arguments: [
      ("GET", 10, 200), ("GET", 60_000, 200), ("POST", 10, 403), ("POST", 60_000, 403),
    ])
  func body(method: String, length: Int, status: Int) async throws {
    try await withListener { _, client async throws in
      let body = String(repeating: "b", count: length)
      let headers = ["Content-Length: \(length + 1)"]
      let response = try await client.request(method, "/callback", headers: headers, body: body)
      #expect(response.status == status)
    }
  }

  @Test(
    "A request that does not end in time is answered 408, and an idle connection is closed silently",
    arguments: [
      ("GET /callback?code=1 HTTP/1.1\r\nHost: 127", 408), ("G", 408), ("", 0),
    ])
  func partial(text: String, status: Int) async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = Self.quick
    let handler = ScriptedHandler()
    try await withListener(configuration, handler: handler) { _, client async throws in
      let response = try await text.isEmpty ? client.send(text) : client.sendInTime(text)
      #expect(response.status == status)
      #expect(handler.urls.isEmpty)
    }
  }

  @Test("A byte now and then does not put the end off")
  func slowloris() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = Self.quick
    try await withListener(configuration) { _, client async throws in
      // The 101st header comes after 20 s, and would be too many.
      let response = try await client.drip(
        "GET /callback HTTP/1.1\r\n", piece: "A: b\r\n", every: .milliseconds(200))
      #expect(response.status == 408)
    }
  }

  @Test("A client that does not close is cut after its answer")
  func lingering() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = Self.patient
    configuration.limits.linger = Self.quick.linger
    configuration.limits.connections = 2
    try await withListener(configuration) { _, client async throws in
      // More than may be open; each keeps its side open after the answer.
      var connections: [RawClient.Connection] = []
      for _ in 0..<6 {
        let connection = try await client.open(staysOpen: true)
        try await connection.write("GET /x HTTP/1.1\r\nHost: 127.0.0.1:\(client.port)\r\n\r\n")
        #expect(try await connection.response().status == 404)
        connections.append(connection)
      }
      for connection in connections { await connection.close() }
    }
  }

  @Test("100 browsers at once are all answered although 64 may be open", arguments: [64, 2])
  func concurrent(limit: Int) async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = Self.patient
    configuration.limits.connections = limit
    let handler = ScriptedHandler()
    try await withListener(configuration, handler: handler) { _, client async throws in
      try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 0..<100 {
          let client = RawClient(host: number % 2 == 0 ? "127.0.0.1" : "::1", port: client.port)
          group.addTask { try await client.request("GET", "/callback?n=\(number)").status }
        }
        for try await status in group { #expect(status == 200) }
      }
      #expect(Set(handler.urls).count == 100)
    }
  }

  @Test("Connections over the limit wait until one ends")
  func connections() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = Self.patient
    configuration.limits.connections = 3
    configuration.limits.waiting = 5
    configuration.ipv6 = false
    let (users, handler) = (Users(), ScriptedHandler(holds: true))
    try await withListener(configuration, handler: handler, users: users.lookup) { _, client async throws in
      try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 0..<8 { group.addTask { try await client.request("GET", "/callback?n=\(number)").status } }
        // All are accepted, and those with a slot have asked.
        try await users.asked(8)
        await handler.asked(3)
        // It is one too many: the server counts three that are open and five that wait.
        #expect(try await client.request("GET", "/callback?n=8").status == 0)
        #expect(handler.urls.count == 3)
        handler.letGo()
        for try await status in group { #expect(status == 200) }
      }
      #expect(handler.urls.count == 8)
    }
  }

  @Test(
    "A browser that ends its side while its connection waits for a place is answered; one that leaves waits no longer")
  func halfClosed() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = Self.patient
    configuration.limits.connections = 2
    configuration.limits.waiting = 8
    configuration.ipv6 = false
    let handler = ScriptedHandler(holds: true)
    try await withListener(configuration, handler: handler) { _, client async throws in
      try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 0..<2 { group.addTask { try await client.request("GET", "/callback?n=\(number)").status } }
        await handler.asked(2)
        for _ in 0..<50 { await (try await client.open()).close() }
        let attempt = Attempt()
        group.addTask {
          let head = "GET /callback?n=2 HTTP/1.1\r\nHost: 127.0.0.1:\(client.port)\r\n\r\n"
          // It is closed as long as the server has not noticed the ends of those before it. Were these never forgotten,
          // it would be closed each time: the latest of too many that wait.
          for _ in 0..<200 {
            attempt.begun.withLock { $0 = .now }
            let status = try await client.send(head, endOutput: true).status
            if status != 0 { return status }
            try await Task.sleep(for: .milliseconds(50))
          }
          return 0
        }
        // It waits.
        #expect(await eventually { attempt.begun.withLock { $0.map { .now - $0 > .seconds(1) } } ?? false })
        handler.letGo()
        for try await status in group { #expect(status == 200) }
      }
      #expect(handler.urls.count == 3)
    }
  }

  private final class Attempt: Sendable {
    let begun = Mutex<ContinuousClock.Instant?>(nil)
  }

  @Test("Idle, silent and slow connections are evicted for waiting browsers")
  func givingWay() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.connections = 2
    configuration.limits.firstWords = .milliseconds(50)
    configuration.limits.unhurried = .milliseconds(100)
    // Without evictions two at a time would be open until then.
    configuration.limits.request = .seconds(60)
    configuration.ipv6 = false
    try await withListener(configuration) { _, client async throws in
      var idle: [RawClient.Connection] = []
      for number in 0..<20 {
        let connection = try await client.open(staysOpen: true)
        // It may have been evicted already.
        if number % 2 == 0 { try? await connection.write("GET /callback HTTP/1.1\r\n") }
        idle.append(connection)
      }
      let began = ContinuousClock.now
      #expect(try await client.request("GET", "/callback?n=1").status == 200)
      #expect(ContinuousClock.now - began < configuration.limits.request)
      for connection in idle { await connection.close() }
    }
  }

  /// The user that each connection is said to be of.
  private final class Users: Sendable {
    /// Without a uid the kernel names no user.
    let state = Mutex((uid: UInt32?(1000), asked: 0))

    var lookup: CallbackListener.PeerUsers {
      CallbackListener.PeerUsers(
        kernel: { [self] _ in
          state.withLock {
            $0.asked += 1
            return $0.uid.map { .user($0) } ?? .nobody
          }
        }, table: { _, _ in .nobody })
    }

    func asked(_ count: Int) async throws {
      try await eventually("it was asked \(count) times") { state.withLock { $0.asked } >= count }
    }
  }

  @Test(
    "A user's connections, of any kind and number, delay no other user's browser",
    arguments: ["", "GET /callback HTTP/1.1\r\n", "GET /x HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n"])
  func users(text: String) async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = Self.patient
    configuration.limits.linger = .seconds(60)
    configuration.limits.connections = 4
    configuration.limits.waiting = 16
    configuration.ipv6 = false
    let users = Users()
    try await withListener(configuration, users: users.lookup) { _, client async throws in
      var crowd: [RawClient.Connection] = []
      for _ in 0..<40 {
        let connection = try await client.open(staysOpen: true)
        try? await connection.write(text.replacing("PORT", with: "\(client.port)"))
        crowd.append(connection)
      }
      try await users.asked(40)
      users.state.withLock { $0.uid = 1001 }
      let began = ContinuousClock.now
      for number in 0..<3 { #expect(try await client.request("GET", "/callback?n=\(number)").status == 200) }
      // Before any of the others would have been late.
      #expect(ContinuousClock.now - began < configuration.limits.firstWords)
      for connection in crowd { await connection.close() }
    }
  }

  /// Two slots, each with a callback of one user that is being handled, and a connection of an unknown user that waits.
  private func withUnknownWaiting(
    _ body: (
      _ client: RawClient, _ users: Users, _ handler: ScriptedHandler, _ callbacks: [Task<Int, any Error>]
    ) async throws -> Void
  ) async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = Self.patient
    configuration.limits.connections = 2
    configuration.ipv6 = false
    let (users, handler) = (Users(), ScriptedHandler(holds: true))
    try await withListener(configuration, handler: handler, users: users.lookup) { _, client async throws in
      let callbacks = (1...2).map { number in
        Task { try await client.request("GET", "/callback?n=\(number)").status }
      }
      await handler.asked(2)
      users.state.withLock { $0.uid = nil }
      let unknown = try await client.open(staysOpen: true)
      try await users.asked(3)
      try await body(client, users, handler, callbacks)
      await unknown.close()
    }
  }

  @Test("A connection of an unknown user, such as one that was closed already, ends no other") func unknownUser()
    async throws
  {
    try await withUnknownWaiting { _, _, handler, callbacks in
      // Ten times as long as a waiting connection ends no other in any case.
      try await Task.sleep(for: .milliseconds(200))
      handler.letGo()
      for callback in callbacks { #expect(try await callback.value == 200) }
    }
  }

  @Test("A waiting connection of an unknown user does not delay another user's browser") func unknownFirst()
    async throws
  {
    try await withUnknownWaiting { client, users, handler, callbacks in
      users.state.withLock { $0.uid = 1001 }
      async let third = client.request("GET", "/callback?n=3")
      // In the slot of one of the first user, who has two.
      await handler.asked(3)
      handler.letGo()
      #expect(try await third.status == 200)
      var statuses: [Int] = []
      for callback in callbacks { statuses.append(try await callback.value) }
      #expect(statuses.sorted() == [0, 200])
    }
  }

  @Test("Handlers of one user leave some to others") func handlersOfUsers() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.handlersPerUser = 1
    configuration.limits.handlers = 2
    let (users, handler) = (Users(), ScriptedHandler(holds: true))
    try await withListener(configuration, handler: handler, users: users.lookup) { _, client async throws in
      async let first = client.request("GET", "/callback?n=1")
      await handler.asked(1)
      #expect(try await client.request("GET", "/callback?n=2").status == 503)
      users.state.withLock { $0.uid = 1001 }
      async let third = client.request("GET", "/callback?n=3")
      await handler.asked(2)
      handler.letGo()
      #expect(try await first.status == 200)
      #expect(try await third.status == 200)
    }
  }

  @Test("More handlers than allowed are not started")
  func handlers() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.handlers = 1
    let handler = ScriptedHandler(holds: true)
    try await withListener(configuration, handler: handler) { _, client async throws in
      async let first = client.request("GET", "/callback?n=1")
      await handler.asked(1)
      let second = try await client.request("GET", "/callback?n=2")
      #expect(second.status == 503)
      #expect(second.headers["retry-after"] == "5")
      handler.letGo()
      #expect(try await first.status == 200)
      #expect(try await client.request("GET", "/callback?n=3").status == 200)
      #expect(handler.urls.count == 2)
    }
  }

  @Test("A handler past its deadline is not cancelled, but the browser is answered")
  func deadline() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.handlerDeadline = .milliseconds(100)
    let handler = ScriptedHandler(holds: true)
    try await withListener(configuration, handler: handler) { _, client async throws in
      let response = try await client.request("GET", "/callback?n=1")
      #expect(response.status == 504)
      handler.letGo()
      // A busy machine may need longer than the deadline for one of them.
      #expect(await eventually { try await client.request("GET", "/callback?n=2").status == 200 })
      #expect(!handler.wasCancelled)
    }
  }

  @Test("A browser that closes the connection cancels nothing")
  func goneAway() async throws {
    let handler = ScriptedHandler(holds: true)
    try await withListener(handler: handler) { _, client async throws in
      let connection = try await client.open()
      try await connection.write("GET /callback?n=1 HTTP/1.1\r\nHost: 127.0.0.1:\(client.port)\r\n\r\n")
      await handler.asked(1)
      await connection.close()
      handler.letGo()
      #expect(try await client.request("GET", "/callback?n=2").status == 200)
      #expect(!handler.wasCancelled)
    }
  }
}
