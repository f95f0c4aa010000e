import Broker
import SQLite
import Sealing

/// The commits that wait to be written, in the order in which they came.
struct Inbox {
  typealias Answer = CheckedContinuation<Result<Void, StoreError>, Never>

  struct Commit: Sendable {
    let changes: [Change]
    /// Done after the changes, in the same transaction.
    var work: (@Sendable (Database, Sealer) throws -> Void)?
    let answer: Answer
  }

  enum Added {
    /// No write is running: the caller must begin one.
    case first
    /// Goes with the next transaction.
    case waits
    /// With the error, given where the store is.
    case refused(@Sendable (String) -> StoreError)
  }

  enum Closing {
    case first
    case waits
    case done
  }

  private enum Phase {
    case open, closing, closed
  }

  private let limit: Int
  private var phase = Phase.open
  private var waiting: [Commit] = []
  private(set) var isWriting = false
  /// Requested rebuilds that have not ended. Nothing is written during them.
  private var rebuilds = 0
  /// The same of changes of the key.
  private var rotations = 0
  private var closers: [CheckedContinuation<Void, Never>] = []

  init(limit: Int) {
    self.limit = limit
  }

  var isOpen: Bool { phase == .open }
  /// Nothing is written now.
  var isQuiet: Bool { !isWriting && !isHeld }
  var counts: (commits: Int, rebuilds: Int) { (waiting.count, rebuilds) }
  private var isHeld: Bool { rebuilds + rotations > 0 }

  mutating func add(_ commit: Commit) -> Added {
    guard phase == .open else { return .refused { _ in .closed } }
    guard waiting.count < limit else {
      return .refused { [limit] in .unwritable(path: $0, detail: "\(limit) changes wait for the disk already") }
    }
    waiting.append(commit)
    if isWriting || isHeld { return .waits }
    isWriting = true
    return .first
  }

  /// Up to `limit` commits; none: the writer is done.
  mutating func next(limit: Int) -> [Commit] {
    let group = isHeld ? [] : Array(waiting.prefix(limit))
    waiting.removeFirst(group.count)
    isWriting = !group.isEmpty
    return group
  }

  /// Whether these, which were written or could not be, may be answered. While a new database is asked for they may not:
  /// they are written once more, into that one, before the commits that came after them.
  mutating func settle(_ group: [Commit]) -> Bool {
    guard rebuilds > 0 else {
      // Before they are answered: who has an answer finds that nothing is written.
      if waiting.isEmpty { isWriting = false }
      return true
    }
    waiting.insert(contentsOf: group, at: 0)
    isWriting = false
    return false
  }

  /// Work with exclusive use of the database.
  enum Work { case rebuild, rotation }

  /// False: the store is closed.
  mutating func begin(_ work: Work) -> Bool {
    guard phase == .open else { return false }
    switch work {
    case .rebuild: rebuilds += 1
    case .rotation: rotations += 1
    }
    return true
  }

  /// Whether the caller must see to the commits that waited.
  mutating func end(_ work: Work) -> Bool {
    switch work {
    case .rebuild: rebuilds -= 1
    case .rotation: rotations -= 1
    }
    guard !isHeld, !isWriting, !waiting.isEmpty else { return false }
    isWriting = true
    return true
  }

  mutating func close(_ closer: CheckedContinuation<Void, Never>) -> Closing {
    if phase == .closed { return .done }
    closers.append(closer)
    defer { phase = .closing }
    return phase == .open ? .first : .waits
  }

  /// Those who wait for the end.
  mutating func closed() -> [CheckedContinuation<Void, Never>] {
    phase = .closed
    defer { closers = [] }
    return closers
  }
}
