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
    listeners[descriptor] = shared.system.refuseDescriptors(descriptor) ? .passedBefore : .passed
    _ = accept(from: descriptor, atMost: AcceptPace.most)
    return true
  }

  /// Whether more may wait.
  func acceptWaiting() -> Bool {
    listeners.keys.map { accept(from: $0, atMost: AcceptPace.most) }.contains(true)
  }

  func stopListening() {
    for listener in listeners.keys { close(listener) }
    listeners = [:]
  }

  /// False: none is waiting, or accept4(2) failed.
  func accept(from listener: Int32, atMost limit: Int) -> Bool {
    let end = accepting.end(from: .now())
    for count in 0..<limit {
      let now = NIODeadline.now()
      if count >= AcceptPace.least, now >= end { return true }
      var address = sockaddr_un()
      var length = UInt32(MemoryLayout<sockaddr_un>.size)
      let socket = shared.system.accept(listener, &address, &length)
      if socket >= 0 {
        serve(socket, of: listener, CredentialPeer.name(address, length: Int(length)), at: now)
        if accepting.isPaused { return false }
        guard accepting.isFree(socket) else {
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
    let arrival = Arrival(shared.system.credentials(socket), wanted)
    guard isAdmitted(socket, arrival, mayReceiveDescriptors: listeners[listener] != .refused, at: now) else { return }
    let handler = ConnectionHandler(token: open.token(for: socket), loop: self, shared: shared)
    open.add(handler)
    handler.start(arrival, mayReceiveDescriptors: listeners[listener] != .refused)
  }

  /// Clients wait in the kernel's queue. The listeners stay readable, so that without the pause the loop would spin.
  func pauseAccepting(_ code: Int32) {
    guard let pause = accepting.pause(at: .now()) else { return }
    if let others = pause.report {
      shared.logger.warning(
        "connections have to wait: \(String(cString: strerror(code)))\(others > 0 ? " (\(others) times)" : "")",
        metadata: ["hint": "See what holds so many files open, or raise LimitNOFILE= of the service."])
    }
    for listener in listeners.keys { _ = poller.change(listener, LoopToken(listener, generation: 0), to: []) }
    timers.add(at: pause.end) { $0.goOnAccepting() }
  }

  private func goOnAccepting() {
    let free = fcntl(inbox.wakeup, F_DUPFD_CLOEXEC, 0)
    if free >= 0 { close(free) }
    guard free >= 0, accepting.isFree(free) else {
      timers.add(at: .now() + AcceptPace.pause) { $0.goOnAccepting() }
      return
    }
    accepting.goOn()
    for listener in listeners.keys { _ = poller.change(listener, LoopToken(listener, generation: 0), to: .input) }
  }
}
