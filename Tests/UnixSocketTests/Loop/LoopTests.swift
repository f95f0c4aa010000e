import BrokerAPI
import CLinux
import Foundation
import Glibc
import Listening
import NIOCore
import Principals
import Synchronization
import TestSupport
import Testing

@testable import UnixSocket

/// The loop where the system has no descriptor left, where numbers of descriptors come back, and between its clients.
@Suite(.timeLimit(.minutes(5))) struct LoopTests {
  /// accept4(2), with failures in between.
  private final class Accepting: Sendable {
    struct State {
      var calls = 0
      var failure: Int32?
      var sockets: [Int32] = []
    }
    let state: Mutex<State>
    /// The least number that a connection gets; nil: as it comes.
    private let least: Int32?

    init(failing code: Int32? = nil, least: Int32? = nil) {
      state = Mutex(State(failure: code))
      self.least = least
    }

    var calls: Int { state.withLock { $0.calls } }
    var sockets: [Int32] { state.withLock { $0.sockets } }
    func succeed() { state.withLock { $0.failure = nil } }
    func fail(_ code: Int32) { state.withLock { $0.failure = code } }

    @Sendable func accept(
      _ listener: Int32, _ address: UnsafeMutablePointer<sockaddr_un>, _ length: UnsafeMutablePointer<UInt32>
    ) -> Int32 {
      let failure = state.withLock { state in
        state.calls += 1
        return state.failure
      }
      if let failure {
        errno = failure
        return -1
      }
      var socket = clinux_accept(listener, address, length)
      if let least, socket >= 0 {
        let moved = fcntl(socket, F_DUPFD_CLOEXEC, least)
        close(socket)
        socket = moved
      }
      if socket >= 0 { state.withLock { $0.sockets.append(socket) } }
      return socket
    }
  }

  private func with(
    _ accepting: Accepting, _ dispatcher: any Dispatcher = ScriptedDispatcher(), _ log: LoggedLines = LoggedLines(),
    limits: SocketServer.Limits = SocketServer.Limits(), _ body: (String, SocketServer) async throws -> Void
  ) async throws {
    try await Served.inFolder { folder in
      let server = SocketServer(
        configuration: .init(endpoint: .path(folder + "/s.sock"), limits: limits), dispatcher: dispatcher,
        logger: log.logger(), system: SystemCalls(accept: accepting.accept))
      try await server.start()
      do {
        try await body(folder + "/s.sock", server)
      } catch {
        await server.drain(deadline: .zero)
        throw error
      }
      await server.drain(deadline: .zero)
    }
  }

  @Test(
    "without descriptors new clients wait, the log reports it once, and the processor is idle",
    arguments: [EMFILE, ENFILE, ENOMEM])
  func exhausted(code: Int32) async throws {
    let (accepting, log) = (Accepting(), LoggedLines())
    try await with(accepting, ScriptedDispatcher(), log) { path, server in
      let first = try RawClient(path)
      try await first.send(tokenGet(1))
      #expect(try await first.json()["id"] == 1)
      accepting.fail(code)
      let (before, begun) = (accepting.calls, NIODeadline.now())
      let waiting = try RawClient(path)
      try await waiting.send(tokenGet(2))
      try await eventually("it was tried again") { accepting.calls >= before + 3 }
      // Connected clients are served during this time.
      try await first.send(tokenGet(3))
      #expect(try await first.json()["id"] == 3)
      // Counted before the time is read: there may be a pause between the two.
      let (calls, lines) = (accepting.calls - before, log.all)
      let elapsed = NIODeadline.now() - begun
      #expect(calls <= 1 + Int(elapsed.nanoseconds / AcceptPace.pause.nanoseconds))
      #expect((1...1 + Int(elapsed.nanoseconds / Refusals.pause.nanoseconds)).contains(lines.count))
      #expect(lines.first?.text.contains(String(cString: strerror(code))) == true)
      accepting.succeed()
      #expect(try await waiting.json()["id"] == 2)
    }
  }

  @Test("connections leave descriptors to the rest of the process: the next ones wait, and the log reports it")
  func keptBack() async throws {
    let last = SocketServer.descriptorLimit - SocketServer.keptBackDescriptors
    let (accepting, log) = (Accepting(least: Int32(clamping: last)), LoggedLines())
    try await with(accepting, ScriptedDispatcher(), log) { path, server in
      let clients = try (0..<4).map { _ in try RawClient(path) }
      let begun = NIODeadline.now()
      for (number, client) in clients.enumerated() {
        try await client.send(tokenGet(number))
        #expect(try await client.json()["id"] == .integer(number))
      }
      // One for each pause.
      #expect(NIODeadline.now() - begun >= AcceptPace.pause * 3)
      #expect(log.all.first?.text.contains(String(cString: strerror(EMFILE))) == true)
    }
  }

  @Test("if few descriptors are left, root and the broker's own user get them, and others are refused")
  func reserved() async throws {
    let last = SocketServer.descriptorLimit - SocketServer.keptBackDescriptors
    let accepting = Accepting(least: AcceptPace(lastDescriptor: Int32(clamping: last)).lastOfUsers)
    let users = Users()
    var system = users.system
    system.accept = accepting.accept
    try await Served.with(system: system) { served in
      let told = try await users.client(1000, served).linesToEnd()
      #expect(told.count == 1 && told[0].contains("file descriptors are reserved"), "\(told)")
      for uid in [0, geteuid()] { try await served.turn(for: try await users.client(uid, served)) }
    }
  }

  @Test("a client that gave up before it was accepted is no reason to pause") func aborted() async throws {
    let accepting = Accepting(failing: ECONNABORTED)
    try await with(accepting) { path, _ in
      let client = try RawClient(path)
      try await client.send(tokenGet(1))
      try await eventually("it was tried more often than a pause lets it") { accepting.calls > 1000 }
      accepting.succeed()
      #expect(try await client.json()["id"] == 1)
    }
  }

  @Test("a late event of a closed connection is not taken for its number's next connection")
  func reused() async throws {
    var most = rlimit()
    try #require(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &most) == 0)
    // Numbers that no other test uses.
    let least = Int32(min(most.rlim_cur, 20_000)) - 100
    let (accepting, dispatcher) = (Accepting(least: least), ScriptedDispatcher())
    var limits = SocketServer.Limits()
    limits.requestsInFlight = 1
    try await with(accepting, dispatcher, limits: limits) { path, server in
      var first: RawClient? = try RawClient(path)
      try await first?.send(tokenGet(1))
      _ = try await first?.line()
      let socket = try #require(accepting.sockets.first)
      // As a child process has it while it is being started: the connection lives on, with its hang-up.
      let copy = fcntl(socket, F_DUPFD_CLOEXEC, least + 50)
      defer { close(copy) }
      first = nil
      try await eventually("the first is closed") { server.connectionCount == 0 }
      // It gets the number, and is not read while it waits.
      let second = try RawClient(path)
      try await second.send(call(1, "wait"))
      try await eventually("it is asked for") { dispatcher.seen.withLock { $0.running } == 1 }
      try #require(accepting.sockets == [socket, socket])
      let other = try RawClient(path)
      try await other.send(tokenGet(3))
      #expect(try await other.json()["id"] == 3)
      #expect(server.connectionCount == 2)
      dispatcher.gate.open()
      #expect(try await second.json()["result"] == "waited")
    }
  }

  @Test("the end of a client is reported while its requests run, read or not", arguments: [1, 64])
  func hungUp(requestsInFlight: Int) async throws {
    try await Served.with({ $0.requestsInFlight = requestsInFlight }) { served in
      var client: RawClient? = try served.client()
      try await client?.send(call(1, "subscribe"))
      _ = try await client?.line()
      try await client?.send(call(2, "wait"))
      try await eventually("it runs") { served.dispatcher.seen.withLock { $0.running } == 1 }
      client = nil
      try await eventually("the end is reported") { served.dispatcher.seen.withLock { $0.closed } == 1 }
      #expect(served.dispatcher.seen.withLock { $0.running } == 1)
    }
  }

  /// Records the answered callers, and blocks the loop on request.
  private final class Order: Dispatcher {
    struct State {
      var accounts: [String] = []
      var isHeld = false
    }
    let state = Mutex(State())
    let released = DispatchSemaphore(value: 0)

    private final class Tokens: CachedTokens {
      let order: Order
      let body = CachedReply.Body(head: Array(#"{"a":1}"#.utf8), tail: [])
      init(_ order: Order) { self.order = order }

      func reply(account: UnsafeRawBufferPointer, minTTL: Int64?, scopes: UnsafeRawBufferPointer?) -> CachedReply? {
        let name = String(decoding: account, as: UTF8.self)
        order.state.withLock { $0.accounts.append(name) }
        if name == "hold" {
          order.state.withLock { $0.isHeld = true }
          order.released.wait()
        }
        return CachedReply(body: body, expiresIn: nil)
      }
    }

    func callerClass(of principal: Principal) -> CallerClass { .named }

    func cachedTokens(for principal: Principal) -> any CachedTokens { Tokens(self) }

    func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError> { .success(.null) }
  }

  @Test("a client that has sent very much is answered so much at a time, and then the others")
  func fair() async throws {
    let order = Order()
    try await with(Accepting(), order) { path, server in
      let (holder, greedy, modest) = (try RawClient(path), try RawClient(path), try RawClient(path))
      try await eventually("all are connected") { server.connectionCount == 3 }
      try await holder.send(tokenGet(1, "hold"))
      try await eventually("the loop is held up") { order.state.withLock { $0.isHeld } }
      // As much as the kernel takes, which is more than a turn does.
      let flood = Array((0..<10_000).map { tokenGet($0, "greedy") }.joined().utf8)
      let sent = greedy.sendSome(flood)
      try await modest.send(tokenGet(2, "modest"))
      order.released.signal()
      #expect(try await modest.json()["id"] == 2)
      let lines = flood.prefix(sent).count { $0 == 0x0A }
      try await eventually("all of them are answered") { order.state.withLock { $0.accounts.count } == lines + 2 }
      let before = try #require(order.state.withLock { $0.accounts.firstIndex(of: "modest") })
      #expect(lines > 1000 && before < lines)
      #expect(before <= 1 + LineTurn.most)
    }
  }

  @Test("empty lines are taken in limited numbers, and the rest without more input")
  func blankLines() async throws {
    let order = Order()
    try await with(Accepting(), order) { path, server in
      let (greedy, modest) = (try RawClient(path), try RawClient(path))
      try await eventually("both are connected") { server.connectionCount == 2 }
      let blank = String(repeating: "\n", count: 20_000)
      try await server.holdingUp {
        try #require(greedy.sendSome(Array((blank + tokenGet(1, "greedy")).utf8)) > blank.utf8.count)
        try #require(modest.sendSome(Array(tokenGet(2, "modest").utf8)) > 0)
      }
      #expect(try await greedy.json()["id"] == 1)
      #expect(order.state.withLock { $0.accounts } == ["modest", "greedy"])
    }
  }

  @Test("the more connections are ready, the less is taken of one in a turn") func manyReady() async throws {
    let order = Order()
    try await with(Accepting(), order) { path, server in
      let clients = try (0..<32).map { _ in try RawClient(path) }
      try await eventually("all are connected") { server.connectionCount == clients.count }
      try await server.holdingUp {
        for (number, client) in clients.enumerated() {
          _ = client.sendSome(Array((0..<300).map { tokenGet($0, "c\(number)") }.joined().utf8))
        }
      }
      try await eventually("all was answered") { order.state.withLock { $0.accounts.count } == 300 * clients.count }
      let before = order.state.withLock { $0.accounts.firstIndex(of: "c31") ?? 0 }
      let inATurn = LoopBuffers.leastReceived / tokenGet(0, "c0").utf8.count + 1
      #expect(before <= 31 * inATurn)
    }
  }

  @Test("a server released without a drain ends its connections") func letGo() async throws {
    try await Served.inFolder { folder in
      let client: RawClient
      do {
        let server = Served.server(.path(folder + "/s.sock"))
        try await server.start()
        client = try RawClient(folder + "/s.sock")
        try await client.send(tokenGet(1))
        #expect(try await client.json()["id"] == 1)
      }
      #expect(try await client.linesToEnd() == [])
    }
  }

  @Test("a repeated action runs on the loop until it is cancelled") func repeated() async throws {
    try await Served.with { served in
      let runs = Mutex(0)
      let names = Mutex<Set<String>>([])
      let repetition = served.server.repeating(every: .milliseconds(5)) {
        let name = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
        names.withLock { _ = $0.insert(name ?? "") }
        runs.withLock { $0 += 1 }
      }
      try await eventually("it runs again and again") { runs.withLock { $0 } >= 5 }
      #expect(names.withLock { $0 } == ["socket\n"])
      repetition.cancel()
      let client = try served.client()
      try await served.turn(for: client)
      let last = runs.withLock { $0 }
      for _ in 0..<20 {
        try await served.turn(for: client)
        try await Task.sleep(for: .milliseconds(2))
      }
      #expect(runs.withLock { $0 } == last)
    }
  }

  @Test("timers run in their order, once or again and again, and not when they are cancelled") func timers() {
    func at(_ milliseconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .milliseconds(milliseconds) }
    var timers = Timers()
    #expect(timers.earliest == nil && timers.popDue(at: at(1000)).isEmpty)
    timers.add(at: at(30)) { _ in }
    let cancelled = timers.add(at: at(10)) { _ in }
    timers.add(at: at(20), every: .milliseconds(20)) { _ in }
    #expect(timers.earliest == at(10))
    #expect(timers.popDue(at: at(9)).isEmpty)
    timers.cancel(cancelled)
    #expect(timers.popDue(at: at(10)).isEmpty && timers.earliest == at(20))
    #expect(timers.popDue(at: at(25)).count == 1 && timers.earliest == at(30))
    #expect(timers.popDue(at: at(50)).count == 2 && timers.earliest == at(70))
    timers.cancelAll()
    #expect(timers.earliest == nil && timers.popDue(at: at(1000)).isEmpty)
  }
}
