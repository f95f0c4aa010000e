import BrokerAPI
import Grants

/// Turns at providers where one login waits at a time: after one of a holder, another holder that was refused meanwhile
/// has the next, so that nobody keeps a provider by starting and cancelling.
struct LoginTurns {
  private struct Turn {
    /// The holder of the latest login.
    var latest: Holder?
    /// The first that was refused since, and when it asked last.
    var next: (holder: Holder, at: Duration)?
    /// Since when the next one could have had its turn.
    var since: Duration?
  }

  /// A refused holder that has not asked for so long has given up.
  static let patience = Duration.seconds(60)
  /// How long the place is kept for it.
  static let reservation = Duration.seconds(10)

  private var turns: [ProviderName: Turn] = [:]

  /// A login could not start, as another one waits.
  mutating func refused(_ holder: Holder, at name: ProviderName, by other: Holder, now: Duration) {
    guard holder != other else { return }
    var turn = turns[name] ?? Turn()
    turn.latest = other
    turn.since = nil
    let isTaken = turn.next.map { $0.holder != holder && now - $0.at < Self.patience } ?? false
    if !isTaken { turn.next = (holder, now) }
    turns[name] = turn
  }

  /// Nothing waits at the provider. Who has to be let in first; nil: the holder may start.
  mutating func next(before holder: Holder, at name: ProviderName, now: Duration) -> Holder? {
    guard var turn = turns[name], let next = turn.next, turn.latest == holder, next.holder != holder,
      now - next.at < Self.patience
    else { return nil }
    let since = turn.since ?? now
    turn.since = since
    turns[name] = turn
    return now - since < Self.reservation ? next.holder : nil
  }

  mutating func started(at name: ProviderName) { turns[name] = nil }
}
