import BrokerAPI
import Foundation
import Glibc
import Logging
import NIOCore
import NIOPosix
import Principals
import Synchronization
import TestSupport
import Testing

@testable import UnixSocket

/// A server at a path in a folder of its own, and the broker behind it.
struct Served: Sendable {
  let path: String
  let dispatcher: ScriptedDispatcher
  let server: SocketServer

  /// For the credentials' socket.
  static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

  static func with(
    _ change: (inout SocketServer.Limits) -> Void = { _ in }, mode: UInt32 = 0o600,
    system: SystemCalls = SystemCalls(), _ body: (Served) async throws -> Void
  ) async throws {
    var limits = SocketServer.Limits()
    change(&limits)
    try await inFolder { folder in
      let path = folder + "/s.sock"
      let dispatcher = ScriptedDispatcher()
      let configuration = SocketServer.Configuration(endpoint: .path(path), mode: mode, limits: limits)
      let server = Self.server(configuration, dispatcher, system)
      try await server.start()
      do {
        try await body(Served(path: path, dispatcher: dispatcher, server: server))
      } catch {
        await server.drain(deadline: .zero)
        throw error
      }
      await server.drain(deadline: .zero)
      dispatcher.gate.open()
    }
  }

  static func server(
    _ endpoint: SocketServer.Configuration.Endpoint, _ dispatcher: ScriptedDispatcher = ScriptedDispatcher(),
    mode: UInt32 = 0o600, limits: SocketServer.Limits = SocketServer.Limits()
  ) -> SocketServer {
    server(SocketServer.Configuration(endpoint: endpoint, mode: mode, limits: limits), dispatcher)
  }

  static func server(
    _ configuration: SocketServer.Configuration, _ dispatcher: ScriptedDispatcher = ScriptedDispatcher(),
    _ system: SystemCalls = SystemCalls()
  ) -> SocketServer {
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    return SocketServer(configuration: configuration, dispatcher: dispatcher, logger: logger, system: system)
  }

  static func inFolder(_ body: (String) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("us-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await body(folder.path)
  }

  func client() throws -> RawClient { try RawClient(path) }

  /// One that has asked for events, and its session.
  func subscriber() async throws -> (RawClient, any Session) {
    let client = try client()
    try await client.send(call(1, "subscribe"))
    _ = try await client.line()
    return (client, dispatcher.seen.withLock { $0.sessions[0] })
  }

  /// Serves this one a request: afterwards all earlier work for others is done, since all are on one loop.
  func turn(for client: RawClient) async throws {
    try await client.send(tokenGet(1))
    #expect(try await client.json()["id"] == 1)
  }
}

extension SocketServer {
  private final class Hold: Sendable {
    let isHeld = Atomic(false)
    let released = DispatchSemaphore(value: 0)
  }

  /// Nothing is served while `body` runs.
  func holdingUp(_ body: () throws -> Void) async throws {
    let hold = Hold()
    let repetition = repeating(every: .seconds(3600)) {
      hold.isHeld.store(true, ordering: .relaxed)
      hold.released.wait()
    }
    defer {
      repetition.cancel()
      hold.released.signal()
    }
    try await eventually("the loop is held up") { hold.isHeld.load(ordering: .relaxed) }
    try body()
  }
}

/// The same numbers in every run.
struct Seeded: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

func call(_ id: Int, _ method: String, _ params: String? = nil) -> String {
  #"{"jsonrpc":"2.0","id":\#(id),"method":"\#(method)"\#(params.map { #","params":\#($0)"# } ?? "")}"# + "\n"
}

func tokenGet(_ id: Int, _ account: String = "alice") -> String {
  call(id, "token.get", #"{"account":"\#(account)"}"#)
}
