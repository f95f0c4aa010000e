public import OAuth

/// An account whose token should be refreshed now. The order is who comes first.
public struct Candidate: Sendable, Equatable {
  public var account: AccountName
  /// Where it stands among those that callers wait for; nil: nobody waits.
  public var place: Int?
  /// A lost answer could cost its grant.
  public var canLose: Bool
  /// A request with its refresh token had no answer: it may have been rotated already.
  public var isAtRisk: Bool
  /// When its token ends; nil: unknown, or there is none.
  public var expiresAt: Timestamp?
  /// How many probes with it have failed in this outage.
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

  /// So many failed probes in a row are made with one account before another is tried.
  static let probesEach = 3

  /// Who is refreshed first: whom callers wait for, in their order; then whose token ends first.
  public static func inOrder(_ candidates: [Candidate]) -> [Candidate] {
    candidates.sorted { ($0.place ?? .max, $0.end, $0.account) < ($1.place ?? .max, $1.end, $1.account) }
  }

  /// Who tries a provider that does not answer. A request whose answer is lost may cost a grant, so it is one that has
  /// nothing to lose, else one that is at risk already; but one that fails for its own sake must not stand for all.
  public static func probe(_ candidates: [Candidate]) -> Candidate? {
    candidates.min {
      ($0.probes / probesEach, $0.risk, $0.place ?? .max, $0.end, $0.account)
        < ($1.probes / probesEach, $1.risk, $1.place ?? .max, $1.end, $1.account)
    }
  }

  private var risk: Int { !canLose ? 0 : isAtRisk ? 1 : 2 }
  private var end: Timestamp { expiresAt ?? Timestamp(milliseconds: .min) }
}
