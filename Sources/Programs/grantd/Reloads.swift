import Broker
import BrokerAPI
import Glibc
import GrantdConfiguration
import HTTPTransport
import Hooks
import Loopback
import Principals

/// Reloads the configuration: the broker's part at once, then the edges, one reload after the other.
struct Reloads: Reloader {
  let places: Places
  /// Those of the start.
  let settings: Settings
  let transport: HTTPTransport
  let callbacks: CallbackServing
  let http: HTTPServing
  let loopback: LoopbackApplication
  let hooks: Hooks
  let desktop: Desktop
  /// Reads and checks the configuration.
  var load: @Sendable (Settings.Sources) async throws(ConfigurationError) -> Settings = {
    (sources) throws(ConfigurationError) in try Settings.load(sources)
  }
  private let order = ReloadOrder()

  @BrokerActor
  func reload(_ broker: Broker, for caller: Principal?) async throws(RPCError) -> BrokerReload.Result {
    let turn = order.begin()
    let new: Settings
    do throws(RPCError) {
      new = try await read()
      // A changed address is opened before anything changes.
      try await http.prepare(new)
    } catch {
      broker.reloadFailed(error, for: caller)
      throw error
    }
    var configuration = BrokerConfiguration(new, places)
    configuration.warnings += restartWarnings(new)
    await broker.prepare(configuration)
    if let later = order.later(than: turn) {
      await http.abandon(new)
      return await later.value
    }
    configuration.warnings += broker.enforce(configuration, for: caller)
    let change = order.accept(turn) { [configuration] in
      let edges = await apply(new)
      return await broker.finishReload(configuration, edges)
    }
    return await change.value
  }

  /// Reads and checks the files. Not on the broker's actor: a disk may be slow.
  private nonisolated func read() async throws(RPCError) -> Settings {
    do throws(ConfigurationError) {
      return try await load(places.reloadSources(after: settings.files))
    } catch {
      throw RPCError(
        .invalidConfiguration, error.description,
        hint:
          "Correct the file and reload again; `grantd --\(places.instance.rawValue) --check-config` checks it first.")
    }
  }

  /// The settings that only a restart can change.
  private nonisolated func restartWarnings(_ new: Settings) -> [String] {
    let sections = [
      ("socket", new.socket != settings.socket), ("log", new.logLevel != settings.logLevel),
      ("store", new.store != settings.store),
    ]
    return sections.filter(\.1).map { "[\($0.0)] changes with the next restart" }
  }

  private nonisolated func apply(_ new: Settings) async -> ReloadedEdges {
    var edges = ReloadedEdges()
    transport.use(new.proxies)
    edges.warnings += await callbacks.update(new)
    edges.publicOrigin = await callbacks.publicOrigin
    hooks.replace(by: new.hooks)
    loopback.configure(new.loopback)
    desktop.configure(new)
    edges.warnings += await http.update(new)
    edges.listeners = http.views
    return edges
  }
}

extension BrokerConfiguration {
  init(_ settings: Settings, _ places: Places) {
    self.init(
      providers: settings.allProviders,
      policy: Policy(instance: places.instance, owner: geteuid(), rules: settings.rules), refresh: settings.refresh,
      accounts: settings.accounts, path: settings.files.first, warnings: settings.warnings)
    audit = settings.audit
    callerLimits = settings.limits
    credentials = settings.credentials
    clientMetadata = settings.clientMetadata
    stepUp = settings.stepUp
    files = places.tokenFiles(settings)
    publicOrigin = settings.callback.enabled ? settings.callback.publicOrigin : nil
  }
}
