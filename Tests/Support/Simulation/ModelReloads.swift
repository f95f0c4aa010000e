import Broker
import BrokerAPI
import Principals

/// Reloads without edges.
struct ModelReloads: Reloader {
  private let order = ReloadOrder()
  private let read: @Sendable () -> BrokerConfiguration

  init(_ read: @escaping @Sendable () -> BrokerConfiguration) { self.read = read }

  @BrokerActor
  func reload(_ broker: Broker, for caller: Principal?) async throws(RPCError) -> BrokerReload.Result {
    let turn = order.begin()
    var new = read()
    await broker.prepare(new)
    if let later = order.later(than: turn) { return await later.value }
    new.warnings += broker.enforce(new, for: caller)
    let change = order.accept(turn) { [new] in
      await broker.finishReload(new, ReloadedEdges(publicOrigin: new.publicOrigin))
    }
    return await change.value
  }
}
