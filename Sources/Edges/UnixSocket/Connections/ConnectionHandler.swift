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
  /// Lines taken in one turn, blank ones too.
  static let linesPerTurn = 256
  /// Bytes of a line that are read before memory is reserved for all of it, and of one read until then. So much is counted
  /// nowhere.
  static let uncounted = 16 * 1024

  let socket: Int32
  let token: LoopToken
  private(set) var uid = UInt32.max
  /// It counts in ``ConnectRates`` until it gets a cached token.
  var isCounted = false
  /// On whose account it is counted; no user's until that is known.
  private(set) var share = Share(holder: .user(.max), callerClass: .unnamed)
  var pace: Pace<LoopToken>?
  /// It owns this one until it is closed.
  let loop: SocketLoop
  let shared: Shared

  // Used by only one loop: the runtime's check on each request cannot fail.
  @exclusivity(unchecked) var connection: Connection?
  @exclusivity(unchecked) var tokens: (any CachedTokens)?
  @exclusivity(unchecked) var framer: LineFramer
  @exclusivity(unchecked) var outgoing = Outgoing()
  /// Lines that may still be taken in this turn.
  var linesLeft = 0
  var turn: UInt64 = 0
  var awaitsTurn = false
  var clock: ConnectionClock
  /// The line that is not finished, and the turn in which it began.
  var unfinished: (line: Int, since: UInt64)?
  /// What epoll reports of the socket; nil: not registered yet.
  var watched: Poller.Readiness?
  /// Whether the client can send descriptors.
  var mayReceiveDescriptors = false
  var isOpen = true
  /// Why no line is taken; nil: lines are taken.
  var heldBack: HeldBack?
  /// The next line was held back.
  var isLate = false
  /// Bytes that are reserved for the line that is being read.
  var reserved = 0
  var hasInputEnded = false
  /// It has sent a descriptor, or speaks another protocol: nothing more is taken from it.
  var isRefusingInput = false
  /// Nothing but blank lines has come.
  var isFirst = true
  var isClosing = false
  /// Bytes that are still read and thrown away, so that a client which writes first finds its refusal to read: where they
  /// stayed unread, its next write would fail (unix(7)).
  var absorbing: Int?
  var lingering: UInt64?
  /// The unread bytes of the client, as the connection knows them; nil: it must be informed.
  var waiting: Int? = 0

  enum HeldBack {
    /// Until one of its requests is answered.
    case untilAnswer
    /// Until there is memory for its lines.
    case untilRoom
    /// Until its holder may send more.
    case untilPaced
  }

  init(socket: Int32, token: LoopToken, loop: SocketLoop, shared: Shared) {
    self.socket = socket
    self.token = token
    self.loop = loop
    self.shared = shared
    framer = LineFramer(limit: shared.limits.line)
    clock = ConnectionClock(at: .now(), in: loop.turn)
  }

  var table: ConnectionTable { shared.table }
  var limits: SocketServer.Limits { shared.limits }

  // MARK: beginning and end

  /// In the turn that accepted it: who connected is read now, as the process may become another program.
  ///
  /// - Parameter mayReceiveDescriptors: whether the client can send descriptors.
  func start(_ arrival: SocketLoop.Arrival, mayReceiveDescriptors: Bool) {
    if mayReceiveDescriptors { awaitDescriptors() }
    guard let credentials = arrival.credentials else { return refuse(.unidentified) }
    let (user, wanted, isManager) = (arrival.user, arrival.wanted, arrival.isManager)
    (uid, isCounted) = (credentials.uid, !arrival.isUnlimited)
    share = arrival.share
    if wanted == nil, table.isDraining { return refuse(Answering.shuttingDown) }
    if !isManager, let refused = table.refusal(of: user, at: .now()) {
      share = refused.share
      table.countRefused()
      return refuse(tooMany: refused.why)
    }
    do throws(Peer.Failure) {
      // A client that asks for a credential is refused anyway.
      let caller =
        try wanted == nil
        ? shared.system.caller(socket, credentials, shared.groups)
        : Caller(uid: user, gid: credentials.gid, groups: [], pid: credentials.pid)
      let callerClass: CallerClass =
        wanted == nil
        ? shared.dispatcher.callerClass(of: .process(caller)) : isManager ? .privileged : .unnamed
      let connection = Connection(
        caller: caller, callerClass: callerClass, token: token, inbox: loop.inbox, table: table, limits: limits)
      share = connection.share
      if let why = takePlace(remembering: user) { return wanted == nil ? refuse(tooMany: why) : close() }
      table.add(connection)
      self.connection = connection
    } catch {
      return refuse(error)
    }
    pace?.connections += 1
    if let wanted { return refuse(wanted) }
    tokens = connection.map { shared.dispatcher.cachedTokens(for: $0.principal) }
    // Most clients have asked by now.
    read()
  }

  private func awaitDescriptors() {
    mayReceiveDescriptors = true
    SocketLoop.awaitDescriptors(on: socket)
  }

  /// The descriptor is closed last, so that its number is not reused earlier.
  func close() {
    guard isOpen else { return }
    isOpen = false
    isClosing = true
    if let lingering { loop.timers.cancel(lingering) }
    if absorbing != nil { loop.endAbsorbing(of: share) }
    let holdsDescriptors = mayReceiveDescriptors && !hasInputEnded && !loop.emptyInput(of: socket)
    let connection = connection
    releaseMemory()
    self.connection = nil
    tokens = nil
    connection?.ended(hasDescriptor: holdsDescriptors)
    loop.forget(self)
    if holdsDescriptors {
      loop.closeElsewhere(self) { connection?.descriptorClosed() }
    } else {
      Glibc.close(socket)
    }
  }

  /// The reserved amount of the connection's lines, and its slot in the queue for room.
  func releaseMemory() {
    guard let connection else { return }
    pace?.connections -= 1
    if heldBack == .untilRoom { shared.answering.forget(connection) }
    if heldBack == .untilRoom || reserved > 0 { shared.answering.giveBack(reserved, of: connection.share) }
    (heldBack, reserved) = (nil, 0)
  }

  // MARK: the loop's turn

  func take(_ readiness: Poller.Readiness) {
    if absorbing != nil {
      absorb()
    } else if isResuming {
      catchUp()
    } else if isFull || takesNoMore {
      // The client has closed: no reply can reach it, and nothing more is read from it.
      guard readiness.isDisjoint(with: .end) else { return close() }
      catchUp()
    } else if readiness.isDisjoint(with: [.input, .end]) {
      catchUp()
    } else {
      read()
    }
  }

  func beginTurn() {
    if turn != loop.turn { (turn, linesLeft) = (loop.turn, Self.linesPerTurn) }
  }

  /// The turn after the one in which it asked for that.
  func resume() {
    awaitsTurn = false
    catchUp()
  }

  // MARK: time-outs

  func tick(_ now: NIODeadline) {
    guard let connection, !isClosing else { return }
    // While requests run, their answers are still to come.
    let unfinished = isInsideLine && connection.running == 0 ? framer.lines : nil
    switch clock.look(
      at: now, limits, isBusy: connection.running > 0 || heldBack != nil, isHeldOpen: connection.isHeldOpen,
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
