import BrokerAPI
import CLinux
import Glibc
import Logging
import NIOCore

/// One connection on the loop. A plain cached `token.get` is answered here, in the turn that read it; every other line waits
/// in the queue of ``Answering``. What a turn answers is sent in one piece.
final class ConnectionHandler {
  /// Lines taken in one turn, blank ones too.
  static let linesPerTurn = 256
  /// Bytes of a line that are read before memory is reserved for all of it, and of one read until then. So much is counted
  /// nowhere.
  static let uncounted = 16 * 1024

  let socket: Int32
  let token: LoopToken
  private(set) var uid = UInt32.max
  /// On whose account it is counted; nobody's until that is known.
  private(set) var share = Share(holder: .user(.max), callerClass: .unnamed)
  var pace: Pace?
  /// It owns this one until it is closed.
  let loop: SocketLoop
  let shared: Shared

  // One loop alone has them: what the runtime would check with each request cannot happen.
  @exclusivity(unchecked) var connection: Connection?
  @exclusivity(unchecked) var tokens: (any CachedTokens)?
  @exclusivity(unchecked) var framer: LineFramer
  @exclusivity(unchecked) var outgoing = Outgoing()
  /// Lines that may still be taken in this turn.
  private var linesLeft = 0
  private var turn: UInt64 = 0
  private var awaitsTurn = false
  var clock: ConnectionClock
  /// The line that is not finished, and the turn in which it began.
  var unfinished: (line: Int, since: UInt64)?
  /// What epoll reports of the socket; nil: not registered yet.
  private var watched: Poller.Readiness?
  /// Whether the client can send descriptors.
  var mayReceiveDescriptors = false
  var isOpen = true
  /// Why no line is taken; nil: lines are taken.
  private var heldBack: HeldBack?
  /// Bytes that are reserved for the line that is being read.
  private var reserved = 0
  private var hasInputEnded = false
  /// It has sent a descriptor, or speaks another protocol: nothing more is taken from it.
  private var isRefusingInput = false
  /// Nothing but blank lines has come.
  private var isFirst = true
  var isClosing = false
  /// Bytes that are still read and thrown away, so that a client which writes first finds its refusal to read: where they
  /// stayed unread, its next write would fail (unix(7)).
  var absorbing: Int?
  private var lingering: UInt64?
  /// Bytes that the client has not read, as the connection knows it; nil: it has to be told.
  private var waiting: Int? = 0

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
  /// - Parameters:
  ///   - wanted: what it asks for if it is the service manager, which is bound to a name of its own.
  ///   - mayReceiveDescriptors: whether the client can send descriptors.
  func start(_ wanted: CredentialName?, mayReceiveDescriptors: Bool) {
    if mayReceiveDescriptors { awaitDescriptors() }
    guard let credentials = shared.system.credentials(socket) else { return refuse(.unidentified) }
    uid = credentials.uid
    if wanted == nil, table.isDraining { return refuse(Answering.shuttingDown) }
    share = Share(holder: Holder(uid: uid), callerClass: .unnamed)
    let user = uid == 0 ? 0 : SubordinateUsers.shared.owner(of: uid) ?? uid
    // First, so that a storm of those who are refused costs no more than that.
    if wanted == nil, let refused = table.refusal(of: user, at: .now()) {
      share = refused.share
      table.countRefused()
      guard loop.mayAbsorb(share) else {
        table.countHeldBack(.connections, share)
        outgoing.write(refused.line)
        _ = outgoing.send(to: socket, giveBack: &loop.spare)
        return close()
      }
      return refuse(tooMany: refused.why)
    }
    do throws(Peer.Failure) {
      // Whoever asks for a credential is refused whatever else they are.
      let caller =
        try wanted == nil
        ? shared.system.caller(socket, credentials, shared.groups)
        : Caller(uid: uid, gid: credentials.gid, groups: [], pid: credentials.pid)
      let callerClass: CallerClass = wanted == nil ? shared.dispatcher.callerClass(of: .process(caller)) : .privileged
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
    var yes: Int32 = 1
    // See `clinux_receive_bytes`.
    setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &yes, socklen_t(MemoryLayout.size(ofValue: yes)))
    clinux_refuse_notes(socket)
  }

  /// The descriptor is closed last, so that its number is nobody else's before.
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

  /// What is kept for the connection's lines, and its place among those that wait for room.
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

  private func beginTurn() {
    if turn != loop.turn { (turn, linesLeft) = (loop.turn, Self.linesPerTurn) }
  }

  /// The turn after the one in which it asked for that.
  func resume() {
    awaitsTurn = false
    catchUp()
  }

