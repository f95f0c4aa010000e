import BrokerAPI
import Dispatch
import Glibc
import GrantdConfiguration
import Grants
import Listening
import Logging
import OAuth
import Providers
import Synchronization
import TestSupport
import Testing

@testable import Broker
@testable import grantd

/// The callback listeners over the reloads of the configuration. The kernel chooses all ports.
@Suite(.timeLimit(.minutes(5))) struct CallbackServingTests {
  private let sockets = KeptSockets()
  private let retries = Retries()
  private let lines = LoggedLines()

  private func serving() -> CallbackServing {
    CallbackServing(keeper: sockets.keeper, logger: lines.logger(), planRetry: retries.plan)
  }

  private func broker() async throws -> Broker { try await Broker.started(logger: lines.logger()) }

  /// Each redirect URI is a provider's, in order.
  private func settings(
    _ redirects: [String] = [], _ change: (inout Settings.CallbackSettings) -> Void = { _ in }
  ) throws -> Settings {
    var settings = Settings()
    // The machine may lack the other family.
    settings.callback.ipv6 = false
    change(&settings.callback)
    for (number, redirect) in redirects.enumerated() {
      let name = try #require(ProviderName(rawValue: "p\(number)"))
      var provider = ProviderSettings(name: name, kind: .oauth2, displayName: "P", clientID: "c")
      provider.client.redirect = .fixed(try RedirectURI(redirect))
      settings.providers.append(provider)
    }
    return settings
  }

  private func uri(_ port: Int, _ path: String = "/callback") -> String { "http://127.0.0.1:\(port)\(path)" }

  @Test("the main listener and its port survive a reload, which changes its paths; [callback] waits for a restart")
  func kept() async throws {
    let (serving, broker) = (serving(), try await broker())
    try await serving.open(settings(), broker: broker, preferredPort: nil)
    let port = try #require(await broker.clients.addresses.port)
    #expect(sockets.calls == ["keep \(port)-v4"])
    #expect(await Self.status(of: "/return", port: port) == 404)
    let warnings = try await serving.update(
      settings([uri(port, "/return")]) { $0.publicOrigin = "https://broker.example.com" })
    #expect(warnings == ["[callback] changes with the next restart"])
    #expect(await serving.publicOrigin == nil)
    #expect(await broker.clients.addresses.port == port)
    // A redirect URI on the main port needs no other listener.
    #expect(sockets.calls == ["keep \(port)-v4"])
    #expect(await broker.clients.addresses.fixedPorts.isEmpty)
    #expect(await Self.status(of: "/return", port: port) != 404)
    await serving.close()
  }

  @Test("the main listener has the port of the previous run if it is free")
  func preferred() async throws {
    let (serving, broker, earlier) = (serving(), try await broker(), try BoundSocket())
    sockets.handOver(earlier)
    try await serving.open(settings(), broker: broker, preferredPort: earlier.port)
    #expect(await broker.clients.addresses.port == earlier.port)
    await serving.close()
  }

  @Test("a disabled endpoint listens only after a reload that enables it")
  func disabled() async throws {
    let (serving, broker) = (serving(), try await broker())
    try await serving.open(settings { $0.enabled = false }, broker: broker, preferredPort: nil)
    #expect(sockets.calls.isEmpty)
    #expect(await broker.clients.addresses.port == nil)
    #expect(try await serving.update(settings()) == [])
    let port = try #require(await broker.clients.addresses.port)
    #expect(sockets.calls == ["keep \(port)-v4"])
    await serving.close()
  }

  @Test("a port of a redirect URI has a listener as long as a provider has the URI")
  func fixed() async throws {
    let (serving, broker) = (serving(), try await broker())
    let (one, two) = (try BoundSocket(), try BoundSocket())
    for socket in [one, two] { sockets.handOver(socket) }
    try await serving.open(settings([uri(one.port)]), broker: broker, preferredPort: nil)
    let main = try #require(await broker.clients.addresses.port)
    var calls = ["keep \(main)-v4", "keep \(one.port)-v4"]
    #expect(sockets.calls == calls)
    #expect(await broker.clients.addresses.fixedPorts == [one.port])
    // An unchanged port keeps its listener.
    #expect(try await serving.update(settings([uri(one.port, "/other")])) == [])
    #expect(sockets.calls == calls)
    #expect(await Self.status(of: "/other", port: one.port) != 404)
    #expect(try await serving.update(settings([uri(two.port)])) == [])
    calls += ["remove \(one.port)-v4", "keep \(two.port)-v4"]
    #expect(sockets.calls == calls)
    #expect(await broker.clients.addresses.fixedPorts == [two.port])
    #expect(await broker.clients.addresses.port == main)
    #expect(try await serving.update(settings()) == [])
    #expect(sockets.calls == calls + ["remove \(two.port)-v4"])
    #expect(await broker.clients.addresses.fixedPorts.isEmpty)
    #expect(retries.pauses.isEmpty)
    await serving.close()
  }

  @Test("a port that is in use is reported and tried again, while the main listener serves")
  func taken() async throws {
    let (serving, broker, other) = (serving(), try await broker(), try BoundSocket())
    let problem = "the callback port \(other.port) is taken on 127.0.0.1"
    try await serving.open(settings([uri(other.port)]), broker: broker, preferredPort: nil)
    #expect(await broker.clients.addresses.port != nil)
    #expect(await broker.clients.addresses.fixedPorts.isEmpty)
    let failures = await broker.clients.addresses.failures
    #expect(failures.map(\.state) == ["failed"] && failures.map(\.address) == ["port \(other.port)"])
    #expect(failures.first?.message?.hasPrefix(problem) == true)
    #expect(failures.first?.hint?.contains("every 30 s") == true)
    #expect(lines.all.filter { $0.level == .error && $0.text.hasPrefix(problem) }.count == 1)
    #expect(retries.pauses == [.seconds(30)])
    // A reload returns it, and replaces the planned attempt.
    let warnings = try await serving.update(settings([uri(other.port)]))
    #expect(warnings.count == 1 && warnings.allSatisfy { $0.hasPrefix(problem) })
    #expect(retries.pauses.count == 2 && retries.areCancelled == [true, false])
    sockets.handOver(other)
    await retries.attempt()
    #expect(await broker.clients.addresses.fixedPorts == [other.port])
    #expect(await broker.clients.addresses.failures.isEmpty)
    #expect(retries.pauses.count == 2 && retries.areCancelled == [true, true])
    await serving.close()
  }

  @Test("updates at once open one listener for a port")
  func atOnce() async throws {
    let (serving, broker, socket) = (serving(), try await broker(), try BoundSocket())
    sockets.handOver(socket)
    try await serving.open(settings { $0.enabled = false }, broker: broker, preferredPort: nil)
    let new = try settings([uri(socket.port)])
    async let first = serving.update(new)
    async let second = serving.update(new)
    let warnings = await [first, second]
    #expect(warnings == [[], []])
    let main = try #require(await broker.clients.addresses.port)
    #expect(sockets.calls == ["keep \(main)-v4", "keep \(socket.port)-v4"])
    await serving.close()
  }

  @Test("from the beginning of the end nothing is opened, and sockets stay for the next process")
  func ended() async throws {
    let (serving, broker, other, free) = (serving(), try await broker(), try BoundSocket(), try BoundSocket())
    try await serving.open(settings([uri(other.port)]), broker: broker, preferredPort: nil)
    let main = try #require(await broker.clients.addresses.port)
    #expect(retries.areCancelled == [false])
    await serving.standBack()
    #expect(retries.areCancelled == [true])
    for socket in [other, free] { sockets.handOver(socket) }
    #expect(try await serving.update(settings([uri(free.port)])) == [])
    await retries.attempt()
    await serving.close()
    #expect(sockets.calls == ["keep \(main)-v4"])
  }

  /// The status of an answer on the port; nil: none.
  private static func status(of path: String, port: Int) async -> Int? {
    await withCheckedContinuation { continuation in
      // The answer may need all threads of tasks.
      DispatchQueue.global().async { continuation.resume(returning: Self.blockingStatus(of: path, port: port)) }
    }
  }

  private static func blockingStatus(of path: String, port: Int) -> Int? {
    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(client) }
    var limit = timeval(tv_sec: 60 * slowness, tv_usec: 0)
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    var address = BoundSocket.loopback(port)
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(client, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    let request = Array("GET \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n".utf8)
    guard code == 0, send(client, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
      return nil
    }
    var answer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1024)
    // "HTTP/1.1 404"
    while answer.count < 12 {
      let count = recv(client, &chunk, chunk.count, 0)
      guard count > 0 else { return nil }
      answer += chunk[..<count]
    }
    return Int(String(decoding: answer[9..<12], as: UTF8.self))
  }
}

