import BrokerAPI
import Foundation
import HTTPServer
import Logging
import MetricsEndpoint
import TestSupport
import Testing

@testable import grantd

/// One address of HTTP, over the reloads of the configuration.
@Suite(.timeLimit(.minutes(5))) struct LocalServingTests {
  /// Paths of sockets, in a folder that is removed after the test.
  private final class Sockets {
    let folder = NSTemporaryDirectory() + "grantd-serving-\(UUID().uuidString.prefix(8))"
    var a: String { folder + "/a.sock" }
    var b: String { folder + "/b.sock" }

    init() throws {
      try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }
  }

  private static let application = MetricsApplication { "" }
  private static let key = "[http] unix"

  private func serving(_ lines: LoggedLines = LoggedLines()) -> LocalServing {
    LocalServing(.init(name: "HTTP", key: Self.key), logger: lines.logger())
  }

  /// A server that has `path`, as another program's.
  private func occupied(_ path: String) async -> LocalServing {
    let other = serving()
    await other.open(.unix(path: path), Self.application)
    return other
  }

  private func problem(_ path: String) -> String { "HTTP cannot be served on \(path): Address already in use" }
  private var hint: String { "stop the program that has it, or choose another in \(Self.key)" }

  private func ok(_ path: String) -> BrokerStatus.ListenerView {
    BrokerStatus.ListenerView(setting: Self.key, address: path, state: "ok")
  }

  private func failed(_ path: String) -> BrokerStatus.ListenerView {
    BrokerStatus.ListenerView(
      setting: Self.key, address: path, state: "failed", message: problem(path), hint: hint)
  }

  private func isServed(_ path: String) -> Bool { (try? RawClient(path)) != nil }

  @Test("a configured address is served and shown until it is removed from the configuration")
  func served() async throws {
    let (sockets, serving) = (try Sockets(), serving())
    await serving.open(.unix(path: sockets.a), Self.application)
    #expect(serving.view == ok(sockets.a) && isServed(sockets.a))
    #expect(await serving.update(nil) == nil)
    #expect(serving.view == nil && !isServed(sockets.a))
    await serving.close(within: .zero)
  }

  @Test("a reload before the start of HTTP has the newer settings")
  func reloadedFirst() async throws {
    let (sockets, serving) = (try Sockets(), serving())
    #expect(await serving.update(.unix(path: sockets.b)) == nil)
    #expect(serving.view == nil && !isServed(sockets.b))
    await serving.open(.unix(path: sockets.a), Self.application)
    #expect(serving.view == ok(sockets.b) && isServed(sockets.b) && !isServed(sockets.a))
    await serving.close(within: .zero)
  }

  @Test("an address that is in use is shown, returned and logged once, and served once it is free")
  func taken() async throws {
    let (sockets, lines) = (try Sockets(), LoggedLines())
    let (other, serving) = (await occupied(sockets.a), serving(lines))
    await serving.open(.unix(path: sockets.a), Self.application)
    #expect(serving.view == failed(sockets.a))
    #expect(await serving.update(.unix(path: sockets.a)) == "\(problem(sockets.a)); \(hint)")
    let errors = lines.all.filter { $0.level == .error }
    #expect(errors.map(\.text) == ["\(problem(sockets.a)); \(hint)"])
    await other.close(within: .zero)
    #expect(await serving.update(.unix(path: sockets.a)) == nil)
    #expect(serving.view == ok(sockets.a) && isServed(sockets.a))
    await serving.close(within: .zero)
  }

  @Test("a prepared address is open beside the current one until each reload that prepared it has abandoned it")
  func abandoned() async throws {
    let (sockets, serving) = (try Sockets(), serving())
    await serving.open(.unix(path: sockets.a), Self.application)
    for _ in 0..<2 { try await serving.prepare(.unix(path: sockets.b)) }
    #expect(isServed(sockets.a) && isServed(sockets.b) && serving.view == ok(sockets.a))
    await serving.abandon(.unix(path: sockets.b))
    #expect(isServed(sockets.b))
    await serving.abandon(.unix(path: sockets.b))
    #expect(!isServed(sockets.b) && isServed(sockets.a) && serving.view == ok(sockets.a))
    await serving.close(within: .zero)
  }

  @Test("a reload uses the server that it prepared, and gives up the earlier address; after the end it opens nothing")
  func prepared() async throws {
    let (sockets, serving) = (try Sockets(), serving())
    await serving.open(.unix(path: sockets.a), Self.application)
    try await serving.prepare(.unix(path: sockets.b))
    #expect(await serving.update(.unix(path: sockets.b)) == nil)
    #expect(serving.view == ok(sockets.b) && isServed(sockets.b) && !isServed(sockets.a))
    await serving.close(within: .zero)
    try await serving.prepare(.unix(path: sockets.a))
    #expect(await serving.update(.unix(path: sockets.a)) == nil)
    #expect(!isServed(sockets.a) && !isServed(sockets.b))
  }

  @Test("a reload to an address that is in use is refused, or keeps the earlier one until it is corrected")
  func kept() async throws {
    let (sockets, serving) = (try Sockets(), serving())
    let other = await occupied(sockets.b)
    await serving.open(.unix(path: sockets.a), Self.application)
    let error = await #expect(throws: RPCError.self) { try await serving.prepare(.unix(path: sockets.b)) }
    #expect(error == RPCError(.invalidConfiguration, problem(sockets.b), hint: hint))
    #expect(serving.view == ok(sockets.a) && isServed(sockets.a))
    #expect(await serving.update(.unix(path: sockets.b)) == "\(problem(sockets.b)); \(hint)")
    #expect(serving.view == failed(sockets.b) && isServed(sockets.a))
    #expect(await serving.update(.unix(path: sockets.a)) == nil)
    #expect(serving.view == ok(sockets.a) && isServed(sockets.a))
    await serving.close(within: .zero)
    await other.close(within: .zero)
  }
}
