import BrokerAPI
import CLinux
import Glibc
import Listening
import Logging
import NIOCore
import Platform
import Principals

/// The thread that serves the socket: accepts, reads, answers cached requests and writes. Only it uses this state;
/// other threads post to the inbox.
///
/// One thread is enough: a cached token costs it a few microseconds, most of them in the kernel. With a second one each
/// request would need locks.
final class SocketLoop {
  /// A system call without which there is no loop.
  struct Failure: Error {
    var call: String
    var code: Int32
  }

  /// Whether clients of a listener can send descriptors along with their bytes (SCM_RIGHTS). Closing one takes as long as
  /// its sender likes, such as with SO_LINGER, so the loop neither receives nor closes any.
  enum Descriptors {
    /// Before Linux 6.16.
    case passed
    /// Those that connected before this process could forbid it, and may still be waiting.
    case passedBefore
    case refused
  }

  /// Users' requests and connections in a second.
  struct Rates {
    var requests: Paces<LoopToken>
    var connects: ConnectRates
  }

  struct Iteration {
    fileprivate(set) var number: UInt64 = 0
    /// Those that have lines left for the next turn.
    fileprivate var resuming: [LoopToken] = []
    fileprivate var isLast = false
  }

  let inbox: LoopInbox
  let poller: Poller
  let shared: ConnectionHandler.Shared
  let closer: Closer
  var open = OpenConnections()
  var listeners: [Int32: Descriptors] = [:]
  var accepting: AcceptPace
  var refused: RefusedClients
  var rates: Rates
  var timers = Timers()
  // Used by only its thread: the runtime's check on each request cannot fail.
  @exclusivity(unchecked) private var iteration = Iteration()
  @exclusivity(unchecked) var buffers = LoopBuffers()

  private init(_ shared: ConnectionHandler.Shared) throws(Failure) {
    inbox = try LoopInbox()
    poller = try Poller()
    self.shared = shared
    closer = Closer(close: shared.system.closeSlowly)
    let limits = shared.limits
    accepting = AcceptPace(
      lastDescriptor: Int32(clamping: SocketServer.descriptorLimit - SocketServer.keptBackDescriptors))
    refused = RefusedClients(connectsPerSecond: limits.connectsPerSecond)
    rates = Rates(
      requests: Paces(limits.rates, unnamedShare: limits.unnamedShare),
      connects: ConnectRates(perSecond: limits.connectsPerSecond))
    let token = LoopToken(inbox.wakeup, generation: 0)
    guard poller.add(inbox.wakeup, token, for: [.input, .edge]) else { throw Failure(call: "epoll_ctl", code: errno) }
  }

  /// Starts a thread that runs until ``end()``.
  static func start(_ shared: ConnectionHandler.Shared) throws(Failure) -> LoopInbox {
    let loop = try SocketLoop(shared)
    let inbox = loop.inbox
    let code = OwnThread.start("socket") { loop.run() }
    guard code == 0 else { throw Failure(call: "pthread_create", code: code) }
    return inbox
  }

  func end() { iteration.isLast = true }

  /// The number of the current turn.
  var turn: UInt64 { iteration.number }

  // MARK: the thread

  private func run() {
    var woke = NIODeadline.now()
    while !iteration.isLast {
      let now = NIODeadline.now()
      accepting.begin(after: now - woke)
      for action in timers.popDue(at: now) { action(self) }
      iteration.number &+= 1
      let resumed = iteration.resuming
      iteration.resuming = []
      let ready = poller.wait(milliseconds: resumed.isEmpty ? wait(from: now) : 0)
      woke = .now()
      buffers.begin(ready: ready.count)
      for one in ready { handle(LoopToken(rawValue: one.token), Poller.Readiness(rawValue: one.events)) }
      for token in resumed { open[token]?.resume() }
    }
    stopListening()
    for handler in open.all { handler.close() }
    timers.cancelAll()
    for command in inbox.drain(forGood: true).commands { command(self) }
  }

  /// Milliseconds until the next timer, rounded up: it must be due then.
  private func wait(from now: NIODeadline) -> Int32 {
    guard let earliest = timers.earliest else { return -1 }
    let nanoseconds = max(0, (earliest - now).nanoseconds)
    return Int32(clamping: (nanoseconds + 999_999) / 1_000_000)
  }

  private func handle(_ token: LoopToken, _ readiness: Poller.Readiness) {
    if token.isConnection {
      open[token]?.handle(readiness)
    } else if token.descriptor == inbox.wakeup {
      let content = inbox.drain()
      for connection in content.connections { open[connection]?.sendOutbox() }
      for command in content.commands { command(self) }
    } else if listeners[token.descriptor] != nil {
      if !accept(from: token.descriptor, atMost: accepting.connections(in: turn)) { accepting.emptied() }
    }
  }

  // MARK: connections

  /// The connection of those for which `since` gives the earliest turn loses its place. False: there is none.
  func giveUpPlace(
    where isOne: (Share) -> Bool, _ why: String, _ since: (ConnectionHandler) -> UInt64?
  ) -> Bool {
    let first = open.first(where: isOne, since: since)
    first?.giveUpPlace(why)
    return first != nil
  }

  /// Delayed ones continue then, one after the other.
  func resumePaced(_ pace: Pace<LoopToken>, at due: NIODeadline) {
    timers.add(at: due) { loop in
      while true {
        let (token, due) = pace.next(at: .now())
        if let due { return loop.resumePaced(pace, at: due) }
        guard let token else { return }
        loop.open[token]?.resumePaced()
      }
    }
  }

  /// Calls it in the next turn, without an event.
  func resume(_ handler: ConnectionHandler) { iteration.resuming.append(handler.token) }

  func watch(_ handler: ConnectionHandler, for wanted: Poller.Readiness, isNew: Bool) -> Bool {
    isNew
      ? poller.add(handler.socket, handler.token, for: wanted)
      : poller.change(handler.socket, handler.token, to: wanted)
  }

  /// close(2) on a thread that may wait: with the socket the kernel closes the descriptors in its input.
  func closeElsewhere(_ handler: ConnectionHandler, then action: @escaping @Sendable () -> Void) {
    // A hang-up is always reported: only once from now on.
    _ = poller.change(handler.socket, handler.token, to: .edge)
    closer.close(
      handler.socket, of: Closer.Account(user: handler.client.user, isUnnamed: handler.share.isUnnamed), then: action)
  }
}