/// A socket that listens on a port that the kernel chose.
private final class BoundSocket: Sendable {
  let descriptor: Int32
  let port: Int

  init() throws {
    let opened = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = BoundSocket.loopback(0)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isListening = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(opened, $0, length) == 0 && listen(opened, 8) == 0 && getsockname(opened, $0, &length) == 0
      }
    }
    try #require(isListening)
    descriptor = opened
    port = Int(UInt16(bigEndian: address.sin_port))
  }

  deinit { close(descriptor) }

  static func loopback(_ port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr = in_addr(s_addr: in_addr_t(0x7f00_0001).bigEndian)
    return address
  }
}

/// Holds sockets as the service manager does, and records the calls of listeners.
private final class KeptSockets: Sendable {
  private let holder = SocketHolder()
  private let recorded = Mutex<[String]>([])
  var calls: [String] { recorded.withLock { $0 } }

  /// A listener for the port gets this socket, so that no other program can have the port before it.
  func handOver(_ socket: BoundSocket) { _ = holder.keep(socket.descriptor, "\(socket.port)-v4") }

  var keeper: SocketKeeper {
    SocketKeeper(
      earlier: { [self] name in holder.earlier(name) },
      keep: { [self] descriptor, name in
        recorded.withLock { $0.append("keep \(name)") }
        return holder.keep(descriptor, name)
      },
      remove: { [self] name in
        recorded.withLock { $0.append("remove \(name)") }
        holder.remove(name)
      })
  }
}

/// The planned attempts, which only the test begins.
private final class Retries: Sendable {
  private struct Planned {
    var pause: Duration
    var attempt: @Sendable () async -> Void
    /// Ends only when it is cancelled.
    var task: Task<Void, Never>
  }

  private let planned = Mutex<[Planned]>([])
  var pauses: [Duration] { planned.withLock { $0.map(\.pause) } }
  var areCancelled: [Bool] { planned.withLock { $0.map(\.task.isCancelled) } }

  var plan: CallbackServing.Retry {
    { [self] pause, attempt in
      let (ends, end) = AsyncStream.makeStream(of: Void.self)
      let task = Task {
        for await _ in ends {}
        end.finish()
      }
      planned.withLock { $0.append(Planned(pause: pause, attempt: attempt, task: task)) }
      return task
    }
  }

  /// Makes the latest planned attempt.
  func attempt() async {
    let attempt = planned.withLock { $0.last?.attempt }
    await attempt?()
  }
}
