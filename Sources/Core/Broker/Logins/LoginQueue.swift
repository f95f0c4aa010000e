import Principals

/// The order of logins if only one can wait at a time: refused users form a queue, and after a login the first of
/// them has a short time to start one. So no user can reserve a provider by starting and cancelling logins, even
/// with others or in several units.
struct LoginQueue {
  private struct Refused {
    /// The user of a unit's holder.
    let user: Holder
    /// A user that has not asked again by then has given up. A time since boot.
    var until: Duration
    /// Since when it could have started, as the first one; nil: not yet.
    var since: Duration?
  }

  /// How long a refused user keeps its turn after the login ahead of it has ended at the latest.
  static let patience = Duration.seconds(60)
  /// How long the first one's turn lasts.
  static let reservation = Duration.seconds(10)
  /// When a refused user should ask again.
  static let interval = Duration.seconds(5)
  /// Users that share one queue.
  static let most = 64

  /// By the common property of the logins: their redirect URI.
  private var lines: [String: [Refused]] = [:]

  /// A login could not start.
  ///
  /// - Parameter end: when the login ahead of it ends at the latest.
  mutating func refused(_ holder: Holder, at place: String, end: Duration, now: Duration) {
    var line = lines[place] ?? []
    line.removeAll { $0.until < now }
    let until = end + Self.patience
    if let index = line.firstIndex(where: { $0.user == holder.user }) {
      line[index].until = until
    } else if line.count < Self.most {
      line.append(Refused(user: holder.user, until: until))
    }
    lines[place] = line
  }

  /// Nothing waits there. The user who may start first; nil: the holder may start.
  mutating func first(before holder: Holder, at place: String, now: Duration) -> Holder? {
    guard var line = lines[place] else { return nil }
    defer { lines[place] = line.isEmpty ? nil : line }
    line.removeAll { $0.until < now }
    while let first = line.first {
      if first.user == holder.user { return nil }
      let since = first.since ?? now
      if now - since < Self.reservation {
        line[0].since = since
        return first.user
      }
      // It did not come.
      line.removeFirst()
    }
    return nil
  }

  mutating func started(_ holder: Holder, at place: String) {
    lines[place]?.removeAll { $0.user == holder.user }
    if lines[place]?.isEmpty == true { lines[place] = nil }
  }
}
