/// How many connections each uid has. Root has a quota of its own, so that an admin can always get in.
struct Tally {
  private let limits: SocketServer.Limits
  private var perUser: [UInt32: Int] = [:]
  private var others = 0

  init(limits: SocketServer.Limits) {
    self.limits = limits
  }

  enum Limit: Equatable, CustomStringConvertible {
    case ofUser(UInt32, connections: Int)
    case ofAll(connections: Int)

    var description: String {
      switch self {
      case .ofUser(let uid, let connections): "\(connections) connections of uid \(uid)"
      case .ofAll(let connections): "\(connections) connections"
      }
    }
  }

  /// Nil, or the limit that is reached; then nothing is counted.
  mutating func enter(uid: UInt32) -> Limit? {
    guard perUser[uid, default: 0] < limits.connectionsPerUser else {
      return .ofUser(uid, connections: limits.connectionsPerUser)
    }
    guard uid == 0 || others < limits.connections else { return .ofAll(connections: limits.connections) }
    perUser[uid, default: 0] += 1
    if uid != 0 { others += 1 }
    return nil
  }

  /// Who has the most connections, root aside; nil: nobody has more than this uid.
  func largest(beside uid: UInt32) -> UInt32? {
    let most = perUser.filter { $0.key != 0 }.max { ($0.value, $0.key) < ($1.value, $1.key) }
    return most.flatMap { $0.value > perUser[uid, default: 0] ? $0.key : nil }
  }

  mutating func leave(uid: UInt32) {
    let left = perUser[uid, default: 0] - 1
    perUser[uid] = left > 0 ? left : nil
    if uid != 0 { others -= 1 }
  }
}
