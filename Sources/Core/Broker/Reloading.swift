public import BrokerAPI
import Grants
import Logging
import OAuth
public import Principals

/// Runs reloads (`broker.reload`, SIGHUP). The composition root implements it, as it has the configuration's files and the
/// edges.
public protocol Reloader: Sendable {
  /// Reads and checks the configuration; then ``Broker/enforce(_:for:)``, the edges, and ``Broker/finishReload(_:_:)``.
  /// An invalid configuration changes nothing.
  ///
  /// - Parameter caller: nil: a signal.
  func reload(_ broker: Broker, for caller: Principal?) async throws(RPCError) -> BrokerReload.Result
}

/// The edges after a reload.
public struct ReloadedEdges: Sendable {
  public var warnings: [String] = []
  /// The origin of the callbacks of the web that is active, which only a restart may change.
  public var publicOrigin: String?
  /// The HTTP listeners.
  public var listeners: [BrokerStatus.ListenerView] = []

  public init(publicOrigin: String? = nil) { self.publicOrigin = publicOrigin }
}

/// The order of overlapping reloads.
@BrokerActor
public final class ReloadOrder {
  public typealias Change = Task<BrokerReload.Result, Never>

  /// How many reloads began, and the latest that was accepted.
  private var begun = 0
  private var accepted = 0
  private var changes = SerialTasks<BrokerReload.Result>()

  public nonisolated init() {}

  /// The number of a reload, before it reads.
  public func begin() -> Int {
    begun += 1
    return begun
  }

  /// The active reload, if it is later than this one: it read the newer files, and this one is dropped.
  public func later(than turn: Int) -> Change? { turn < accepted ? changes.latest : nil }

  /// The reload is active.
  ///
  /// - Parameter rest: the parts that take time; they begin when those of earlier reloads have ended.
  public func accept(_ turn: Int, _ rest: @escaping @Sendable () async -> BrokerReload.Result) -> Change {
    accepted = turn
    return changes.add(rest)
  }
}

/// The active configuration.
@BrokerActor
final class Reloading: Piece {
  let runtime: Runtime
  let reloader: any Reloader
  private let audit: AuditLog
  private(set) var configuration: BrokerConfiguration

  init(_ runtime: Runtime, _ configuration: BrokerConfiguration, audit: AuditLog, by reloader: any Reloader) {
    self.runtime = runtime
    self.configuration = configuration
    self.audit = audit
    self.reloader = reloader
  }

  /// Replaces the configuration and records the change.
  func configure(_ new: BrokerConfiguration, for caller: Principal?) {
    let entry = audit.reloaded(from: configuration, to: new, for: caller)
    let wasOn = configuration.audit.isEnabled
    configuration = new
    // Recorded before it is active if the trail is on, else after, when it may be.
    if wasOn { audit.record(entry, pid: caller?.pid ?? 0) }
    audit.trail.configure(new.audit)
    if !wasOn { audit.record(entry, pid: caller?.pid ?? 0) }
  }

  func finish(_ new: BrokerConfiguration, _ edges: ReloadedEdges) -> BrokerReload.Result {
    logger.notice("reloaded the configuration", metadata: ["configuration": "\(new.path ?? "built-in defaults")"])
    emit(Event(type: .configurationReloaded, at: now.seconds))
    return .init(
      providers: new.providers.count, warnings: new.warnings + edges.warnings,
      listeners: edges.listeners.isEmpty ? nil : edges.listeners)
  }
}

extension BrokerReload: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.reload(for: call.caller)
  }
}
