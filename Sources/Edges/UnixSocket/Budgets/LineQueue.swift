import Principals
import Synchronization

/// The lines that wait to be parsed. Each holder has a queue. The users take turns, and the units of a user share theirs;
/// callers without a rule share one turn. Parsing takes milliseconds and many times the memory of a line, so only a few lines are parsed at a time: a holder
/// with thousands of lines delays another one by a single line.
///
/// A line counts against the budgets from when it is read until it is answered. While there is no room its connection is
/// not read; waiting connections are resumed in order.
final class LineQueue: Sendable {
  struct Limits: Sendable, Equatable {
    /// Bytes of lines that are not answered.
    var unanswered: Budget.Limits
    /// Bytes that lines take when they are parsed and not answered, by estimate.
    var parsed: Budget.Limits
    /// Bytes of unanswered lines of one connection, unless it is one line.
    var perConnection: Int
    /// For a line that is not read to its end.
    var longest: Int
  }

  struct Line: Sendable {
    let bytes: [UInt8]
    let connection: Connection
    let charge: Int
    /// Its holder sent too much, so that it was read late.
    var isLate = false
  }

  /// The cost of a line in addition to its bytes: a task, and its slot in the queue.
  static let overhead = 512
  /// A parsed value with its share of the array, object or text that it is in.
  static let bytesPerValue = 64

  fileprivate enum Cause: Hashable, Sendable {
    case holder(Share)
    /// All units of a user.
    case user(Holder)
    case unnamed
    case all
  }

  fileprivate struct State {
    var unanswered: Budget
    var parsed: Budget
    var named = GroupedRoundRobin<Holder, Share, Line>()
    var unnamed = GroupedRoundRobin<Holder, Share, Line>()
    /// Turns of others since those without a rule had theirs.
    var sinceUnnamed = 0
    var workers = 0
    /// Workers that have a line of a caller without a rule.
    var unnamedWorkers = 0
    var waiting: [Cause: [Connection]] = [:]
  }

  private let limits: Limits
  private let workers: Int
  private let state: Mutex<State>

  init(_ limits: Limits, workers: Int) {
    self.limits = limits
    self.workers = workers
    state = Mutex(State(unanswered: Budget(limits.unanswered), parsed: Budget(limits.parsed)))
  }

  // MARK: for the loop

  enum Admission: Equatable {
    case taken
    /// The connection has too much unanswered; its own next answer resumes it.
    case afterOwnAnswer
    /// The connection is resumed when there is room.
    case whenThereIsRoom
  }

  /// - Parameters:
  ///   - isLate: the line was delayed.
  ///   - reserved: the amount reserved for the line; 0 afterwards.
  func add(
    _ line: UnsafeRawBufferPointer, of connection: Connection, isLate: Bool = false, reserved: inout Int
  ) -> Admission {
    let charge = line.count + Self.overhead
    let own = connection.unansweredBytes
    guard own == 0 || own + charge <= limits.perConnection else { return .afterOwnAnswer }
    let share = connection.share
    let isAdmitted = state.withLock { state in
      if reserved > 0 {
        state.unanswered.giveBack(reserved, of: share)
        state.unanswered.add(charge, for: share)
      } else if let shortage = state.unanswered.acquire(charge, for: share) {
        state.enlist(shortage, connection)
        return false
      }
      return true
    }
    guard isAdmitted else { return .whenThereIsRoom }
    reserved = 0
    connection.begin(1, bytes: charge)
    let entry = Line(bytes: [UInt8](line), connection: connection, charge: charge, isLate: isLate)
    state.withLock { state in
      let user = share.holder.user
      if share.isUnnamed {
        state.unnamed.append(entry, for: share, of: user)
      } else {
        state.named.append(entry, for: share, of: user)
      }
    }
    return .taken
  }

  /// The amount reserved for an unfinished line, so that it can be read to its end; 0: the connection is resumed when
  /// there is room.
  func reserve(for connection: Connection) -> Int {
    let amount = limits.longest + Self.overhead
    return state.withLock { state in
      guard let shortage = state.unanswered.acquire(amount, for: connection.share) else { return amount }
      state.enlist(shortage, connection)
      return 0
    }
  }

  func giveBack(_ reserved: Int, of share: Share) {
    let resumed = state.withLock { state in
      state.unanswered.giveBack(reserved, of: share)
      return state.resumable(share, limits.longest + Self.overhead)
    }
    for connection in resumed { connection.roomCame() }
  }

