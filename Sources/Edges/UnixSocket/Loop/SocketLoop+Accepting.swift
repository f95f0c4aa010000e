import CLinux
import Glibc
import Listening
import Logging
import NIOCore

extension SocketLoop {
  /// The loop owns the descriptor from now on.
  func listen(on descriptor: Int32) -> Bool {
    guard poller.add(descriptor, LoopToken(descriptor, generation: 0), for: .input) else { return false }
    clinux_refuse_notes(descriptor)
    listeners[descriptor] = system.refuseDescriptors(descriptor) ? .passedBefore : .passed
    _ = accept(from: descriptor, atMost: Self.acceptsPerTurn)
    return true
  }

  /// Whether more may wait.
  func acceptWaiting() -> Bool {
    listeners.keys.map { accept(from: $0, atMost: Self.acceptsPerTurn) }.contains(true)
  }

  func stopListening() {
    for listener in listeners.keys { close(listener) }
    listeners = [:]
  }

  /// False: none is waiting, or accept4(2) failed.
  func accept(from listener: Int32, atMost limit: Int) -> Bool {
    let end = NIODeadline.now() + acceptTime
    for count in 0..<limit {
      let now = NIODeadline.now()
      if count >= Self.leastAccepts, now >= end { return true }
      var address = sockaddr_un()
      var length = UInt32(MemoryLayout<sockaddr_un>.size)
      let socket = system.accept(listener, &address, &length)
      if socket >= 0 {
        serve(socket, of: listener, CredentialPeer.name(address, length: Int(length)), at: now)
        if isAcceptingPaused { return false }
        // The lowest free number is given out: as many are taken.
        guard socket < lastDescriptor else {
          pauseAccepting(EMFILE)
          return false
        }
        continue
      }
      switch errno {
      case EAGAIN:
        if listeners[listener] == .passedBefore { listeners[listener] = .refused }
        return false
      // This client hung up; others may be waiting.
      case ECONNABORTED: continue
      case let code:
        pauseAccepting(code)
        return false
      }
    }
    return true
  }

  private func serve(_ socket: Int32, of listener: Int32, _ wanted: CredentialName?, at now: NIODeadline) {
    let arrival = Arrival(system.credentials(socket), wanted)
    guard isAdmitted(socket, arrival, mayReceiveDescriptors: listeners[listener] != .refused, at: now) else { return }
    generation = generation == .max ? 1 : generation + 1
    let handler = makeHandler(socket, LoopToken(socket, generation: generation), self)
    while handlers.count <= Int(socket) { handlers.append(nil) }
    handlers[Int(socket)] = handler
    handler.start(arrival, mayReceiveDescriptors: listeners[listener] != .refused)
  }

  /// Clients wait in the kernel's queue. The listeners stay readable, so that without the pause the loop would spin.
  func pauseAccepting(_ code: Int32) {
    guard !isAcceptingPaused else { return }
    isAcceptingPaused = true
    let now = NIODeadline.now()
    if let others = refusedDescriptors.refused(at: now) {
      logger.warning(
        "connections have to wait: \(String(cString: strerror(code)))\(others > 0 ? " (\(others) times)" : "")",
        metadata: ["hint": "See what holds so many files open, or raise LimitNOFILE= of the service."])
    }
    for listener in listeners.keys { _ = poller.change(listener, LoopToken(listener, generation: 0), to: []) }
    timers.add(at: now + Self.acceptPause) { $0.goOnAccepting() }
  }

  private func goOnAccepting() {
    let free = fcntl(inbox.wakeup, F_DUPFD_CLOEXEC, 0)
    if free >= 0 { close(free) }
    guard free >= 0, free < lastDescriptor else {
      timers.add(at: .now() + Self.acceptPause) { $0.goOnAccepting() }
      return
    }
    isAcceptingPaused = false
    for listener in listeners.keys { _ = poller.change(listener, LoopToken(listener, generation: 0), to: .input) }
  }
}
