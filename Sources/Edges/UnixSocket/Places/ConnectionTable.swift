import Listening
import NIOCore
import Principals
import Synchronization

/// The open connections: admits new ones within the limits; a drain waits until it is empty.
final class ConnectionTable: Sendable {
  fileprivate struct State {
    var connections: [ObjectIdentifier: Connection] = [:]
    var places: Budget
    /// Places that were given back: before the next one a refusal need not be looked at again.
    var left: UInt64 = 0
    var refusedShares: [Share: RefusedShare] = [:]
    var admitted: UInt64 = 0
    var refused: UInt64 = 0
    var refusals = Refusals()
    var heldBack: [SocketServer.Budgeted: UInt64] = [:]
    var latestHeldBack: (what: SocketServer.Budgeted, share: Share)?
    /// Bytes that clients have not read.
    var unread: Budget
    /// Those of errors instead of results.
    var replaced: Budget
  }

  /// The latest refusal of a share: for a moment its further connections are refused without a search for a slot.
  fileprivate struct RefusedShare {
    var why: String
    var left: UInt64
    var until: NIODeadline
  }

  /// How long a refusal is remembered.
  static let remembered = TimeAmount.milliseconds(200)
  /// Refused shares that are remembered; all are forgotten when there are more.
  static let mostRemembered = 1024

  private let state: Mutex<State>
  private let draining = Atomic(false)

  init(limits: SocketServer.Limits) {
    state = Mutex(
      State(
        places: Budget(limits.places), unread: Budget(limits.unreadBudget), replaced: Budget(limits.unreadBudget)))
  }

  /// Set for good when the server stops: new requests are refused.
  var isDraining: Bool { draining.load(ordering: .relaxed) }
  func startDraining() { draining.store(true, ordering: .relaxed) }

  var connections: [Connection] { state.withLock { Array($0.connections.values) } }
  var count: Int { state.withLock { $0.connections.count } }

  var statistics: SocketServer.SocketStatistics {
    state.withLock {
      .init(
        connections: $0.connections.count, accepted: $0.admitted, refused: $0.refused, heldBack: $0.heldBack,
        latestHeldBack: $0.latestHeldBack.map { "\($0.what.rawValue) of \($0.share.text)" })
    }
  }

  /// Nil, or what there is too little of, and its text.
  func acquirePlace(_ share: Share) -> (shortage: Budget.Shortage, text: String)? {
    state.withLock { state in
      guard let shortage = state.places.acquire(1, for: share) else { return nil }
      return (shortage, state.places.text(shortage, of: share, "connections"))
    }
  }

  /// The connection whose slot this one gets; nil: none, as no user has more.
  func largest(beside share: Share, _ shortage: Budget.Shortage) -> Holder? {
    state.withLock { $0.places.largest(beside: share, shortage) }
  }

  /// Only for this holder and class: a system unit of the same user has its own share, and so has a caller that a rule
  /// names.
  func remember(_ share: Share, _ why: String, until: NIODeadline) {
    guard !share.hasOwnPlaces else { return }
    state.withLock { state in
      if state.refusedShares.count >= Self.mostRemembered { state.refusedShares = [:] }
      state.refusedShares[share] = RefusedShare(why: why, left: state.left, until: until)
    }
  }

  /// The remembered reason, which still applies to the share's next connection; nil: it must be decided.
  func refusal(of share: Share, at now: NIODeadline) -> String? {
    state.withLock { state in
      guard let refused = state.refusedShares[share] else { return nil }
      if refused.left == state.left, now < refused.until { return refused.why }
      state.refusedShares[share] = nil
      return nil
    }
  }

  func add(_ connection: Connection) {
    state.withLock { state in
      state.admitted += 1
      state.connections[ObjectIdentifier(connection)] = connection
    }
  }

  /// Counts bytes that a client has not read. False: there would be too many, and they are not of the holder's only reply;
  /// then they are not counted.
  func addUnread(_ bytes: Int, of share: Share) -> Bool {
    state.withLock { state in
      if let shortage = state.unread.shortage(of: bytes, for: share) {
        let isShared = shortage == .ofUnnamed || shortage == .ofAll
        guard state.unread.count(of: share) == 0, !isShared || !share.isUnnamed else { return false }
      }
      state.unread.add(bytes, for: share)
      return true
    }
  }

  /// The same for an error instead of a result.
  func addReplaced(_ bytes: Int, of share: Share) -> Bool {
    state.withLock { state in
      state.count(.unreadReplies, share)
      guard state.replaced.acquire(bytes, for: share) == nil else { return false }
      state.unread.add(bytes, for: share)
      return true
    }
  }

  /// - Parameter replaced: how many of them belong to errors instead of results.
  func changeUnread(by bytes: Int, replaced: Int, of share: Share) {
    state.withLock { state in
      if bytes > 0 { state.unread.add(bytes, for: share) } else { state.unread.giveBack(-bytes, of: share) }
      if replaced < 0 { state.replaced.giveBack(-replaced, of: share) }
    }
  }

  func countHeldBack(_ what: SocketServer.Budgeted, _ share: Share) { state.withLock { $0.count(what, share) } }

  func countRefused() { state.withLock { $0.refused += 1 } }

  /// The number of refused connections before this one for the log; nil: not now, it is counted.
  func refused(at now: NIODeadline) -> Int? { state.withLock { $0.refusals.refused(at: now) } }

  /// The number of refused connections for the log; nil: none, or not now.
  func untoldRefusals(at now: NIODeadline) -> Int? { state.withLock { $0.refusals.due(at: now) } }

  /// The connection is closed. Its requests that still run count in other budgets.
  func giveBackPlace(_ share: Share) { state.withLock { $0.giveBackPlace(share) } }

  /// The connection is closed, and its requests have ended.
  func remove(_ connection: Connection) {
    state.withLock { _ = $0.connections.removeValue(forKey: ObjectIdentifier(connection)) }
  }
}

extension ConnectionTable.State {
  fileprivate mutating func count(_ what: SocketServer.Budgeted, _ share: Share) {
    heldBack[what, default: 0] += 1
    latestHeldBack = (what, share)
  }

  fileprivate mutating func giveBackPlace(_ share: Share) {
    places.giveBack(1, of: share)
    left &+= 1
  }
}
