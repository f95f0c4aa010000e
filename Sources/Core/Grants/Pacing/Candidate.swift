public import OAuth

/// An account whose token should be refreshed now, with the data that decides the order.
public struct Candidate: Sendable, Equatable {
  public var account: AccountName
  /// The position among the tokens that callers are waiting for; nil: no caller is waiting.
  public var place: Int?
  /// A lost response could end its grant.
  public var canLose: Bool
  /// A request with its refresh token had no response: the token may have been rotated already.
  public var isAtRisk: Bool
  /// The expiry of its token; nil: unknown, or there is no token.
  public var expiresAt: Timestamp?
  /// The number of failed probes with this account in this outage.
  public var probes: Int

  public init(
    account: AccountName, place: Int?, canLose: Bool = true, isAtRisk: Bool, expiresAt: Timestamp?, probes: Int
  ) {
    self.account = account
    self.place = place
    self.canLose = canLose
    self.isAtRisk = isAtRisk
    self.expiresAt = expiresAt
    self.probes = probes
  }

  /// The number of consecutive failed probes with one account before another is tried.
  static let probesEach = 3

  /// The account that probes an unresponsive provider. A lost response may end a grant, so prefer an account that
  /// cannot lose, then one that is already at risk. An account whose own requests always fail must not block the
  /// others.
  public static func probe(_ candidates: [Candidate]) -> Candidate? {
    candidates.min {
      ($0.probes / probesEach, $0.risk, $0.place ?? .max, $0.end, $0.account)
        < ($1.probes / probesEach, $1.risk, $1.place ?? .max, $1.end, $1.account)
    }
  }

  private var risk: Int { !canLose ? 0 : isAtRisk ? 1 : 2 }
  private var end: Timestamp { expiresAt ?? Timestamp(milliseconds: .min) }
}
