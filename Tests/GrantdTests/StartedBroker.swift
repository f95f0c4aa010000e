import Broker
import BrokerAPI
import Grants
import Logging
import OAuth
import Principals

@testable import grantd

extension Broker {
  /// A started broker without accounts.
  static func started(
    _ configuration: BrokerConfiguration = BrokerConfiguration(
      providers: [], policy: Policy(instance: .user, owner: 1000, rules: []), refresh: RefreshPolicy(), path: nil),
    edges: Broker.Edges = Broker.Edges(), audit: (any AuditStore)? = nil,
    reloader: any Reloader = NoReloads(), logger: Logger
  ) async throws -> Broker {
    let broker = Broker(
      store: EmptyStore(), transport: NoTransport(), system: Live.system,
      identity: BrokerIdentity(version: "0", pid: 1, host: "a.example"), configuration: configuration, logger: logger,
      auditStore: audit, edges: edges, reloader: reloader)
    try await broker.start()
    return broker
  }
}

/// A store without data, which accepts each commit and forgets it.
private struct EmptyStore: Store {
  var location: String { "test" }
  func load() async throws(StoreError) -> StoredState { StoredState() }
  func commit(_ changes: [Change]) async throws(StoreError) {}
  func examine() async throws(StoreError) -> [String] { [] }
  func rebuild(from state: StoredState, accounts: [any PackedAccount]) async throws(StoreError) {}
  func close() async {}
}

/// No provider can be reached.
private struct NoTransport: Transport {
  func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse {
    throw TransportError(.notSent, "the test has no network")
  }
}

struct NoReloads: Reloader {
  func reload(_ broker: Broker, for caller: Principal?) async throws(RPCError) -> BrokerReload.Result {
    throw RPCError(.invalidConfiguration, "the test has no configuration")
  }
}
