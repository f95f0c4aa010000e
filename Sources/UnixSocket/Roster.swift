import BrokerAPI
import Synchronization

/// Who is connected: admission, and what a drain waits for.
final class Roster: Sendable {
  private struct State {
    var connections: [ObjectIdentifier: Connection] = [:]
    var tally: Tally
  }

  private let state: Mutex<State>
  private let draining = Atomic(false)

  init(limits: SocketServer.Limits) {
    state = Mutex(State(tally: Tally(limits: limits)))
  }

  /// Set for good when the server stops: new requests are refused.
  var isDraining: Bool { draining.load(ordering: .relaxed) }
  func startDraining() { draining.store(true, ordering: .relaxed) }

  var connections: [Connection] { state.withLock { Array($0.connections.values) } }
  var count: Int { state.withLock { $0.connections.count } }

  /// Nil, or which limit is reached.
  func admit(_ connection: Connection) -> String? {
    state.withLock { state in
      if let limit = state.tally.enter(uid: connection.caller.uid) { return limit }
      state.connections[ObjectIdentifier(connection)] = connection
      return nil
    }
  }

  func leave(_ connection: Connection) {
    state.withLock { state in
      guard state.connections.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
      state.tally.leave(uid: connection.caller.uid)
    }
  }
}
