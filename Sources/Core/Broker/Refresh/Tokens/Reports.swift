import Grants
import OAuth
import Principals
import Synchronization

extension Reporter {
  init(_ caller: Principal) {
    switch caller {
    case .process(let process), .unit(_, manager: let process), .peer(let process):
      self.init(uid: process.uid, unit: process.unit, userUnit: process.userUnit)
    }
  }
}

/// The caller of a request for a token.
struct TokenRequester: Sendable {
  let holder: Holder
  let reporter: Reporter
  /// Only a token of a later generation than this satisfies it.
  var beyond: Int64?
  /// Whether its replacements of valid tokens are charged to its budget.
  var isPaced = true
  /// Whether the refresh is for an ID token that has expired: it replaces nothing that the caller could use.
  var isForExpired = false

  init(_ caller: Principal) {
    holder = caller.holder
    reporter = Reporter(caller)
  }

  /// The generation that this caller is not served; nil: the current token will do.
  func unwanted(_ grant: Grant, _ key: SavedToken.Key) -> Int64? {
    if let generation = grant.token(for: key)?.generation, let beyond, generation <= beyond { return generation }
    return grant.reportedGeneration(by: reporter, key)
  }
}

/// The callers that got each token since the broker's start. A caller may report only a token that it got. Used by the
/// socket's loop and by the broker.
final class TokenRecipients: Sendable {
  /// The user of a ``Reporter`` for all processes of a unit: a unit loads the token at its start, before it changes its
  /// user.
  static let anyUser = UInt32.max

  /// Generations that are kept of one account, and callers of one generation.
  static let generations = 8
  static let callers = 64

  private struct Recipients {
    let generation: Int64
    var callers: Set<Reporter> = []
    /// There were more callers than are kept.
    var isIncomplete = false
  }

  private struct State {
    var recipients: [String: [Recipients]] = [:]
    /// Some were dropped: a generation without an entry may have been released nevertheless.
    var isIncomplete = false
  }

  private let state = Mutex(State())

  func record(_ account: String, _ generation: Int64, to caller: Reporter) {
    state.withLock { state in
      if state.recipients[account] == nil, state.recipients.count >= Limit.cachedTokens {
        state = State(isIncomplete: true)
      }
      var recipients = state.recipients[account] ?? []
      let index = recipients.firstIndex { $0.generation == generation } ?? recipients.endIndex
      if index == recipients.endIndex { recipients.append(Recipients(generation: generation)) }
      if recipients[index].callers.count < Self.callers {
        recipients[index].callers.insert(caller)
      } else if !recipients[index].callers.contains(caller) {
        recipients[index].isIncomplete = true
      }
      if recipients.count > Self.generations {
        recipients.removeFirst()
        state.isIncomplete = true
      }
      state.recipients[account] = recipients
    }
  }

  /// Whether the caller had the token of this generation; nil: not known, as entries were dropped.
  func has(_ account: String, _ generation: Int64, _ caller: Reporter) -> Bool? {
    state.withLock { state in
      guard let entry = state.recipients[account]?.first(where: { $0.generation == generation }) else {
        return state.isIncomplete ? nil : false
      }
      let units =
        (caller.unit.map { [Reporter(uid: Self.anyUser, unit: $0)] } ?? [])
        + (caller.userUnit.map { [Reporter(uid: Self.anyUser, userUnit: $0)] } ?? [])
      if entry.callers.contains(caller) || units.contains(where: entry.callers.contains) { return true }
      return entry.isIncomplete ? nil : false
    }
  }
}

/// What holders may have of an account's tokens beside the current one.
struct TokenBudgets {
  var replacements = ReplacementBudgets()
  /// Tokens of other scopes or resources.
  var narrowings = HolderBudgets(burst: 32, pause: .seconds(30))
}

/// Who pays for the replacement of valid tokens. Each holder may have three of an account replaced without a pause, and one
/// more every five minutes.
struct ReplacementBudgets {
  /// A refresh that one holder requested.
  struct Charge: Sendable, Equatable {
    let number: UInt64
    let holder: Holder
    let at: Duration
  }

  private var budgets = HolderBudgets(burst: 3, pause: .seconds(300))
  private var charges: [AccountName: Charge] = [:]
  private var last: UInt64 = 0
  /// A refresh that is queued for longer than this may never begin.
  private static let longest = Duration.seconds(60)

  /// The time until the holder may have a token replaced; nil: it may now.
  func wait(_ account: AccountName, _ holder: Holder, at now: Duration) -> Duration? {
    budgets.wait(account, holder, at: now)
  }

  /// A refresh was requested that only this holder needs.
  mutating func begin(_ account: AccountName, for holder: Holder, at now: Duration) {
    if let charge = charges[account], now - charge.at < Self.longest { return }
    last += 1
    charges[account] = Charge(number: last, holder: holder, at: now)
  }

  /// The budget that the account's refresh will be charged to.
  func charge(for account: AccountName) -> Charge? { charges[account] }

  /// The new token exists: its holder is charged.
  mutating func replaced(_ account: AccountName, at now: Duration) {
    guard let charge = charges.removeValue(forKey: account) else { return }
    budgets.charge(account, charge.holder, at: now)
  }

  /// The refresh ended without a token: it is free.
  mutating func drop(_ charge: Charge?, of account: AccountName) {
    if let charge, charges[account] == charge { charges[account] = nil }
  }

  /// The account was removed.
  mutating func remove(_ account: AccountName) { charges[account] = nil }
}

/// How often each holder may do something with an account. Kept in memory only; times count from boot.
struct HolderBudgets {
  /// Entries at most. Those whose budget is full again are dropped first.
  static let most = 4096

  private struct Key: Hashable {
    let account: AccountName
    let holder: Holder
  }

  private let full: TokenBucket
  private var buckets: [Key: TokenBucket] = [:]

  /// The number that is allowed without a pause, and the time until one more is.
  init(burst: Double, pause: Duration) {
    full = TokenBucket(capacity: burst, interval: Double(pause.nanoseconds))
  }

  mutating func charge(_ account: AccountName, _ holder: Holder, at now: Duration) {
    let key = Key(account: account, holder: holder)
    if buckets[key] == nil, buckets.count >= Self.most { makeRoom(at: now.nanoseconds) }
    var bucket = buckets[key] ?? full
    bucket.refill(at: now.nanoseconds)
    bucket.spend(1, debt: 0)
    buckets[key] = bucket
  }

  /// The time until the holder may do it again; nil: it may now.
  func wait(_ account: AccountName, _ holder: Holder, at now: Duration) -> Duration? {
    guard var bucket = buckets[Key(account: account, holder: holder)] else { return nil }
    bucket.refill(at: now.nanoseconds)
    let wait = bucket.wait()
    return wait > 0 ? .milliseconds(wait / 1_000_000) : nil
  }

  /// Drops full entries; if there is none, the fullest.
  private mutating func makeRoom(at now: Int64) {
    buckets = buckets.filter { !$0.value.isFull(at: now) }
    guard buckets.count >= Self.most,
      let fullest = buckets.max(by: { $0.value.level(at: now) < $1.value.level(at: now) })
    else { return }
    buckets[fullest.key] = nil
  }
}
