import BrokerAPI
import CLinux
import Callers
import Glibc
import Listening
import Logging
import NIOCore
import Principals

/// One connection on the loop. A plain cached `token.get` is answered here, in the iteration that read it; every other
/// line waits in the queue of ``Answering``. The answers of an iteration are sent in one piece.
final class ConnectionHandler {
  /// Bytes of a line that are read before memory is reserved for all of it, and of one read until then. So much is counted
  /// nowhere.
  static let uncounted = 16 * 1024

  let token: LoopToken
  /// It owns this one until it is closed.
  let loop: SocketLoop
  let shared: Shared
  var client: Client

  // Used by only one loop: the runtime's check on each request cannot fail.
  @exclusivity(unchecked) var connection: Connection?
  @exclusivity(unchecked) var tokens: (any CachedTokens)?
  @exclusivity(unchecked) var framer: LineFramer
  @exclusivity(unchecked) var outgoing = Outgoing()
  @exclusivity(unchecked) var state = ConnectionState()
  @exclusivity(unchecked) var turn = LineTurn()
  @exclusivity(unchecked) var clock: ConnectionClock
  var registered = Registered()

  /// The other end, as the kernel reported it at accept.
  struct Client {
    fileprivate(set) var uid = UInt32.max
    /// The same, or the owner of a subordinate user id.
    fileprivate(set) var user = UInt32.max
    /// On whose account it is counted; no user's until that is known.
    fileprivate(set) var share = Share(holder: .user(.max), callerClass: .unnamed)
    /// It counts in ``ConnectRates`` until it gets a cached token.
    var isCounted = false
    /// Whether it can send descriptors.
    fileprivate(set) var mayReceiveDescriptors = false
    var pace: Pace<LoopToken>?
  }

  /// The figures of the connection that epoll, the table and the timers have.
  struct Registered {
    /// The events that epoll reports of the socket; nil: not registered yet.
    var readiness: Poller.Readiness?
    /// The unread bytes of the client; nil: the connection must be informed.
    var unread: Int? = 0
    /// The timer of its deadline.
    var deadline: UInt64?
  }

  init(token: LoopToken, loop: SocketLoop, shared: Shared) {
    self.token = token
    self.loop = loop
    self.shared = shared
    client = Client()
    framer = LineFramer(limit: shared.limits.line)
    clock = ConnectionClock(at: .now(), in: loop.turn)
  }

  var socket: Int32 { token.descriptor }
  var share: Share { client.share }
  var table: ConnectionTable { shared.table }
  var limits: SocketServer.Limits { shared.limits }

  // MARK: beginning and end

  /// In the turn that accepted it: who connected is read now, as the process may become another program.
  ///
  /// - Parameter mayReceiveDescriptors: whether the client can send descriptors.
  func start(_ arrival: SocketLoop.Arrival, mayReceiveDescriptors: Bool) {
    if mayReceiveDescriptors { awaitDescriptors() }
    guard let credentials = arrival.credentials else { return refuse(.unidentified) }
    let (wanted, isManager) = (arrival.wanted, arrival.isManager)
    (client.uid, client.user, client.isCounted) = (credentials.uid, arrival.user, !arrival.isUnlimited)
    client.share = arrival.share
    if wanted == nil, table.isDraining { return refuse(Answering.shuttingDown) }
    do throws(Peer.Failure) {
      // A client that asks for a credential is refused anyway.
      let caller =
        try wanted == nil
        ? shared.system.caller(socket, credentials, shared.groups)
        : Caller(uid: arrival.user, gid: credentials.gid, groups: [], pid: credentials.pid)
      let callerClass: CallerClass =
        wanted == nil
        ? shared.dispatcher.callerClass(of: .process(caller)) : isManager ? .privileged : .unnamed
      let connection = Connection(
        caller: caller, callerClass: callerClass, token: token, inbox: loop.inbox, table: table, limits: limits)
      client.share = connection.share
      if let why = admit() { return wanted == nil ? refuse(tooMany: why) : close() }
      table.add(connection)
      self.connection = connection
    } catch {
      return refuse(error)
    }
    client.pace?.connections += 1
    if let wanted { return refuse(wanted) }
    tokens = connection.map { shared.dispatcher.cachedTokens(for: $0.principal) }
    // Most clients have asked by now.
    read()
  }

  private func awaitDescriptors() {
    client.mayReceiveDescriptors = true
    SocketLoop.awaitDescriptors(on: socket)
  }

  /// The descriptor is closed last, so that its number is not reused earlier.
  func close() {
    guard let (wasAbsorbing, hasInputEnded) = state.close() else { return }
    if let deadline = registered.deadline { loop.timers.cancel(deadline) }
    if wasAbsorbing { loop.refused.endAbsorbing(of: share) }
    let holdsDescriptors = client.mayReceiveDescriptors && !hasInputEnded && !loop.buffers.emptyInput(of: socket)
    let connection = connection
    releaseMemory()
    self.connection = nil
    tokens = nil
    connection?.ended(hasDescriptor: holdsDescriptors)
    loop.open.remove(token)
    if holdsDescriptors {
      loop.closeElsewhere(self) { connection?.descriptorClosed() }
    } else {
      Glibc.close(socket)
    }
  }

  /// The reserved amount of the connection's lines, and its slot in the queue for room.
  func releaseMemory() {
    guard let connection else { return }
    client.pace?.connections -= 1
    let (isQueued, reserved) = state.hold.release()
    if isQueued { shared.answering.remove(connection) }
    if isQueued || reserved > 0 { shared.answering.giveBack(reserved, of: connection.share) }
  }

  // MARK: the loop's turn

  func handle(_ readiness: Poller.Readiness) {
    switch state.ready(readiness, load) {
    case .read: read()
    case .absorb: absorb()
    case .catchUp: catchUp()
    case .close: close()
    }
  }

  var load: ConnectionState.Load {
    guard let connection else { return .init(isAtLimit: true, hasLines: framer.isStopped, isIdle: false) }
    let running = connection.running
    return .init(
      isAtLimit: outgoing.count > limits.unread || running >= limits.requestsInFlight, hasLines: framer.isStopped,
      isIdle: running == 0)
  }

  /// The turn after the one in which it asked for that.
  func resume() {
    turn.resume()
    catchUp()
  }

  // MARK: time-outs

  func tick(_ now: NIODeadline) {
    guard let connection, state.isServed else { return }
    // While requests run, their answers are still to come.
    let unfinished = isInsideLine && connection.running == 0 ? framer.lines : nil
    switch clock.check(
      at: now, limits, isBusy: connection.running > 0 || state.hold.isHeld, isHeldOpen: connection.isHeldOpen,
      unfinishedLine: unfinished)
    {
    case .good: break
    case .unfinished: refuse(.invalidRequest("the line was not finished within \(limits.partialLine)"))
    case .idle:
      shared.logger.debug("a connection was idle: closed", metadata: ["pid": "\(connection.caller.pid)"])
      closeWhenAnswered()
    }
  }
}
