import Broker
import BrokerAPI
import Principals
import Synchronization

/// Reloads as the daemon's, of scripted configurations and edges.
struct ScriptedReloads: Reloader {
  private let box: ReloadBox
  private let order = ReloadOrder()

  init(_ box: ReloadBox) { self.box = box }

  @BrokerActor
  func reload(_ broker: Broker, for caller: Principal?) async throws(RPCError) -> BrokerReload.Result {
    let turn = order.begin()
    var new: BrokerConfiguration
    do throws(RPCError) {
      new = try await box.read()
    } catch {
      broker.reloadFailed(error, for: caller)
      throw error
    }
    await broker.prepare(new)
    if let later = order.later(than: turn) { return await later.value }
    new.warnings += broker.enforce(new, for: caller)
    let change = order.accept(turn) { [new, box] in
      var edges = ReloadedEdges(publicOrigin: new.publicOrigin)
      edges.warnings = await box.edges(new)
      return await broker.finishReload(new, edges)
    }
    return await change.value
  }
}

/// What the next reload reads.
final class ReloadBox: Sendable {
  private struct State {
    var value: Result<BrokerConfiguration, RPCError>
    var isHolding = false
    var held: [CheckedContinuation<Void, Never>] = []
    var edges: @Sendable (BrokerConfiguration) async -> [String] = { _ in [] }
  }

  private let state: Mutex<State>
  init(_ value: Result<BrokerConfiguration, RPCError>) { state = Mutex(State(value: value)) }
  var value: Result<BrokerConfiguration, RPCError> {
    get { state.withLock { $0.value } }
    set { state.withLock { $0.value = newValue } }
  }

  /// Applies the edges of a reload, and returns warnings.
  var edges: @Sendable (BrokerConfiguration) async -> [String] {
    get { state.withLock { $0.edges } }
    set { state.withLock { $0.edges = newValue } }
  }

  /// From now on, readings last until ``releaseLast()``.
  func hold() { state.withLock { $0.isHolding = true } }
  var held: Int { state.withLock { $0.held.count } }
  /// Lets the one end that began last.
  func releaseLast() { state.withLock { $0.held.popLast() }?.resume() }

  /// What the file says when the reading begins.
  func read() async throws(RPCError) -> BrokerConfiguration {
    let value = value
    await withCheckedContinuation { continuation in
      let isHeld = state.withLock { state in
        if state.isHolding { state.held.append(continuation) }
        return state.isHolding
      }
      if !isHeld { continuation.resume() }
    }
    return try value.get()
  }
}
