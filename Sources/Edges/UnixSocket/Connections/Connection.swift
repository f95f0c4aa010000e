public import BrokerAPI
import Callers
import NIOCore
public import Principals
import Synchronization

/// One client, as the rest of the broker holds it. What tasks have to say to the client passes through here to the loop,
/// which alone touches its socket.
public final class Connection: Session {
  private struct State {
    var isOpen = true
    var outbox = Outbox()
    var isScheduled = false
    var bytes = Bytes()
    var isOverflown = false
    var hasLeft = false
    /// The socket may be closed later than the connection ends.
    var hasDescriptor = true
    var isHeldOpen = false
    /// There is room for the lines that it could not take.
    var hasRoom = false
    var onClose: [@Sendable () -> Void] = []
  }

  private struct Bytes {
    /// Bytes of notifications that the kernel has not taken yet.
    var ofNotifications = 0
    /// Bytes that the loop has taken and the kernel has not.
    var unread = 0
    /// Bytes of the outbox and unread ones, as the table counts them for the holder.
    var counted = 0
    /// How many of them belong to errors instead of results.
    var replaced = 0
  }

  /// The output of the loop's next iteration.
  struct Outbox: Sendable {
    var pieces = Pieces()
    /// How many of the bytes are notifications.
    var notificationBytes = 0
    /// How many requests ended.
    var finished = 0
  }

  let caller: Caller
  public var principal: Principal { .process(caller) }
  /// On whose account it is counted.
  let share: Share
  private let token: LoopToken
  private let inbox: LoopInbox
  private let table: ConnectionTable
  private let limits: SocketServer.Limits
  private let state: Mutex<State>
  private let requests = Atomic(0)
  /// Bytes of lines that are not answered.
  private let unanswered = Atomic(0)
  private let asked = Atomic(false)
  let pending = PendingCalls()

  init(
    caller: Caller, callerClass: CallerClass, token: LoopToken, inbox: LoopInbox, table: ConnectionTable,
    limits: SocketServer.Limits
  ) {
    self.caller = caller
    share = Share(holder: caller.holder, callerClass: callerClass)
    self.token = token
    self.inbox = inbox
    self.table = table
    self.limits = limits
    state = Mutex(State())
  }

  /// Requests that run.
  var running: Int { requests.load(ordering: .relaxed) }

  var unansweredBytes: Int { unanswered.load(ordering: .relaxed) }

  /// Whether answers can be sent.
  var isOpen: Bool { state.withLock { $0.isOpen } }

  /// Whether the client has said anything yet.
  var hasAsked: Bool { asked.load(ordering: .relaxed) }
  func markAsked() { asked.store(true, ordering: .relaxed) }

  /// Whether it was promised notifications.
  var isHeldOpen: Bool { state.withLock { $0.isHeldOpen } }

  public var isReading: Bool {
    state.withLock { $0.isOpen && $0.outbox.pieces.count + $0.bytes.unread <= limits.outbound }
  }

  public var fileView: FileView? {
    // Under the lock the loop does not close the socket. The view is read without it.
    let process = state.withLock { $0.isOpen ? Peer.process(of: token.descriptor) : nil }
    return process.flatMap { Peer.fileView(of: $0, caller.pid) }
  }

  public func holdOpen() { state.withLock { $0.isHeldOpen = true } }

  public func notify(method: String, params: JSON) -> Bool {
    let line = OutgoingCall(method: method, params: params, id: nil).line()
    let (taken, schedule): (Bool, Bool) = state.withLock { state in
      guard state.isOpen, !state.isOverflown else { return (false, false) }
      guard state.bytes.ofNotifications + line.count <= limits.outbound, mayOwe(line.count, &state) else {
        state.isOverflown = true
        return (false, true)
      }
      state.bytes.ofNotifications += line.count
      state.outbox.notificationBytes += line.count
      state.outbox.pieces.append(line)
      defer { state.isScheduled = true }
      return (true, !state.isScheduled)
    }
    if schedule { inbox.add(token) }
    return taken
  }

  public func onClose(_ action: @escaping @Sendable () -> Void) {
    let isOpen = state.withLock { state in
      if state.isOpen { state.onClose.append(action) }
      return state.isOpen
    }
    if !isOpen { action() }
  }

  // MARK: for the tasks that answer

  /// Counts requests as running, and the bytes of their line as unanswered.
  func begin(_ count: Int, bytes: Int) {
    requests.add(count, ordering: .relaxed)
    unanswered.add(bytes, ordering: .relaxed)
  }

