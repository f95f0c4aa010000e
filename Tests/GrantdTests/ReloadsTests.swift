import BrokerAPI
import Foundation
import GrantdConfiguration
import HTTPServer
import HTTPTransport
import Hooks
import Listening
import Logging
import Loopback
import OAuth
import Synchronization
import Systemd
import TestSupport
import Testing

@testable import Broker
@testable import grantd

/// Reloads with the real edges.
@Suite(.timeLimit(.minutes(5))) struct ReloadsTests {
  private static let rule = """
    [[rule]]
    name = "new"
    anyone = true
    accounts = ["*"]
    access = ["observe"]

    """

  private func http(_ socket: String) -> String { "[http]\nunix = \"\(socket)\"\n" }

  @Test("a reload enforces the policy, then changes the edges, then reports its end")
  func order() async throws {
    let rig = try await ReloadRig("[callback]\nenabled = false\n" + http("a.sock"))
    try rig.write("[callback]\nipv6 = false\n" + http("b.sock") + Self.rule)
    let result = try await rig.broker.reload()
    #expect(rig.steps.all == ["callbacks listen, rules: new", "reloaded, HTTP: \(rig.path("b.sock"))"])
    let listener = BrokerStatus.ListenerView(setting: "[http] unix", address: rig.path("b.sock"), state: "ok")
    #expect(result == BrokerReload.Result(providers: 0, warnings: [], listeners: [listener]))
    #expect(rig.isServed("b.sock") && !rig.isServed("a.sock"))
    await rig.close()
  }

  @Test("an invalid configuration is refused and recorded, and the earlier one stays active")
  func invalid() async throws {
    let rig = try await ReloadRig("[callback]\nenabled = false\n" + http("a.sock") + Self.rule)
    try rig.write("[callback]\nprot = 0\n" + http("b.sock"))
    let error = await #expect(throws: RPCError.self) { try await rig.broker.reload() }
    #expect(error?.reason == .invalidConfiguration)
    #expect(error?.message.hasPrefix("\(rig.path("grantd.toml")):2: unknown key \"prot\"") == true)
    #expect(error?.hint?.contains("`grantd --user --check-config`") == true)
    #expect(rig.rules == ["new"] && rig.steps.all.isEmpty)
    #expect(rig.isServed("a.sock") && !rig.isServed("b.sock"))
    #expect(await rig.recordedResults() == ["invalid_configuration"])
    // The corrected file is active at once.
    try rig.write("[callback]\nenabled = false\n" + http("b.sock"))
    _ = try await rig.broker.reload()
    #expect(rig.rules.isEmpty && rig.isServed("b.sock") && !rig.isServed("a.sock"))
    await rig.close()
  }

  @Test("a reload to an address that is in use is refused and recorded before anything changes")
  func taken() async throws {
    let rig = try await ReloadRig("[callback]\nenabled = false\n" + http("a.sock"))
    let other = LocalServing(.init(name: "HTTP", key: "test"), logger: rig.lines.logger())
    await other.open(.unix(path: rig.path("b.sock")), LoopbackListener(rig.loopback, .process))
    try rig.write("[callback]\nipv6 = false\n" + http("b.sock") + Self.rule)
    let error = await #expect(throws: RPCError.self) { try await rig.broker.reload() }
    #expect(error?.reason == .invalidConfiguration)
    #expect(error?.message == "HTTP cannot be served on \(rig.path("b.sock")): Address already in use")
    #expect(rig.rules.isEmpty && rig.steps.all.isEmpty && rig.isServed("a.sock"))
    #expect(await rig.recordedResults() == ["invalid_configuration"])
    await other.close(within: .zero)
    await rig.close()
  }

  @Test("settings that need a restart are compared with those of the start in each reload")
  func restart() async throws {
    let rig = try await ReloadRig("[callback]\nenabled = false\n")
    let sections = "[socket]\nconnections = 100\n[log]\nlevel = \"debug\"\n[store]\npath = \"/var/lib/other\"\n"
    try rig.write("[callback]\nenabled = false\n" + sections)
    let warnings = ["socket", "log", "store"].map { "[\($0)] changes with the next restart" }
    for _ in 0..<2 { #expect(try await rig.broker.reload().warnings == warnings) }
    try rig.write("[callback]\nenabled = false\n")
    #expect(try await rig.broker.reload().warnings == [])
    await rig.close()
  }

  @Test("a reload that ends its reading after a later one changes nothing, closes its address and has the later result")
  func overtaken() async throws {
    let (readings, reading) = AsyncStream.makeStream(of: CheckedContinuation<Settings, Never>.self)
    let rig = try await ReloadRig("[callback]\nenabled = false\n" + http("a.sock")) { (_) async in
      await withCheckedContinuation { _ = reading.yield($0) }
    }
    var next = readings.makeAsyncIterator()
    let older = Task { try await rig.broker.reload() }
    let first = await next.next()
    let newer = Task { try await rig.broker.reload() }
    let second = await next.next()
    try rig.write("[callback]\nenabled = false\n" + http("newer.sock"))
    let later = try Settings.load(rig.places.sources)
    second?.resume(returning: later)
    let result = try await newer.value
    #expect(result.listeners?.map(\.address) == [rig.path("newer.sock")])
    try rig.write("[callback]\nenabled = false\n" + http("older.sock") + Self.rule)
    let earlier = try Settings.load(rig.places.sources)
    first?.resume(returning: earlier)
    #expect(try await older.value == result)
    #expect(rig.rules.isEmpty && rig.steps.all == ["reloaded, HTTP: \(rig.path("newer.sock"))"])
    #expect(rig.isServed("newer.sock") && !rig.isServed("older.sock"))
    await rig.close()
  }
}

/// A broker with the edges of the daemon, in a folder that is removed after the test.
private final class ReloadRig: Sendable {
  let lines = LoggedLines()
  let steps: Steps
  let places: Places
  let loopback: LoopbackApplication
  let broker: Broker
  private let folder: String
  private let http: HTTPServing
  private let callbacks: CallbackServing
  private let transport: HTTPTransport
  private let audit = RecordedAudit()

  /// - Parameter load: reads the configuration of a reload; nil: as the daemon.
  init(_ text: String, load: (@Sendable (Settings.Sources) async -> Settings)? = nil) async throws {
    let folder = NSTemporaryDirectory() + "grantd-reloads-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(
      atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    self.folder = folder
    let places = try Places(
      instance: .user, config: folder + "/grantd.toml", state: folder + "/state", socket: folder + "/grantd.sock",
      templates: [], environment: ["HOME": folder])
    self.places = places
    try Self.write(text, to: places.configuration)
    let settings = try Settings.load(places.sources)
    let logger = lines.logger()
    let transport = HTTPTransport(userAgent: "test", uptime: { Live.uptime() })
    self.transport = transport
    let steps = Steps()
    self.steps = steps
    callbacks = CallbackServing(keeper: steps.keeper, logger: logger)
    let http = HTTPServing(places, KeptDescriptors([], store: DescriptorStore { _, _ in false }), logger: logger)
    self.http = http
    loopback = LoopbackApplication(
      transport, upstreams: { transport.upstreams(on: $0) }, now: { Live.now() })
    var reloads = Reloads(
      places: places, settings: settings, transport: transport, callbacks: callbacks, http: http, loopback: loopback,
      hooks: Hooks(environment: [:], uptime: { Live.uptime() }, logger: logger), desktop: Desktop(logger: logger))
    if let load { reloads.load = { (sources) async throws(ConfigurationError) in await load(sources) } }
    var edges = Broker.Edges()
    edges.onEvent = { event in
      guard event.type == .configurationReloaded else { return }
      steps.add("reloaded, HTTP: \(http.views.map(\.address).joined(separator: " "))")
    }
    broker = try await Broker.started(
      BrokerConfiguration(settings, places), edges: edges, audit: audit, reloader: reloads, logger: logger)
    steps.watch(broker)
    await callbacks.open(settings, broker: broker, preferredPort: nil)
    await http.open(settings, broker, loopback)
  }

  deinit { try? FileManager.default.removeItem(atPath: folder) }

  func path(_ name: String) -> String { "\(folder)/\(name)" }

  func write(_ text: String) throws { try Self.write(text, to: places.configuration) }

  private static func write(_ text: String, to file: String) throws {
    try #require(
      FileManager.default.createFile(
        atPath: file, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600]))
  }

  /// The names of the rules that are active.
  var rules: [String] { broker.cache.inForce.policy.rules.map(\.name) }

  func isServed(_ name: String) -> Bool { (try? RawClient(path(name))) != nil }

  /// The results of reloads in the audit trail.
  func recordedResults() async -> [String] {
    await broker.finishTrail()
    return audit.all.filter { $0.entry.method == BrokerReload.name }.map(\.entry.result)
  }

  func close() async {
    await callbacks.close()
    await http.close(within: .zero)
    await transport.close()
  }
}