  private func read() {
    // What is thrown away has its price too.
    if framer.isDiscarding, mustWait() { return watch() }
    let limit = reserved > 0 ? SocketLoop.receivedPerTurn : Self.uncounted
    let (count, bytes) = loop.receive(from: socket, atMost: limit, withoutDescriptors: mayReceiveDescriptors)
    if count > 0 {
      connection?.noteAsked()
      if framer.isDiscarding { pace?.spend(bytes: count) }
      takeLines(of: bytes)
      if framer.isInsideLine { clock.noteActivity(in: loop.turn) }
    } else if count == 0 {
      hasInputEnded = true
      // A last line without a newline counts: `printf '{…}' | nc -U …` is a fair question.
      if framer.isInsideLine { withUnsafeBytes(of: UInt8(ascii: "\n")) { takeLines(of: $0) } }
    } else if errno == EPERM, mayReceiveDescriptors {
      // It is not read on: what comes next has the descriptor. What was asked before is answered.
      let error = RPCError.invalidRequest("a connection takes no descriptors: send the request alone")
      outgoing.write(RPCReply.failure(.null, error).line())
      isRefusingInput = true
    } else if errno != EAGAIN {
      shared.logger.debug("a connection failed: \(String(cString: strerror(errno)))")
      return close()
    }
    catchUp()
  }

  /// It is closed when what it has asked is answered.
  private var takesNoMore: Bool { hasInputEnded || isRefusingInput }

  /// Too much is unanswered or unread by the client: nothing more is taken from it.
  private var isFull: Bool {
    guard let connection, !isClosing, heldBack == nil, outgoing.count <= limits.unread else { return true }
    return connection.running >= limits.requestsInFlight
  }

  /// Whether the client has to finish a line that is read as it comes.
  var isInsideLine: Bool { framer.isInsideLine && !isFull && !isRefusingInput }

  /// It has taken its lines of this turn, and goes on in the next.
  private var isResuming: Bool { framer.isStopped && !isFull }

  /// - Parameter received: nil: of what is left.
  private func takeLines(of received: UnsafeRawBufferPointer? = nil) {
    guard let connection, !isClosing else { return }
    beginTurn()
    outgoing.borrow(&loop.spare)
    var (left, hasAsked) = (linesLeft, false)
    framer.takeLines(of: received) { frame in
      switch frame {
      case .line(let line):
        switch answer(line, connection) {
        case .nothing: break
        case .request: hasAsked = true
        case .later: return .keep
        }
      case .tooLong:
        hasAsked = true
        pace?.spend(lines: 1, bytes: limits.line)
        // It cannot be told whether it was JSON.
        isRefusingInput = isRefusingInput || isFirst
        let error = RPCError.invalidRequest("line longer than \(limits.line) bytes")
        outgoing.write(RPCReply.failure(.null, error).line())
      }
      left -= 1
      return left > 0 && !isRefusingInput && connection.running < limits.requestsInFlight
        && outgoing.count < limits.unread ? .next : .stop
    }
    if isRefusingInput { framer = LineFramer(limit: limits.line) }
    linesLeft = left
    if hasAsked { clock.noteActivity(in: loop.turn) }
    let line = framer.isInsideLine ? framer.lines : nil
    if line != unfinished?.line { unfinished = line.map { ($0, loop.turn) } }
    reserve(connection)
  }

  /// A long line is read on where there is memory for all of it.
  private func reserve(_ connection: Connection) {
    if framer.kept < Self.uncounted {
      guard reserved > 0 else { return }
      shared.answering.giveBack(reserved, of: connection.share)
      reserved = 0
    } else if reserved == 0, framer.isInsideLine {
      reserved = shared.answering.reserve(for: connection)
      if reserved == 0 { awaitRoom() }
    }
  }

  private func awaitRoom() {
    heldBack = .untilRoom
    table.countHeldBack(.requestMemory, share)
  }

  private enum Content {
    /// It asks for nothing.
    case nothing
    case request
    /// It cannot be taken now.
    case later
  }

  /// Whether the holder has sent too much for now; then it is resumed when it may send more.
  private func mustWait() -> Bool {
    guard let pace, let due = pace.due(at: .now()) else { return false }
    heldBack = .untilPaced
    table.countHeldBack(.rate, share)
    if pace.wait(token) { loop.resumePaced(pace, at: due) }
    return true
  }

  func resumePaced() {
    if heldBack == .untilPaced { heldBack = nil }
    catchUp()
  }

  private func answer(_ line: UnsafeRawBufferPointer, _ connection: Connection) -> Content {
    if let plain = PlainTokenGet.scan(line), !table.isDraining {
      let account = UnsafeRawBufferPointer(rebasing: line[plain.account])
      if let reply = tokens?.reply(account: account, minTTL: plain.minTTL) {
        isFirst = false
        outgoing.write(reply, id: UnsafeRawBufferPointer(rebasing: line[plain.id]))
        return .request
      }
    }
    if mustWait() { return .later }
    let content = uncached(line, connection)
    if content != .later { pace?.spend(lines: 1, bytes: line.count) }
    return content
  }

