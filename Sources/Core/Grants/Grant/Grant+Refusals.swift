public import OAuth

// Codes that usually concern the client or its settings, such as `unauthorized_client`, answered to one account's refresh.
// Some providers use them for a refresh token that is no longer valid, so they are counted per account.
extension Grant {
  /// Refreshes in a row that the provider refused with such a code. In memory only: a restart begins to count again.
  public struct Refusals: Sendable, Equatable {
    public internal(set) var count = 0
    /// The first one.
    public internal(set) var since: Timestamp
    /// Other accounts of the provider were refreshed during this time, so the client works.
    public internal(set) var othersSucceed = false

    /// After this many, over ``least``, the account needs a login if other accounts succeed.
    static let most = 3
    static let least = Duration.seconds(600)
    /// The pause between the first ``most`` refusals.
    static let pause = Duration.seconds(300)
    /// The pause after them, if only this account is refused: its refresh token is kept and tried again.
    static let longPause = Duration.seconds(6 * 3600)
  }

  /// The provider refuses this grant and serves other accounts: only a login helps, most likely.
  public var isRefusedAlone: Bool {
    guard case .misconfigured = saved.standing, let refusals else { return false }
    return refusals.othersSucceed && refusals.count >= Refusals.most
  }

  /// The provider refused this grant's refresh with a code that may concern the client, and not often enough to tell.
  public var isRefusedLately: Bool {
    guard case .misconfigured = saved.standing, let refusals else { return false }
    return refusals.count < Refusals.most
  }

  /// The pause before the next attempt of a grant whose refresh was refused as ``Standing/misconfigured(_:)``.
  var refusedPause: Duration {
    if isRefusedAlone { return Refusals.longPause }
    return (refusals?.count ?? Refusals.most) < Refusals.most ? Refusals.pause : Self.misconfiguredProbe
  }

  mutating func countRefusal(at now: Timestamp, lastSuccessOfOthers: Timestamp?) {
    var counted = refusals ?? Refusals(since: now)
    if counted.since > now { counted.since = now }
    counted.count = min(counted.count + 1, Refusals.most)
    if let success = lastSuccessOfOthers, success >= counted.since { counted.othersSucceed = true }
    // The clock may have moved, or callers asked more often: three refusals within seconds show nothing.
    if counted.count == Refusals.most, now - counted.since < Refusals.least { counted.count = Refusals.most - 1 }
    refusals = counted
  }
}
