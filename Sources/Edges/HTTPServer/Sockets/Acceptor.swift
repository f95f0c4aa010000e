import CLinux
import Glibc
import Listening
import Logging
import NIOCore
import Platform
import Synchronization

/// Accepts the connections of a server on a separate thread. The kernel's queue does not separate users: a client waits
/// for all connections before its own. So a refused connection costs a few system calls here, and the event loops get
/// only connections that are admitted.
final class Acceptor: Sendable {
  struct Listener: Sendable {
    let descriptor: Int32
    /// Nil: a Unix socket.
    let address: SocketAddress?
  }

  struct Accepted: Sendable {
    let descriptor: Int32
    let origin: HTTPConnection.Origin
  }

  /// Connections of one listener between two looks at the others.
  private static let batch = 64
  /// Milliseconds until it looks again, if the event loop has taken none, and after accept4(2) failed.
  private static let fullPause: Int32 = 1
  private static let failurePause: Int32 = 500

  private struct State {
    var waiting = AcceptQueue<Accepted>()
    /// The event loop will take them.
    var isScheduled = false
    var isStopping = false
    var hasEnded = false
    var stopped: CheckedContinuation<Void, Never>?
  }

  private let listeners: [Listener]
  private let wakeup: Int32
  private let loop: any EventLoop
  private let logger: Logger
  private let take: @Sendable (Accepted) -> Void
  private let signal: NIOLoopBoundBox<LoopSignal?>
  private let state = Mutex(State())

  /// - Parameters:
  ///   - listeners: they belong to the acceptor from now on.
  ///   - take: called on the event loop; owns the descriptor.
  init(
    _ listeners: [Listener], _ admission: Admission, on loop: any EventLoop, _ logger: Logger,
    take: @escaping @Sendable (Accepted) -> Void
  ) throws(HTTPServer.SystemError) {
    self.listeners = listeners
    self.loop = loop
    self.logger = logger
    self.take = take
    signal = .makeBoxSendingValue(nil, eventLoop: loop)
    wakeup = clinux_wakeup()
    let code = wakeup < 0 ? errno : OwnThread.start("http-accept") { [self] in run(admission) }
    guard code == 0 else {
      closeAll()
      throw HTTPServer.SystemError(code: code)
    }
  }

  /// Accepts no more: the sockets are closed when it returns.
  func stop() async {
    await withCheckedContinuation { continuation in
      let hasEnded = state.withLock { state in
        state.isStopping = true
        if !state.hasEnded { state.stopped = continuation }
        return state.hasEnded
      }
      if hasEnded { continuation.resume() } else { _ = clinux_wake(wakeup) }
    }
  }

  private func closeAll() {
    for listener in listeners { close(listener.descriptor) }
    if wakeup >= 0 { close(wakeup) }
  }

  // MARK: The thread

  private func run(_ admission: Admission) {
    var admission = admission
    var failures = Refusals()
    var pause: Int32 = -1
    while !state.withLock({ $0.isStopping }) {
      // During a pause only the end is waited for.
      var wanted = [pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0)]
      if pause < 0 { wanted += listeners.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) } }
      _ = poll(&wanted, nfds_t(wanted.count), pause)
      pause = -1
      for (listener, seen) in zip(listeners, wanted.dropFirst()) where seen.revents != 0 {
        let code = accept(from: listener, &admission)
        if code != 0 {
          pause = Self.failurePause
          report(code, &failures)
        }
      }
      if pause < 0, state.withLock({ $0.waiting.isFull }) { pause = Self.fullPause }
    }
    // The thread that waits for the end may use the address again at once.
    for listener in listeners { close(listener.descriptor) }
    let stopped = state.withLock { state in
      state.hasEnded = true
      return state.stopped.take()
    }
    close(wakeup)
    loop.execute { [self] in closeSignal() }
    stopped?.resume()
  }

  /// 0, or the errno of accept4(2).
  private func accept(from listener: Listener, _ admission: inout Admission) -> Int32 {
    var accepted: [(Accepted, AcceptRoom)] = []
    var code: Int32 = 0
    for _ in 0..<Self.batch {
      var other = sockaddr_storage()
      var length = UInt32(MemoryLayout<sockaddr_storage>.size)
      let descriptor = clinux_accept(listener.descriptor, &other, &length)
      guard descriptor >= 0 else {
        code = errno
        // This client hung up; others may be waiting.
        if code == ECONNABORTED { continue }
        break
      }
      code = 0
      if let admitted = admission.admit(descriptor, listener.address, &other, at: .now()),
        state.withLock({ $0.waiting.reserve(admitted.room) })
      {
        accepted.append((Accepted(descriptor: descriptor, origin: admitted.origin), admitted.room))
        // The event loop takes them while others are accepted, which have more room then.
        if accepted.count == AcceptQueue<Accepted>.batch {
          handOver(accepted)
          accepted = []
        }
      } else {
        close(descriptor)
      }
    }
    if !accepted.isEmpty { handOver(accepted) }
    return code == EAGAIN || code == ECONNABORTED ? 0 : code
  }

  private func handOver(_ accepted: [(Accepted, AcceptRoom)]) {
    let isScheduled = state.withLock { state in
      state.waiting.append(accepted)
      defer { state.isScheduled = true }
      return state.isScheduled
    }
    if !isScheduled { loop.execute { [self] in drainSome() } }
  }

  // MARK: The event loop

  private func drainSome() {
    let (some, hasMore) = state.withLock { state in
      let some = state.waiting.removeBatch()
      state.isScheduled = !state.waiting.isEmpty
      return (some, state.isScheduled)
    }
    for one in some { take(one) }
    guard hasMore else { return }
    if signal.value == nil { signal.value = LoopSignal(loop) { [weak self] in self?.drainSome() } }
    if let signal = signal.value, !signal.isClosed { return signal.send() }
    loop.execute { [self] in drainSome() }
  }

  private func closeSignal() {
    guard let signal = signal.value else { return }
    // Those that still wait are taken without it.
    signal.close()
    drainSome()
  }

  // MARK: Failures

  private func report(_ code: Int32, _ failures: inout Refusals) {
    guard failures.refused(at: .now()) != nil else { return }
    logger.warning(
      "connections have to wait: \(String(cString: strerror(code)))",
      metadata: ["hint": "See what holds so many files open, or raise LimitNOFILE= of the service."])
  }
}