  private func uncached(_ line: UnsafeRawBufferPointer, _ connection: Connection) -> Content {
    guard let start = line.first(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return .nothing }
    if isFirst, start != UInt8(ascii: "{"), start != UInt8(ascii: "[") {
      // Whoever can have a program send a request of another protocol, such as HTTP, may choose the lines behind it.
      isRefusingInput = true
      let error = RPCError.parseError("the first line does not begin with { or [: the connection is closed")
      outgoing.write(RPCReply.failure(.null, error).line())
      return .request
    }
    switch shared.answering.take(line, of: connection, reserved: &reserved) {
    case .taken:
      isFirst = false
      return .request
    case .afterOwnAnswer: heldBack = .untilAnswer
    case .whenThereIsRoom: awaitRoom()
    }
    return .later
  }

  // MARK: writing

  /// Takes the replies and notifications that tasks left in the outbox.
  func sendOutbox() {
    guard let connection else { return }
    let (outbox, isOverflown, hasRoom) = connection.takeOutbox()
    if hasRoom || heldBack == .untilAnswer { heldBack = nil }
    if isOverflown {
      shared.logger.notice(
        "a client does not read what it is sent: closed", metadata: ["pid": "\(connection.caller.pid)"])
      return close()
    }
    if outbox.finished > 0 { clock.noteActivity(in: loop.turn) }
    pace?.spend(bytes: outbox.pieces.count)
    outgoing.write(outbox)
    waiting = nil
    catchUp()
    if hasRoom, heldBack != .untilRoom { shared.answering.passOn(connection.share) }
  }

  /// Sends what was answered, goes on where it was held up, and waits for what comes next.
  private func catchUp() {
    beginTurn()
    send()
    while isOpen, isResuming, linesLeft > 0 {
      takeLines()
      send()
    }
    if isOpen, isResuming, !awaitsTurn {
      awaitsTurn = true
      loop.resume(self)
    }
    if isOpen, !isClosing, takesNoMore, !framer.isStopped, connection?.running == 0 { return closeWhenAnswered() }
    watch()
  }

  func send() {
    guard isOpen else { return }
    switch outgoing.send(to: socket, giveBack: &loop.spare) {
    case .failed: return close()
    case .everything where absorbing != nil: shutdown(socket, Int32(SHUT_WR))
    case .everything where isClosing: return close()
    case .everything, .some: break
    }
    if outgoing.count != waiting {
      waiting = outgoing.count
      connection?.waits(outgoing.count)
    }
    let notifications = outgoing.takeSentNotifications()
    if notifications > 0 { connection?.notificationsWritten(notifications) }
  }

  func watch() {
    guard isOpen else { return }
    var wanted: Poller.Readiness = absorbing == nil && (isFull || takesNoMore) ? [] : .input
    if outgoing.count > 0 { wanted.insert(.output) }
    guard wanted != watched else { return }
    guard loop.watch(self, for: wanted, isNew: watched == nil) else {
      shared.logger.warning("a connection was closed: epoll_ctl: \(String(cString: strerror(errno)))")
      return close()
    }
    watched = wanted
  }

  /// Closes as soon as the kernel has everything, or the client has had its time to make room.
  func closeWhenAnswered() {
    guard !isClosing else { return }
    isClosing = true
    // Else the client's next write fails, and it may never read why.
    if isRefusingInput, !hasInputEnded, absorbing == nil, loop.startAbsorbing(of: share) { absorbing = Self.absorbed }
    closeWhenSent(within: limits.linger)
  }

  func closeWhenSent(within limit: Duration) {
    send()
    guard isOpen else { return }
    linger(limit)
    watch()
  }

  private func linger(_ limit: Duration) {
    guard lingering == nil else { return }
    lingering = loop.timers.add(at: .now() + TimeAmount(limit)) { [weak self] _ in self?.close() }
  }

  /// The server has drained. From now on the client can send nothing more, and learns so at once; what it has sent
  /// before is still answered: the input ends behind it.
  func finish() {
    guard !isClosing else { return }
    sendOutbox()
    guard isOpen, !isClosing else { return }
    guard !isFull, shutdown(socket, Int32(SHUT_RD)) == 0 else { return closeWhenAnswered() }
    linger(limits.linger)
  }

  // MARK: time-outs

  func tick(_ now: NIODeadline) {
    guard let connection, !isClosing else { return }
    let unfinished = isInsideLine ? framer.lines : nil
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
