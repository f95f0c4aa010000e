import BrokerAPI
import Glibc
import Listening
import Logging
import NIOCore
import Principals

// Lines are read, and answered at once or passed on.
extension ConnectionHandler {
  func read() {
    // Discarded input has a cost too.
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
      // It is not read further: the next data have the descriptor. Earlier requests are answered.
      let error = RPCError.invalidRequest("a connection accepts no descriptors: send only the request")
      outgoing.write(RPCReply.failure(.null, error).line())
      isRefusingInput = true
    } else if errno != EAGAIN {
      shared.logger.debug("a connection failed: \(String(cString: strerror(errno)))")
      return close()
    }
    catchUp()
  }

  /// It is closed after its requests are answered.
  var takesNoMore: Bool { hasInputEnded || isRefusingInput }

  /// Too much is unanswered or unread by the client: nothing more is taken from it.
  var isFull: Bool {
    guard let connection, !isClosing, heldBack == nil, outgoing.count <= limits.unread else { return true }
    return connection.running >= limits.requestsInFlight
  }

  /// Whether the client must finish a line that is read as it arrives.
  var isInsideLine: Bool { framer.isInsideLine && !isFull && !isRefusingInput }

  /// It has used its lines of this iteration, and continues in the next.
  var isResuming: Bool { framer.isStopped && !isFull }

  /// - Parameter received: nil: for the remaining data.
  func takeLines(of received: UnsafeRawBufferPointer? = nil) {
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
        isLate = false
        pace?.spend(requests: 1, bytes: limits.line)
        // It is unknown whether it was JSON.
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
    holdBack(.untilRoom, .requestMemory)
  }

  private func holdBack(_ until: HeldBack, _ what: SocketServer.Budgeted) {
    heldBack = until
    isLate = true
    table.countHeldBack(what, share)
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
    holdBack(.untilPaced, .rate)
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
      let scopes = plain.scopes.map { UnsafeRawBufferPointer(rebasing: line[$0]) }
      if let reply = tokens?.reply(account: account, minTTL: plain.minTTL, scopes: scopes) {
        isFirst = false
        isLate = false
        if isCounted { notCounted() }
        outgoing.write(reply, id: UnsafeRawBufferPointer(rebasing: line[plain.id]))
        return .request
      }
    }
    if mustWait() { return .later }
    let content = uncached(line, connection)
    if content != .later { pace?.spend(requests: 1, bytes: line.count) }
    return content
  }

  private func notCounted() {
    isCounted = false
    loop.connects.giveBack(SocketLoop.Arrival.user(of: uid))
  }

  private func uncached(_ line: UnsafeRawBufferPointer, _ connection: Connection) -> Content {
    guard let start = line.first(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return .nothing }
    if isFirst, start != UInt8(ascii: "{"), start != UInt8(ascii: "[") {
      // A program that can be made to send a request of another protocol, such as HTTP, may also send chosen lines
      // after it.
      isRefusingInput = true
      let error = RPCError.parseError("the first line does not begin with { or [: the connection is closed")
      outgoing.write(RPCReply.failure(.null, error).line())
      return .request
    }
    switch shared.answering.take(line, of: connection, isLate: isLate, reserved: &reserved) {
    case .taken:
      isLate = false
      isFirst = false
      return .request
    case .afterOwnAnswer: heldBack = .untilAnswer
    case .whenThereIsRoom: awaitRoom()
    }
    return .later
  }
}