  /// A resumed connection has taken its amount: the next one continues.
  func passOn(_ share: Share) { giveBack(0, of: share) }

  /// The connection ends.
  func remove(_ connection: Connection) {
    state.withLock { state in
      for cause in [Cause.holder(connection.share), .user(connection.share.holder.user), .unnamed, .all] {
        state.waiting[cause]?.removeAll { $0 === connection }
      }
    }
  }

  // MARK: for the workers

  /// Whether another worker must start; it is counted.
  func acquireWorker() -> Bool {
    state.withLock { state in
      guard state.workers < workers, !(state.named.isEmpty && state.unnamed.isEmpty) else { return false }
      state.workers += 1
      return true
    }
  }

  /// The next line; nil: the worker ends.
  ///
  /// - Parameter done: the worker's finished work.
  func next(after done: Line?) -> Line? {
    state.withLock { state in
      if done?.connection.share.isUnnamed == true { state.unnamedWorkers -= 1 }
      let line = state.next()
      if line == nil { state.workers -= 1 }
      if line?.connection.share.isUnnamed == true { state.unnamedWorkers += 1 }
      return line
    }
  }

  /// The memory of a parsed line until its answer. It is counted even if it is too much: then no other line of the
  /// holder is parsed earlier.
  static func parsed(_ line: Line, values: Int) -> Int { line.charge + values * bytesPerValue }

  func begin(parsed bytes: Int, of share: Share) { state.withLock { $0.parsed.add(bytes, for: share) } }

  func answered(_ connection: Connection, charge: Int, parsed bytes: Int = 0) {
    let share = connection.share
    connection.answered(bytes: charge)
    let resumed = state.withLock { state in
      if bytes > 0 { state.parsed.giveBack(bytes, of: share) }
      state.unanswered.giveBack(charge, of: share)
      return state.resumable(share, limits.longest + Self.overhead)
    }
    for connection in resumed { connection.roomCame() }
  }

  // MARK: figures

  /// Bytes of unanswered lines, of all but root and the broker's own user.
  var unansweredBytes: Int { state.withLock { $0.unanswered.used } }
  /// Connections that wait for room.
  var waitingConnections: Int { state.withLock { $0.waiting.values.reduce(0) { $0 + $1.count } } }
}

extension LineQueue.State {
  fileprivate mutating func enlist(_ shortage: Budget.Shortage, _ connection: Connection) {
    let cause: LineQueue.Cause =
      switch shortage {
      case .ofHolder: .holder(connection.share)
      case .ofUser: .user(connection.share.holder.user)
      case .ofUnnamed: .unnamed
      case .ofAll: .all
      }
    waiting[cause, default: []].append(connection)
  }

  /// The first connection of each cause for which there is room for any line.
  fileprivate mutating func resumable(_ share: Share, _ room: Int) -> [Connection] {
    guard !waiting.isEmpty else { return [] }
    var resumed: [Connection] = []
    func collect(_ cause: LineQueue.Cause, where isRoom: Bool) {
      guard isRoom, let first = waiting[cause]?.first else { return }
      waiting[cause]?.removeFirst()
      if waiting[cause]?.isEmpty == true { waiting[cause] = nil }
      resumed.append(first)
    }
    collect(.holder(share), where: unanswered.count(of: share) + room <= unanswered.limit(of: share))
    collect(.user(share.holder.user), where: room <= unanswered.roomOfUser(of: share))
    collect(.unnamed, where: unanswered.usedByUnnamed + room <= unanswered.limits.unnamed)
    collect(.all, where: unanswered.used + room <= unanswered.limits.all)
    return resumed
  }

  fileprivate mutating func next() -> LineQueue.Line? {
    // One of theirs for each round of the others.
    if sinceUnnamed >= named.groupCount, let taken = unnamed.popFirst(where: mayBeParsed) {
      sinceUnnamed = 0
      return taken.element
    }
    if let taken = named.popFirst(where: mayBeParsed) {
      sinceUnnamed += 1
      return taken.element
    }
    return unnamed.popFirst(where: mayBeParsed)?.element
  }

  /// One line at least is worked on for each holder, and for all callers without a rule.
  private func mayBeParsed(_ share: Share) -> Bool {
    // At most one worker is theirs, so that another remains for all others.
    if share.isUnnamed, unnamedWorkers > 0 { return false }
    let own = share.isUnnamed ? parsed.usedByUnnamed : parsed.count(of: share)
    return own == 0 || parsed.shortage(of: 1, for: share) == nil
  }
}
