/// How many connections each uid has. Root has a quota of its own, so that an admin can always get in.
struct Tally {
  private let limits: SocketServer.Limits
  private var perUser: [UInt32: Int] = [:]
  private var others = 0

  init(limits: SocketServer.Limits) {
    self.limits = limits
  }

  /// Nil, or the limit that is reached; then nothing is counted.
  mutating func enter(uid: UInt32) -> String? {
    guard perUser[uid, default: 0] < limits.connectionsPerUser else {
      return "\(limits.connectionsPerUser) connections of uid \(uid)"
    }
    guard uid == 0 || others < limits.connections else { return "\(limits.connections) connections" }
    perUser[uid, default: 0] += 1
    if uid != 0 { others += 1 }
    return nil
  }

  mutating func leave(uid: UInt32) {
    let left = perUser[uid, default: 0] - 1
    perUser[uid] = left > 0 ? left : nil
    if uid != 0 { others -= 1 }
  }
}
