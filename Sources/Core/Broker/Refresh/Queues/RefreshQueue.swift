import DequeModule
import Grants
import OAuth

/// The accounts of one provider whose tokens should be refreshed, and in which order.
struct RefreshQueue: Sendable {
  /// Those that callers wait for, in the order in which they came.
  private var order: Deque<AccountName> = []
  /// The same of those whose last failure was the provider's: they come after the others.
  private var later: Deque<AccountName> = []
  private var wanted: Set<AccountName> = []
  /// Due accounts, by the end of their token. Those without a refresh token are separate: they continue while the store
  /// fails.
  private(set) var due = MomentHeap<AccountName>()
  private(set) var dueWithoutLoss = MomentHeap<AccountName>()
  /// Due accounts whose latest request had no answer, the latest first.
  private var unanswered = MomentHeap<AccountName>()
  /// Accounts whose last failure was the provider's, by the end of their token: any of them can probe it. Separated in
  /// the same way.
  private var stalled = MomentHeap<AccountName>()
  private var stalledWithoutLoss = MomentHeap<AccountName>()
  /// Those that are due, and good otherwise.
  private(set) var resting: Set<AccountName> = []
  /// Failed probes by account, in this outage.
  var probes: [AccountName: Int] = [:]

  var isEmpty: Bool { wanted.isEmpty && due.isEmpty && dueWithoutLoss.isEmpty }
  var wantedCount: Int { wanted.count }
  var riskyCount: Int { due.count }

  /// The account's state according to its grant.
  struct Place: Sendable {
    var end: Timestamp
    var isDue: Bool
    var isGood: Bool
    var isStalled: Bool
    var canLose: Bool
    /// A request with its refresh token had no answer: it is tried before the others.
    var isAtRisk: Bool
    /// When that request was sent.
    var unansweredSince: Timestamp?
  }

  mutating func insert(_ account: AccountName, _ place: Place) {
    let isDue = (risky: place.isDue && place.canLose, safe: place.isDue && !place.canLose)
    let urgent = Timestamp(milliseconds: .min)
    if isDue.risky { due.set(account, to: place.isAtRisk ? urgent : place.end) } else { due.remove(account) }
    if isDue.risky, let since = place.unansweredSince {
      unanswered.set(account, to: Timestamp(milliseconds: -max(since.milliseconds, .min + 1)))
    } else {
      unanswered.remove(account)
    }
    if isDue.safe { dueWithoutLoss.set(account, to: place.end) } else { dueWithoutLoss.remove(account) }
    if place.isDue, place.isGood { resting.insert(account) } else { resting.remove(account) }
    let isStalled = (risky: place.isStalled && place.canLose, safe: place.isStalled && !place.canLose)
    if isStalled.risky {
      stalled.set(account, to: place.isAtRisk ? urgent : place.end)
    } else {
      stalled.remove(account)
    }
    if isStalled.safe { stalledWithoutLoss.set(account, to: place.end) } else { stalledWithoutLoss.remove(account) }
  }

  func isStalled(_ account: AccountName) -> Bool {
    stalled.contains(account) || stalledWithoutLoss.contains(account)
  }

  /// The account was removed, or moved to another provider.
  mutating func remove(_ account: AccountName) {
    unwant(account)
    due.remove(account)
    unanswered.remove(account)
    dueWithoutLoss.remove(account)
    stalled.remove(account)
    stalledWithoutLoss.remove(account)
    resting.remove(account)
    probes[account] = nil
  }

  // MARK: Callers

  mutating func want(_ account: AccountName) {
    guard wanted.insert(account).inserted else { return }
    if isStalled(account) { later.append(account) } else { order.append(account) }
  }

  mutating func unwant(_ account: AccountName) {
    guard wanted.remove(account) != nil else { return }
    if order.first == account {
      order.removeFirst()
    } else if later.first == account {
      later.removeFirst()
    } else {
      order.removeAll { $0 == account }
      later.removeAll { $0 == account }
    }
  }

  var firstWanted: AccountName? { order.first ?? later.first }
  /// The due account whose latest request had no answer, of several the latest: if any of them can repeat its request, this
  /// one can.
  var latestUnanswered: AccountName? { unanswered.first()?.key }

  mutating func unwantAll() -> [AccountName] {
    defer { (order, later, wanted) = ([], [], []) }
    return Array(order + later)
  }

  // MARK: Order

  enum Due {
    case none
    case withoutLoss
    case all
  }

  /// The next account while the provider answers: those with waiting callers, in their order, and of these the ones whose
  /// last failure was the provider's after the others; then the one whose token ends first.
  ///
  /// - Parameters:
  ///   - due: which accounts without waiting callers may begin.
  ///   - isAllowed: whether the account's refresh may begin now. Called only for accounts with waiting callers.
  mutating func next(
    _ due: Due, _ isAllowed: (AccountName) -> Bool
  ) -> (account: AccountName, isWanted: Bool)? {
    if let account = order.first(where: isAllowed) ?? later.first(where: isAllowed) {
      return (account, true)
    }
    guard due != .none else { return nil }
    let safe = dueWithoutLoss.first()
    guard due == .all, let risky = self.due.first() else { return safe.map { ($0.key, false) } }
    guard let safe, safe.at < risky.at else { return (risky.key, false) }
    return (safe.key, false)
  }

  /// The number of accounts with waiting callers that may probe.
  static let wantedProbers = 64

  /// Who may probe a provider that does not answer: the first whom callers wait for, each with its place among them, and of
  /// all others those whose tokens end first, as many as make sure that one is among them which has not failed too often.
  mutating func probers(withoutLossOnly: Bool) -> [AccountName: Int?] {
    let most = probes.count + 1
    var found: [AccountName: Int?] = [:]
    for account in dueWithoutLoss.prefix(most) + stalledWithoutLoss.prefix(most) { found[account] = .some(nil) }
    if !withoutLossOnly {
      for account in due.prefix(most) + stalled.prefix(most) { found[account] = .some(nil) }
    }
    let limit = most + Self.wantedProbers
    for (place, account) in [order.prefix(limit), later.prefix(limit)].joined().prefix(limit).enumerated() {
      found[account] = place
    }
    return found
  }

  /// Those whose last failure was the provider's.
  var stalledAccounts: [AccountName] { stalled.keys + stalledWithoutLoss.keys }
}
