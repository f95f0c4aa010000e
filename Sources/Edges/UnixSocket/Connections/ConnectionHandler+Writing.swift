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
    let (outbox, isOverflown, hasRoom) = connection.takeOutbox()
    if hasRoom || heldBack == .untilAnswer { heldBack = nil }
    if isOverflown {
      if let others = loop.unreadClients.refused(at: .now()) {
        shared.logger.notice(
          "a client does not read what it is sent: closed\(others > 0 ? "; \(others) more before it" : "")",
          metadata: ["pid": "\(connection.caller.pid)"])
      }
      return close()
    }
    if outbox.finished > 0 { clock.noteActivity(in: loop.turn) }
    pace?.spend(bytes: outbox.pieces.count)
    outgoing.write(outbox)
    waiting = nil
    catchUp()
    if hasRoom, heldBack != .untilRoom { shared.answering.passOn(connection.share) }
  }

  /// Sends answers, continues where it was delayed, and waits for input.
  func catchUp() {
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

  /// The server has drained. From now on the client cannot send, and learns that at once; its earlier input is still
  /// answered: the input ends after it.
  func finish() {
    guard !isClosing else { return }
    sendOutbox()
    guard isOpen, !isClosing else { return }
    guard !isFull, shutdown(socket, Int32(SHUT_RD)) == 0 else { return closeWhenAnswered() }
    linger(limits.linger)
  }
}