/// The steps of reloads, in order.
private final class Steps: Sendable {
  private struct State {
    var steps: [String] = []
    var broker: Broker?
  }

  private let state = Mutex(State())
  var all: [String] { state.withLock { $0.steps } }

  func watch(_ broker: Broker) { state.withLock { $0.broker = broker } }
  func add(_ step: String) { state.withLock { $0.steps.append(step) } }

  /// It holds no socket, and adds a step with the rules that are active when a callback listener has opened one.
  var keeper: SocketKeeper {
    SocketKeeper(
      earlier: { _ in nil },
      keep: { [self] _, _ in
        let broker = state.withLock { $0.broker }
        let rules = broker?.cache.inForce.policy.rules.map(\.name) ?? []
        add("callbacks listen, rules: \(rules.joined(separator: " "))")
        return false
      },
      remove: { _ in })
  }
}

/// The records of the audit trail.
private final class RecordedAudit: AuditStore {
  private let records = Mutex<[AuditRecord]>([])
  var all: [AuditRecord] { records.withLock { $0 } }

  func lastID() async throws(StoreError) -> Int64 { 0 }
  func write(_ new: [AuditRecord], most: Int) async throws(StoreError) { records.withLock { $0 += new } }
  func read(_ question: AuditQuestion) async throws(StoreError) -> [AuditRecord] { [] }
  func removeRecords(before moment: Timestamp, most: Int) async throws(StoreError) {}
}
