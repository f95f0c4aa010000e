import BrokerAPI
import Grants
import Logging
import OAuth
import Principals

/// The configuration in force, and what takes its place: read and checked whole before anything changes.
@BrokerActor
final class Reloading: Piece {
  let runtime: Runtime
  private let audit: AuditLog
  private let read: @Sendable () async throws(RPCError) -> BrokerConfiguration
  private(set) var configuration: BrokerConfiguration
  /// How many reloads began, and the latest that was accepted.
  private var begun = 0
  private var accepted = 0
  /// The accepted reload that came last; what of the next has to wait goes on when it has ended.
  private var latest: Task<BrokerReload.Result, Never>?
  private var actions: Actions?

  /// What puts a configuration in force.
  struct Actions {
    /// What can be found out before, in turns with everything else.
    var prepare: @BrokerActor (BrokerConfiguration) async -> Void
    /// The policy and all else that takes no waiting.
    /// Returns warnings for the administrator.
    var enforce: @BrokerActor (BrokerConfiguration) -> [String]
    /// What comes of the edges, and what has to be written.
    var complete: @BrokerActor (BrokerConfiguration) async -> Void
  }

  init(
    _ runtime: Runtime, _ configuration: BrokerConfiguration, audit: AuditLog,
    read: @escaping @Sendable () async throws(RPCError) -> BrokerConfiguration
  ) {
    self.runtime = runtime
    self.configuration = configuration
    self.audit = audit
    self.read = read
  }

  func onReload(_ actions: Actions) { self.actions = actions }

  /// The file, for people; nil: built-in defaults.
  var path: String? { configuration.path }

  /// Reads, checks, and only then puts in force; an invalid file changes nothing.
  ///
  /// - Parameter caller: who asks for it; nil: a signal.
  func reload(for caller: Principal?) async throws(RPCError) -> BrokerReload.Result {
    begun += 1
    let turn = begun
    let new: BrokerConfiguration
    do throws(RPCError) {
      new = try await read()
      try await new.prepareEdges?()
    } catch {
      audit.reloadFailed(for: caller, error)
      throw error
    }
    await actions?.prepare(new)
    // A later reload that was faster read the newer file: that one applies.
    if turn < accepted, let latest {
      await new.abandonEdges?()
      return await latest.value
    }
    accepted = turn
    // A permission that was taken away must not last as long as a slow disk or listener.
    var enforced = new
    enforced.warnings += enforce(new, for: caller)
    let before = latest
    let change = Task { [enforced] in
      _ = await before?.value
      return await complete(enforced)
    }
    latest = change
    return await change.value
  }

  private func enforce(_ new: BrokerConfiguration, for caller: Principal?) -> [String] {
    let entry = audit.reloaded(from: configuration, to: new, for: caller)
    let wasOn = configuration.audit.isEnabled
    configuration = new
    // Recorded before it is in force where the trail is on, else after, when it may be.
    if wasOn { audit.note(entry, pid: caller?.pid ?? 0) }
    audit.trail.configure(new.audit)
    if !wasOn { audit.note(entry, pid: caller?.pid ?? 0) }
    return actions?.enforce(new) ?? []
  }

  private func complete(_ enforced: BrokerConfiguration) async -> BrokerReload.Result {
    var new = enforced
    await enforced.applyToEdges?(&new)
    await actions?.complete(new)
    logger.notice("reloaded the configuration", metadata: ["configuration": "\(new.path ?? "built-in defaults")"])
    emit(Event(type: .configurationReloaded, at: now.seconds))
    return .init(
      providers: new.providers.count, warnings: new.warnings, listeners: new.listeners.isEmpty ? nil : new.listeners)
  }
}

// MARK: Methods

extension BrokerReload: Served {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.reload(for: call.caller)
  }
}
