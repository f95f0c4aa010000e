import Callback
import Testing

/// Who waits for a logout token to be looked at, and how many at once.
@Suite struct LogoutHandlerTests {
  @Test("100 providers at once are all answered")
  func concurrent() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = LimitTests.patient
    configuration.limits.logouts = 100
    let handler = ScriptedHandler()
    try await withListener(configuration, handler: handler) { _, client async throws in
      try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 0..<100 {
          let client = RawClient(host: number % 2 == 0 ? "127.0.0.1" : "::1", port: client.port)
          group.addTask { try await client.logOut(at: "/backchannel-logout/p\(number)").status }
        }
        for try await status in group { #expect(status == 200) }
      }
      #expect(Set(handler.logouts.map(\.provider)).count == 100)
    }
  }

  @Test("More logout tokens than allowed are not looked at, and take no sign-in's place")
  func logouts() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.logouts = 1
    let handler = ScriptedHandler(holds: true)
    try await withListener(configuration, handler: handler) { _, client async throws in
      async let first = client.logOut("a=1")
      await handler.asked(1)
      try expectRefusal(try await client.logOut("a=2"), 503)
      async let callback = client.request("GET", "/callback?n=1")
      await handler.asked(2)
      handler.letGo()
      #expect(try await first.status == 200)
      #expect(try await callback.status == 200)
      #expect(try await client.logOut("a=3").status == 200)
      #expect(handler.logouts.map(\.form) == ["a=1", "a=3"])
    }
  }

  @Test("each provider has a share of the slots for logout tokens")
  func providers() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.logoutsPerProvider = 1
    let handler = ScriptedHandler(holds: true)
    try await withListener(configuration, handler: handler) { _, client async throws in
      async let first = client.logOut("a=1")
      await handler.asked(1)
      try expectRefusal(try await client.logOut("a=2"), 503)
      async let other = client.logOut("a=3", at: "/backchannel-logout/other")
      await handler.asked(2)
      handler.letGo()
      #expect(try await first.status == 200)
      #expect(try await other.status == 200)
      #expect(try await client.logOut("a=4").status == 200)
      #expect(handler.logouts.map(\.form).sorted() == ["a=1", "a=3", "a=4"])
    }
  }

  @Test("Sign-ins being completed take no logout's place")
  func handlers() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.handlers = 1
    let handler = ScriptedHandler(holds: true)
    try await withListener(configuration, handler: handler) { _, client async throws in
      async let callback = client.request("GET", "/callback?n=1")
      await handler.asked(1)
      async let logout = client.logOut()
      await handler.asked(2)
      handler.letGo()
      #expect(try await callback.status == 200)
      #expect(try await logout.status == 200)
    }
  }

  @Test("A handler that never answers is not cancelled, but the provider is asked to repeat the request")
  func deadline() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.logoutDeadline = .milliseconds(100)
    configuration.limits.logouts = 2
    let handler = ScriptedHandler(holds: true)
    try await withListener(configuration, handler: handler) { _, client async throws in
      for number in 1...3 { try expectRefusal(try await client.logOut("a=\(number)"), 503) }
      // Abandoned requests are still counted. The deadline may pass before their tasks run.
      await handler.asked(2)
      #expect(handler.logouts.map(\.form).sorted() == ["a=1", "a=2"])
      handler.letGo()
      #expect(!handler.wasCancelled)
    }
  }

  @Test("A provider that closes the connection cancels nothing")
  func goneAway() async throws {
    let handler = ScriptedHandler(holds: true)
    try await withListener(handler: handler) { _, client async throws in
      let connection = try await client.open()
      try await connection.write(RawClient.logoutRequest())
      await handler.asked(1)
      await connection.close()
      handler.letGo()
      #expect(try await client.logOut().status == 200)
      #expect(!handler.wasCancelled)
    }
  }

  @Test("The end does not wait for a form, but lets a handler answer")
  func stop() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.stop = .seconds(60)
    let handler = ScriptedHandler(holds: true)
    let listener = ListenerTests.listener(configuration, handler: handler)
    try await listener.start()
    let client = RawClient(port: try #require(listener.port))
    let partial = try await client.open()
    try await partial.write(RawClient.logoutRequest(headers: ["Expect: 100-continue"]).replacing("a.b.c", with: ""))
    try await partial.received("\r\n\r\n")
    async let busy = client.logOut()
    await handler.asked(1)
    async let stopped: Void = listener.stop()
    #expect(try await partial.response().raw == "HTTP/1.1 100 Continue\r\n\r\n")
    handler.letGo()
    #expect(try await busy.status == 200)
    await stopped
    #expect(handler.logouts.count == 1)
  }
}
