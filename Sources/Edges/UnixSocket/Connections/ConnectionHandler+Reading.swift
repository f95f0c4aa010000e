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
    let limit = state.hold.reserved > 0 ? LoopBuffers.receivedPerTurn : Self.uncounted
    let (count, bytes) = loop.buffers.receive(
      from: socket, atMost: limit, withoutDescriptors: client.mayReceiveDescriptors)
    if count > 0 {
      connection?.markAsked()
      if framer.isDiscarding { client.pace?.spend(bytes: count) }
      handleLines(of: bytes)
      if framer.isInsideLine { clock.recordActivity(in: loop.turn) }
    } else if count == 0 {
      state.inputEnded()
      // A last line without a newline counts: `printf '{…}' | nc -U …` is a fair question.
      if framer.isInsideLine { withUnsafeBytes(of: UInt8(ascii: "\n")) { handleLines(of: $0) } }
    } else if errno == EPERM, client.mayReceiveDescriptors {
      // It is not read further: the next data have the descriptor. Earlier requests are answered.
      let error = RPCError.invalidRequest("a connection accepts no descriptors: send only the request")
      outgoing.write(RPCReply.failure(.null, error).line())
      state.refuseInput()
    } else if errno != EAGAIN {
      shared.logger.debug("a connection failed: \(String(cString: strerror(errno)))")
      return close()
    }
    catchUp()
  }

  /// Whether the client must finish a line that is read as it arrives.
  var isInsideLine: Bool { framer.isInsideLine && state.awaitsLine(load) }

  /// - Parameter received: nil: for the remaining data.
  func handleLines(of received: UnsafeRawBufferPointer? = nil) {
    guard let connection, state.isServed else { return }
    turn.begin(loop.turn)
    outgoing.borrow(&loop.buffers.spare)
    var (left, hasAsked) = (turn.left, false)
    framer.consumeLines(of: received) { frame in
      switch frame {
      case .line(let line):
        switch answer(line, connection) {
        case .nothing: break
        case .request: hasAsked = true
        case .later: return .keep
        }
      case .tooLong:
        hasAsked = true
        client.pace?.spend(requests: 1, bytes: limits.line)
        state.lineTooLong()
        let error = RPCError.invalidRequest("line longer than \(limits.line) bytes")
        outgoing.write(RPCReply.failure(.null, error).line())
      }
      left -= 1
      return left > 0 && !state.isRefusingInput && connection.running < limits.requestsInFlight
        && outgoing.count < limits.unread ? .next : .stop
    }
    if state.isRefusingInput { framer = LineFramer(limit: limits.line) }
    turn.left = left
    if hasAsked { clock.recordActivity(in: loop.turn) }
    clock.recordLine(framer.isInsideLine ? framer.lines : nil, in: loop.turn)
    reserve(connection)
  }

  /// A long line is read on where there is memory for all of it.
  private func reserve(_ connection: Connection) {
    if framer.kept < Self.uncounted {
      guard state.hold.reserved > 0 else { return }
      shared.answering.giveBack(state.hold.reserved, of: connection.share)
      state.hold.reserved = 0
    } else if state.hold.reserved == 0, framer.isInsideLine {
      state.hold.reserved = shared.answering.reserve(for: connection)
      if state.hold.reserved == 0 { awaitRoom() }
    }
  }

  private func awaitRoom() {
    holdBack(until: .room, .requestMemory)
  }

  private func holdBack(until cause: LineHold.Cause, _ what: SocketServer.Budgeted) {
    state.hold.holdBack(until: cause)
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
    guard let pace = client.pace, let due = pace.due(at: .now()) else { return false }
    holdBack(until: .pace, .rate)
    if pace.wait(token) { loop.resumePaced(pace, at: due) }
    return true
  }

  func resumePaced() {
    state.hold.paced()
    catchUp()
  }

  private func answer(_ line: UnsafeRawBufferPointer, _ connection: Connection) -> Content {
    if let plain = PlainTokenGet.scan(line), !table.isDraining {
      let account = UnsafeRawBufferPointer(rebasing: line[plain.account])
      let scopes = plain.scopes.map { UnsafeRawBufferPointer(rebasing: line[$0]) }
      if let reply = tokens?.reply(account: account, minTTL: plain.minTTL, scopes: scopes) {
        state.requestTaken()
        if client.isCounted { notCounted() }
        outgoing.write(reply, id: UnsafeRawBufferPointer(rebasing: line[plain.id]))
        return .request
      }
    }
    if mustWait() { return .later }
    let content = uncached(line, connection)
    if content != .later { client.pace?.spend(requests: 1, bytes: line.count) }
    return content
  }

  private func notCounted() {
    client.isCounted = false
    loop.rates.connects.giveBack(client.user)
  }

  private func uncached(_ line: UnsafeRawBufferPointer, _ connection: Connection) -> Content {
    guard let start = line.first(where: { $0 != 0x20 && $0 != 0x09 && $0 != 0x0D }) else { return .nothing }
    if state.isFirst, start != UInt8(ascii: "{"), start != UInt8(ascii: "[") {
      // A program that can be made to send a request of another protocol, such as HTTP, may also send chosen lines
      // after it.
      state.refuseInput()
      let error = RPCError.parseError("the first line does not begin with { or [: the connection is closed")
      outgoing.write(RPCReply.failure(.null, error).line())
      return .request
    }
    switch shared.answering.enqueue(line, of: connection, isLate: state.hold.isLate, reserved: &state.hold.reserved) {
    case .taken:
      state.requestTaken()
      return .request
    case .afterOwnAnswer: state.hold.holdBack(until: .answer)
    case .whenThereIsRoom: awaitRoom()
    }
    return .later
  }
}
