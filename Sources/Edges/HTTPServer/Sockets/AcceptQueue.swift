/// Whose part of ``AcceptQueue`` a connection takes.
enum AcceptRoom: Hashable, Sendable {
  /// A rule names its caller, or the rules do not matter.
  case named
  /// No rule names its caller.
  case unnamed
  /// The caller's unit is not known yet. A rule may name it: connections of callers without a rule must not close it.
  case unidentified(user: UInt32)

  /// The maximum that waits; nil: there is only that of the whole queue. A unit may open many connections at its start.
  var limit: Int? {
    switch self {
    case .named: nil
    case .unnamed: 16
    case .unidentified: 192
    }
  }
}

/// Connections that were accepted and that the event loop has not taken. A user with many must not delay others.
struct AcceptQueue<Connection> {
  /// Beyond it the kernel keeps them.
  static var limit: Int { 256 }
  /// Those that the event loop takes before it looks at its sockets again.
  static var batch: Int { 16 }

  private var waiting: [(connection: Connection, room: AcceptRoom)] = []
  private var counts: [AcceptRoom: Int] = [:]

  var isEmpty: Bool { waiting.isEmpty }
  var isFull: Bool { waiting.count >= Self.limit }

  /// Counts a connection that will be appended. False: there is no room for it, and it is closed.
  mutating func reserve(_ room: AcceptRoom) -> Bool {
    guard let limit = room.limit else { return true }
    guard counts[room, default: 0] < limit else { return false }
    counts[room, default: 0] += 1
    return true
  }

  mutating func append(_ connections: [(connection: Connection, room: AcceptRoom)]) { waiting += connections }

  mutating func removeBatch() -> [Connection] {
    let batch = waiting.prefix(Self.batch)
    waiting.removeFirst(batch.count)
    for (_, room) in batch where room.limit != nil {
      let left = counts[room, default: 0] - 1
      counts[room] = left > 0 ? left : nil
    }
    return batch.map { $0.connection }
  }
}
