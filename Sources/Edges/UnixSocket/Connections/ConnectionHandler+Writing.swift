import Glibc
import Listening
import Logging
import NIOCore
import Principals

// Answers and events are sent; the end of a connection waits for them.
extension ConnectionHandler {
  /// Takes the replies and notifications that tasks left in the outbox.
  func sendOutbox() {
    guard let connection else { return }
    let (outbox, isOverflown, hasRoom) = connection.drainOutbox()
    state.hold.answered(hasRoom: hasRoom)
    if isOverflown {
      if let others = loop.refused.unread.refused(at: .now()) {
        shared.logger.notice(
          "a client does not read what it is sent: closed\(others > 0 ? "; \(others) more before it" : "")",
          metadata: ["pid": "\(connection.caller.pid)"])
      }
      return close()
    }
    if outbox.finished > 0 { clock.recordActivity(in: loop.turn) }
    client.pace?.spend(bytes: outbox.pieces.count)
    outgoing.write(outbox)
    registered.unread = nil
    catchUp()
    if hasRoom, state.hold.state != .untilRoom { shared.answering.passOn(connection.share) }
  }

  /// Sends answers, continues where it was delayed, and waits for input.
  func catchUp() {
    turn.begin(loop.turn)
    send()
    while true {
      switch state.caughtUp(load, mayTakeLines: turn.left > 0) {
      case .takeLines:
        handleLines()
        send()
        continue
      case .resume: if turn.awaitNext() { loop.resume(self) }
      case .end: return closeWhenAnswered()
      case .watch: break
      }
      return watch()
    }
  }

  func send() {
    guard !state.isClosed else { return }
    switch outgoing.send(to: socket, giveBack: &loop.buffers.spare) {
    case .failed: return close()
    case .some: break
    case .everything:
      switch state.sentAll() {
      case .goOn: break
      case .endOutput: shutdown(socket, Int32(SHUT_WR))
      case .close: return close()
      }
    }
    if outgoing.count != registered.unread {
      registered.unread = outgoing.count
      connection?.waits(outgoing.count)
    }
    let notifications = outgoing.drainSentNotifications()
    if notifications > 0 { connection?.notificationsWritten(notifications) }
  }

  func watch() {
    guard !state.isClosed else { return }
    let wanted = state.wanted(load, hasOutput: outgoing.count > 0)
    guard wanted != registered.readiness else { return }
    guard loop.watch(self, for: wanted, isNew: registered.readiness == nil) else {
      shared.logger.warning("a connection was closed: epoll_ctl: \(String(cString: strerror(errno)))")
      return close()
    }
    registered.readiness = wanted
  }

  /// Closes as soon as the kernel has everything, or the client has had its time to make room.
  func closeWhenAnswered() {
    end(state.end(mayAbsorb: loop.refused.startAbsorbing(of: share)), within: limits.linger)
  }

  func end(_ ending: ConnectionState.Ending, within limit: Duration) {
    guard ending != .nothing else { return }
    send()
    guard !state.isClosed else { return }
    if ending == .linger { setDeadline(limit) }
    watch()
  }

  private func setDeadline(_ limit: Duration) {
    registered.deadline = loop.timers.add(at: .now() + TimeAmount(limit)) { [weak self] _ in self?.close() }
  }

  /// The server has drained. From now on the client cannot send, and learns that at once; its earlier input is still
  /// answered: the input ends after it.
  func finish() {
    guard state.isServed else { return }
    sendOutbox()
    switch state.finish(load) {
    case .endInput where shutdown(socket, Int32(SHUT_RD)) == 0: if state.inputWasEnded() { setDeadline(limits.linger) }
    case .endInput, .end: closeWhenAnswered()
    case .nothing: break
    }
  }
}
