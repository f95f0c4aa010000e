import BrokerAPI
import NIOCore
import Synchronization

/// The open connections: admits new ones within the limits; a drain waits until it is empty.
final class ConnectionTable: Sendable {
  private struct State {
    var connections: [ObjectIdentifier: Connection] = [:]
    var tally: Tally
    var admitted: UInt64 = 0
    var refused: UInt64 = 0
    var refusals = Refusals()
    /// Bytes of replies by uid.
    var unsent: [UInt32: Int] = [:]
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

  var figures: SocketServer.Figures {
    state.withLock { .init(connections: $0.connections.count, accepted: $0.admitted, refused: $0.refused) }
  }

  /// Nil, or which limit is reached. A place is given to a connection, or back.
  func takePlace(uid: UInt32) -> Tally.Limit? { state.withLock { $0.tally.enter(uid: uid) } }
  func giveBackPlace(uid: UInt32) { state.withLock { $0.tally.leave(uid: uid) } }

  func largestUser(beside uid: UInt32) -> UInt32? { state.withLock { $0.tally.largest(beside: uid) } }

  func add(_ connection: Connection) {
    state.withLock { state in
      state.admitted += 1
      state.connections[ObjectIdentifier(connection)] = connection
    }
  }

  /// Counts bytes of a reply that a user has not read. False: there would be more than `limit`, and not of this one
  /// alone; then they are not counted.
  func addUnsent(_ bytes: Int, of uid: UInt32, atMost limit: Int) -> Bool {
    state.withLock { state in
      let before = state.unsent[uid, default: 0]
      guard before == 0 || before + bytes <= limit else { return false }
      state.unsent[uid] = before + bytes
      return true
    }
  }

  func changeUnsent(by bytes: Int, of uid: UInt32) {
    state.withLock { state in
      let left = state.unsent[uid, default: 0] + bytes
      state.unsent[uid] = left > 0 ? left : nil
    }
  }

  func countRefused() { state.withLock { $0.refused += 1 } }

  /// How many refused connections are to be told of beside this one; nil: not now, it is counted.
  func refused(at now: NIODeadline) -> Int? { state.withLock { $0.refusals.refused(at: now) } }

  /// How many refused connections are to be told of; nil: none, or not now.
  func untoldRefusals(at now: NIODeadline) -> Int? { state.withLock { $0.refusals.due(at: now) } }

  func leave(_ connection: Connection) {
    state.withLock { state in
      guard state.connections.removeValue(forKey: ObjectIdentifier(connection)) != nil else { return }
      state.tally.leave(uid: connection.caller.uid)
    }
  }
}
