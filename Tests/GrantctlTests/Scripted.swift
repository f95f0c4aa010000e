import ArgumentParser
import BrokerAPI
import Foundation
import Logging
import Principals
import Synchronization
import UnixSocket

@testable import grantctl

/// Swift Testing has a type of that name too.
typealias ExitStatus = grantctl.ExitStatus

/// A terminal that remembers what was written.
final class Recorder: Sendable {
  private struct Seen {
    var out = ""
    var err = ""
    var bytes: [UInt8] = []
    var launched: [[String]] = []
    var asked: [[String]] = []
    var files: [String: String] = [:]
    var failing: Set<String> = []
    var absent: Set<String> = []
    var handlers: [String: String] = [:]
  }

  private let seen = Mutex(Seen())
  private let input = AsyncStream.makeStream(of: String.self)
  private let signals = AsyncStream.makeStream(of: Void.self)

  static let now: Int64 = 1_767_225_600

  var out: String { seen.withLock { $0.out } }
  var err: String { seen.withLock { $0.err } }
  /// What went to standard output as bytes.
  var bytes: [UInt8] { seen.withLock { $0.bytes } }
  var launched: [[String]] { seen.withLock { $0.launched } }
  /// Programs that were asked something.
  var asked: [[String]] { seen.withLock { $0.asked } }
  var files: [String: String] { seen.withLock { $0.files } }

  func type(_ line: String) { input.continuation.yield(line) }
  func endInput() { input.continuation.finish() }
  func interrupt() { signals.continuation.yield() }

  func terminal(environment: [String: String] = [:]) -> Terminal {
    Terminal(
      write: { [self] stream, text in
        seen.withLock { if stream == .out { $0.out += text } else { $0.err += text } }
      },
      writeBytes: { [self] bytes in seen.withLock { $0.bytes += bytes } },
      files: TerminalFiles(
        replace: { [self] path, text in
          seen.withLock { $0.files[path] = text }
          return nil
        },
        remove: { [self] path in
          seen.withLock { $0.files[path] = nil }
          return nil
        },
        exists: { [self] path in files[path] != nil }),
      programs: TerminalPrograms(
        launch: { [self] command in
          seen.withLock { $0.launched.append(command) }
          return !failing.contains(command[0])
        },
        find: { [self] name in
          absent.contains(name) ? nil : name.hasPrefix("/") ? name : "/usr/bin/\(name)"
        }),
      environment: environment, uid: 1000, timeZone: .utc, now: { Self.now }, lines: { [self] in input.stream },
      interrupts: { [self] in signals.stream }, machine: desktop)
  }

  /// Programs that start and fail, by path.
  var failing: Set<String> {
    get { seen.withLock { $0.failing } }
    set { seen.withLock { $0.failing = newValue } }
  }
  /// Programs that are not there, by name.
  var absent: Set<String> {
    get { seen.withLock { $0.absent } }
    set { seen.withLock { $0.absent = newValue } }
  }
  /// Desktop files by the type that they are for.
  var handlers: [String: String] {
    get { seen.withLock { $0.handlers } }
    set { seen.withLock { $0.handlers = newValue } }
  }

  /// Its xdg-mime knows the handlers.
  private var desktop: Machine {
    var machine = Machine.blind
    machine.run = { [self] command, _ in
      seen.withLock { $0.asked.append(command) }
      guard command[0].hasSuffix("/xdg-mime"), !failing.contains(command[0]) else {
        return .init(status: 4, out: "", err: "no")
      }
      if command[1] == "default" { handlers[command[3]] = command[2] }
      return .init(status: 0, out: command[1] == "query" ? (handlers[command[3]] ?? "") + "\n" : "", err: "")
    }
    return machine
  }
}

/// A broker with scripted answers for each method.
final class ScriptedBroker: Dispatcher {
  typealias Reply = @Sendable (JSON, any Session) async -> Result<JSON, RPCError>

  private let replies: [String: Reply]
  private let seen = Mutex<[(method: String, params: JSON)]>([])
  let path: String

  init(path: String, _ replies: [String: Reply]) {
    self.path = path
    self.replies = replies
  }

  var methods: [String] { seen.withLock { $0.map(\.method) } }
  func params(of method: String) -> JSON? { seen.withLock { $0.last { $0.method == method }?.params } }

  private final class NoTokens: CachedTokens {
    func reply(account: UnsafeRawBufferPointer, minTTL: Int64?, scopes: UnsafeRawBufferPointer?) -> CachedReply? { nil }
  }

  func callerClass(of principal: Principal) -> CallerClass { .named }

  func cachedTokens(for principal: Principal) -> any CachedTokens { NoTokens() }

  func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError> {
    seen.withLock { $0.append((request.method, request.params ?? .null)) }
    guard let reply = replies[request.method] else { return .failure(.methodNotFound(request.method, nearest: nil)) }
    return await reply(request.params ?? .null, session)
  }

  static func with(
    _ replies: [String: Reply], mode: UInt32 = 0o600,
    _ body: (ScriptedBroker, SocketServer) async throws -> Void
  ) async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("gc-\(UUID().uuidString.prefix(8))").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let broker = ScriptedBroker(path: folder + "/s", replies)
    let server = SocketServer(
      configuration: .init(endpoint: .path(broker.path), mode: mode), dispatcher: broker,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    try await server.start()
    do {
      try await body(broker, server)
    } catch {
      await server.drain(deadline: .zero)
      throw error
    }
    await server.drain(deadline: .zero)
  }

  /// Runs a command line against this broker.
  func run(
    _ arguments: [String], _ recorder: Recorder, environment: [String: String] = [:],
    adjust: (inout Terminal) -> Void = { _ in }
  ) async throws -> ExitStatus {
    var environment = environment
    environment["GRANTD_SOCKET"] = environment["GRANTD_SOCKET"] ?? path
    return try await perform(arguments, recorder, environment: environment, adjust: adjust)
  }
}

func perform(
  _ arguments: [String], _ recorder: Recorder, environment: [String: String],
  adjust: (inout Terminal) -> Void = { _ in }
) async throws -> ExitStatus {
  let command = try Grantctl.parseAsRoot(GlobalOptions.moved(arguments))
  guard let command = command as? any BrokerCommand else { throw NoCommand() }
  var terminal = recorder.terminal(environment: environment)
  adjust(&terminal)
  return await command.perform(in: terminal)
}

struct NoCommand: Error {}

func answer(_ json: JSON) -> ScriptedBroker.Reply { { _, _ in .success(json) } }
func refuse(_ error: RPCError) -> ScriptedBroker.Reply { { _, _ in .failure(error) } }

/// 1, 2, 3, …
final class Counter: Sendable {
  private let count = Mutex(0)
  func next() -> Int {
    count.withLock {
      $0 += 1
      return $0
    }
  }
}

/// Holds each waiting task until it is opened, permanently.
final class Gate: Sendable {
  private let opening = AsyncStream.makeStream(of: Void.self)
  func open() { opening.continuation.finish() }
  func wait() async { for await _ in opening.stream {} }
}