  func answered(bytes: Int) { unanswered.subtract(bytes, ordering: .relaxed) }

  /// Lines that it could not take may be taken now.
  func roomCame() {
    let wake = state.withLock { state in
      state.hasRoom = true
      guard state.isOpen, !state.isScheduled else { return false }
      state.isScheduled = true
      return true
    }
    if wake { inbox.add(token) }
  }

  /// Takes as many of `wanted` further places as are free.
  func reserve(upTo wanted: Int) -> Int {
    var places = 0
    var current = requests.load(ordering: .relaxed)
    while true {
      places = max(0, min(wanted, limits.requestsInFlight - current))
      guard places > 0 else { return 0 }
      let (done, seen) = requests.compareExchange(
        expected: current, desired: current + places, ordering: .relaxed)
      if done { return places }
      current = seen
    }
  }

  /// The reply, if there is one, and the places it gives back.
  ///
  /// - Parameter instead: the reply where too much is unread already.
  func finish(_ reply: [UInt8]?, places: Int, instead: () -> [UInt8]) {
    let (wake, leave): (Bool, Bool) = state.withLock { state in
      guard state.isOpen else {
        requests.subtract(places, ordering: .relaxed)
        return (false, mayLeave(&state))
      }
      if let reply {
        if mayOwe(reply.count, &state) {
          state.outbox.pieces.append(reply)
        } else {
          let error = instead()
          if state.bytes.replaced + error.count <= limits.unsent, table.addReplaced(error.count, of: share) {
            state.bytes.counted += error.count
            state.bytes.replaced += error.count
            state.outbox.pieces.append(error)
          } else {
            state.isOverflown = true
          }
        }
      }
      state.outbox.finished += places
      defer { state.isScheduled = true }
      return (!state.isScheduled, false)
    }
    if wake { inbox.add(token) }
    if leave { table.remove(self) }
  }

  private func mayOwe(_ bytes: Int, _ state: inout State) -> Bool {
    guard state.bytes.counted == 0 || state.bytes.counted + bytes <= limits.unsent,
      table.addUnread(bytes, of: share)
    else { return false }
    state.bytes.counted += bytes
    return true
  }

  // MARK: for the handler, on its loop

  func drainOutbox() -> (outbox: Outbox, isOverflown: Bool, hasRoom: Bool) {
    state.withLock { state in
      defer { (state.outbox, state.hasRoom) = (Outbox(), false) }
      state.isScheduled = false
      requests.subtract(state.outbox.finished, ordering: .relaxed)
      return (state.outbox, state.isOverflown, state.hasRoom)
    }
  }

  /// The bytes that wait for the client to read.
  func waits(_ bytes: Int) {
    let (change, replaced) = state.withLock { state in
      state.bytes.unread = bytes
      let before = (state.bytes.counted, state.bytes.replaced)
      state.bytes.counted = bytes + state.outbox.pieces.count
      state.bytes.replaced = min(state.bytes.replaced, state.bytes.counted)
      return (state.bytes.counted - before.0, state.bytes.replaced - before.1)
    }
    if change != 0 || replaced != 0 { table.changeUnread(by: change, replaced: replaced, of: share) }
  }

  func notificationsWritten(_ bytes: Int) {
    state.withLock { $0.bytes.ofNotifications -= bytes }
  }

  /// The connection has ended. Its slot is free at once if its socket is closed, so that a client that waits and closes
  /// keeps no other client out. The requests that it left are still unanswered bytes and waiting requests of the
  /// holder. The connection stays in the table until they have ended.
  func ended(hasDescriptor: Bool) {
    let (actions, leave) = state.withLock { state in
      state.isOpen = false
      state.hasDescriptor = hasDescriptor
      table.changeUnread(by: -state.bytes.counted, replaced: -state.bytes.replaced, of: share)
      (state.bytes.counted, state.bytes.replaced) = (0, 0)
      requests.subtract(state.outbox.finished, ordering: .relaxed)
      state.outbox = Outbox()
      defer { state.onClose = [] }
      return (state.onClose, mayLeave(&state))
    }
    if !hasDescriptor { table.giveBackPlace(share) }
    if leave { table.remove(self) }
    for action in actions { action() }
  }

  func descriptorClosed() {
    let leave = state.withLock { state in
      state.hasDescriptor = false
      return mayLeave(&state)
    }
    table.giveBackPlace(share)
    if leave { table.remove(self) }
  }

  private func mayLeave(_ state: inout State) -> Bool {
    guard !state.hasLeft, !state.hasDescriptor, running == 0 else { return false }
    state.hasLeft = true
    return true
  }
}
