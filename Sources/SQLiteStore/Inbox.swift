import Broker

/// The commits that wait to be written, in the order in which they came.
struct Inbox {
  typealias Answer = CheckedContinuation<Result<Void, StoreError>, Never>

  struct Commit: Sendable {
    let changes: [Change]
    let answer: Answer
  }

  enum Added {
    /// Nobody writes: the caller must see to it.
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
  private var isWriting = false
  private var closers: [CheckedContinuation<Void, Never>] = []

  init(limit: Int) {
    self.limit = limit
  }

  var isOpen: Bool { phase == .open }

  mutating func add(_ commit: Commit) -> Added {
    guard phase == .open else { return .refused { _ in .closed } }
    guard waiting.count < limit else {
      return .refused { [limit] in .unwritable(path: $0, detail: "\(limit) changes wait for the disk already") }
    }
    waiting.append(commit)
    if isWriting { return .waits }
    isWriting = true
    return .first
  }

  /// Up to `limit` commits; none: the writer is done.
  mutating func next(limit: Int) -> [Commit] {
    let group = Array(waiting.prefix(limit))
    waiting.removeFirst(group.count)
    isWriting = !group.isEmpty
    return group
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
