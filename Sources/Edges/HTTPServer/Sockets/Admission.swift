import BrokerAPI
import CLinux
import Callers
import Glibc
import Listening
import Logging
import NIOCore
import Principals
import Synchronization

/// Which new connections are served: not those of clients that have closed them, of users that open too many in a
/// second, and of callers that were refused a moment ago. For the thread that accepts.
struct Admission: Sendable {
  private let application: (any CallerApplication)?
  private let refused: RefusedCallers
  private let groups: ControlGroups
  private let callers: LoopbackCallers
  private var connects: UserConnects
  private var unnamed: ConnectRates
  /// The rates of callers whose unit is not known yet. A rule may name them: callers without a rule must not use these up.
  private var unidentified: ConnectRates

  init(
    _ application: any HTTPApplication, _ limits: HTTPServer.Limits, _ groups: ControlGroups, _ refused: RefusedCallers,
    _ logger: Logger
  ) {
    self.application = application as? any CallerApplication
    self.refused = refused
    self.groups = groups
    callers = LoopbackCallers(groups: groups)
    connects = UserConnects(limits, logger)
    unnamed = ConnectRates(perSecond: limits.unnamedConnectsPerSecond)
    unidentified = ConnectRates(perSecond: limits.unnamedConnectsPerSecond)
  }

  struct Admitted: Sendable {
    let origin: HTTPConnection.Origin
    var room = AcceptRoom.named
  }

  /// Nil: the connection is closed.
  ///
  /// - Parameters:
  ///   - own: the address of the listener; nil: a Unix socket.
  ///   - other: that of the client.
  mutating func admit(
    _ descriptor: Int32, _ own: SocketAddress?, _ other: UnsafeRawPointer, at now: NIODeadline
  ) -> Admitted? {
    let nobody = application?.identifiesCallers == true ? nil : Admitted(origin: .nobody)
    guard let own else {
      guard let credentials = Peer.credentials(of: descriptor), clinux_has_closed(descriptor) == 0 else {
        return nobody
      }
      guard connects.isWithinRate(credentials.uid, at: now) else { return nil }
      let caller: Caller
      do throws(Peer.Failure) {
        caller = try Peer(of: descriptor, credentials, groups: groups).caller
      } catch {
        guard case .exhausted = error else { return nobody }
        let unknown = Caller(uid: credentials.uid, gid: credentials.gid, groups: [], pid: credentials.pid)
        return admit(.unidentified(uid: credentials.uid), unknown, isIdentified: false, at: now)
      }
      return admit(.process(caller), caller, at: now)
    }
    guard let peer = own.withSockAddr({ own, _ in LoopbackPeer(of: descriptor, own: own, other: other) }) else {
      return nobody
    }
    if UserConnects.isUnlimited(peer.uid) { return Admitted(origin: .peer(peer)) }
    guard connects.isWithinRate(peer.uid, at: now) else { return nil }
    if let caller = callers.known(peer, at: now.sinceBoot) { return admit(.peer(peer), caller, at: now) }
    return admit(.peer(peer), callers.withoutUnit(peer), isIdentified: false, at: now)
  }

  private mutating func admit(
    _ origin: HTTPConnection.Origin, _ caller: Caller, isIdentified: Bool = true, at now: NIODeadline
  ) -> Admitted? {
    room(for: caller, isIdentified: isIdentified, at: now).map { Admitted(origin: origin, room: $0) }
  }

  /// The part of the queue that a connection takes; nil: it is closed.
  ///
  /// - Parameter isIdentified: its unit is known.
  mutating func room(for caller: Caller, isIdentified: Bool, at now: NIODeadline) -> AcceptRoom? {
    guard !UserConnects.isUnlimited(caller.uid) else { return .named }
    let share = Share(holder: caller.holder, callerClass: application?.callerClass(of: caller) ?? .named)
    // The share of a caller whose unit is not known yet may be another one.
    guard !isIdentified || !refused.contains(share, at: now) else { return nil }
    guard share.callerClass == .unnamed else { return .named }
    let user = SubordinateUsers.shared.owner(of: caller.uid) ?? caller.uid
    let isWithinRate = isIdentified ? unnamed.acquire(user, at: now) : unidentified.acquire(user, at: now)
    guard isWithinRate else {
      connects.report(user, unnamed.perSecond, at: now)
      return nil
    }
    return isIdentified ? .unnamed : .unidentified(user: user)
  }
}

/// The connections of each user in a second, except those of root and the broker's own user.
struct UserConnects: Sendable {
  private static let own = geteuid()

  private let logger: Logger
  private var rates: ConnectRates
  private var refusals = Refusals()

  init(_ limits: HTTPServer.Limits, _ logger: Logger) {
    self.logger = logger
    rates = ConnectRates(perSecond: limits.connectsPerSecond)
  }

  static func isUnlimited(_ uid: UInt32) -> Bool { uid == 0 || uid == own }

  mutating func isWithinRate(_ uid: UInt32, at now: NIODeadline) -> Bool {
    guard !Self.isUnlimited(uid) else { return true }
    let user = SubordinateUsers.shared.owner(of: uid) ?? uid
    guard !rates.acquire(user, at: now) else { return true }
    report(user, rates.perSecond, at: now)
    return false
  }

  mutating func report(_ user: UInt32, _ limit: Int, at now: NIODeadline) {
    guard let others = refusals.refused(at: now) else { return }
    logger.warning(
      "an HTTP connection was refused: uid \(user) opens more than \(limit) in a second\(others > 0 ? "; \(others) more before it" : "")",
      metadata: ["uid": "\(user)"])
  }
}

extension NIODeadline {
  /// The time for ``LoopbackCallers``.
  var sinceBoot: Duration { .nanoseconds(Int64(uptimeNanoseconds)) }
}

/// Callers that got no place a moment ago: further connections of theirs are refused before an event loop gets them.
final class RefusedCallers: Sendable {
  private static let remembered = TimeAmount.milliseconds(100)
  /// Callers without a rule take places from each other: a free one would be taken again at once.
  private static let rememberedUnnamed = TimeAmount.seconds(1)
  /// All are forgotten when there are more.
  private static let most = 1024

  /// A holder's callers without a rule, and those with one, are refused separately.
  private let until = Mutex<[Share: NIODeadline]>([:])

  func contains(_ share: Share, at now: NIODeadline) -> Bool {
    until.withLock { until in
      guard let end = until[share] else { return false }
      if now < end { return true }
      until[share] = nil
      return false
    }
  }

  func add(_ share: Share, at now: NIODeadline = .now()) {
    until.withLock { until in
      if until.count >= Self.most { until = [:] }
      until[share] = now + (share.isUnnamed ? Self.rememberedUnnamed : Self.remembered)
    }
  }

  /// One of its places is free.
  func remove(_ share: Share) {
    guard !share.isUnnamed else { return }
    until.withLock { _ = $0.removeValue(forKey: share) }
  }
}
