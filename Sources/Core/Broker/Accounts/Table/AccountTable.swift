import DequeModule
import Grants
import OAuth

/// Every account's grant, by name. Recently used grants are unpacked in memory; the others are packed in the store's
/// form, at a tenth of the size.
@BrokerActor
final class AccountTable {
  private final class Row {
    /// What ``live`` was made of, while that is unchanged.
    var packed: (any PackedAccount)?
    /// The in-memory state of a packed grant that is not on disk.
    var remainder: Grant.Remainder?
    var live: Live?
    /// As the store has it, of one that cannot be read.
    var original: (any PackedAccount)?
    /// How many of ``AccountTable/steps`` it has gone with.
    var steps: Int

    init(packed: (any PackedAccount)?, _ remainder: Grant.Remainder?, live: Live?, steps: Int) {
      self.packed = packed
      self.remainder = remainder
      self.live = live
      self.steps = steps
    }
  }

  private final class Live {
    /// Nil only while it is being removed.
    var grant: Grant?
    init(_ grant: Grant) { self.grant = grant }
  }

  /// The maximum number of unpacked grants; exceeded only while more have requests.
  private let wholeAccounts: Int
  private let pack: @Sendable (StoredAccount) -> any PackedAccount
  private var rows: [AccountName: Row] = [:]
  /// Those that are whole, in the order in which they became so.
  private var order: Deque<AccountName> = []
  /// How the wall clock was set since the start. A packed grant goes with a step when it is next looked at.
  private var steps: [Duration] = []
  /// Challenges of servers that only a login can answer; those of removed accounts have no effect.
  var stepUps: [AccountName: StepUp] = [:]
  /// Accounts that their provider has blocked, as the answer to a request of a caller said, by the login of the grant.
  var blocked: [AccountName: (failure: FailureRecord, login: Timestamp)] = [:]
  /// Accounts with a fresh token that a server refused, which requires tokens for its own resource; since when.
  var otherAudiences: [AccountName: Timestamp] = [:]
  /// An account's secrets cannot be opened: says what to make of the rest.
  var unreadable: (@BrokerActor (StoredAccount, StoreError) -> Grant)?
  /// Rows of an account were left out, as they cannot be read.
  var onLeftOut: (@BrokerActor (AccountName, [String]) -> Void)?
  /// Sets the account's grant.
  var onDamage: (@BrokerActor (Grant) -> Void)?
  /// The stored state of an account with this generation, adjusted to the clock.
  var onMove: (@BrokerActor (AccountName) -> Void)?

  init(wholeAccounts: Int, pack: @escaping @Sendable (StoredAccount) -> any PackedAccount) {
    self.wholeAccounts = wholeAccounts
    self.pack = pack
  }

  var count: Int { rows.count }
  func contains(_ account: AccountName) -> Bool { rows[account] != nil }

  func reserve(_ count: Int) { rows.reserveCapacity(count) }

  /// Takes an account as the store has it.
  func add(_ packed: any PackedAccount, _ remainder: Grant.Remainder) {
    rows[packed.account] = Row(packed: packed, remainder, live: nil, steps: steps.count)
  }

  /// Adds an account that cannot be read.
  ///
  /// - Parameter grant: its readable part.
  func add(unreadable packed: any PackedAccount, _ grant: Grant) {
    let row = Row(packed: nil, nil, live: Live(grant), steps: steps.count)
    row.original = packed
    rows[packed.account] = row
    becameWhole(packed.account)
  }

  /// A changed grant is packed again when it leaves memory.
  subscript(account: AccountName) -> Grant? {
    get { rows[account].flatMap { whole(account, $0).grant } }
    set {
      guard let newValue else {
        rows[account] = nil
        return
      }
      let wasWhole = rows[account]?.live != nil
      rows[account] = Row(packed: nil, nil, live: Live(newValue), steps: steps.count)
      if !wasWhole { becameWhole(account) }
    }
    _modify {
      guard let row = rows[account] else {
        var none: Grant?
        yield &none
        if let none { self[account] = none }
        return
      }
      let live = whole(account, row)
      row.packed = nil
      yield &live.grant
      if live.grant == nil { rows[account] = nil }
    }
  }

  /// Without making it whole; nil: there is none, or its facts cannot be read.
  func peek(_ account: AccountName, _ depth: AccountDepth) -> Grant? { snapshot(account)?.read(depth) }

  /// The account's current state, to be read later.
  func snapshot(_ account: AccountName) -> AccountSnapshot? {
    guard let row = rows[account] else { return nil }
    if let live = row.live { return live.grant.map(AccountSnapshot.whole) }
    guard let packed = row.packed, let remainder = row.remainder else { return nil }
    return .packed(packed, remainder, steps: steps[row.steps...])
  }

  /// As it is kept in memory, with the tokens that should be on disk, to be read elsewhere.
  func packed(_ account: AccountName) -> (any PackedAccount)? {
    guard let row = rows[account] else { return nil }
    if let original = row.original { return original }
    if let packed = row.packed, row.remainder?.hasRejectedToken == false, row.steps == steps.count { return packed }
    return whole(account, row).grant.map { grant in
      pack(StoredAccount(grant: grant.saved, tokens: grant.livingTokens, intent: grant.intent))
    }
  }

  /// As it is packed now: the store seals under another key.
  func repack(_ account: AccountName) {
    guard let row = rows[account], let packed = row.packed else { return }
    if row.live != nil {
      row.packed = nil
    } else if let stored = try? packed.read(.whole) {
      row.packed = pack(stored)
    }
  }

  /// The grants that are whole in memory.
  var whole: [Grant] { rows.values.compactMap { $0.live?.grant } }

  // MARK: The clock

  /// Unpacked grants are removed at once as well.
  func clockStepped(by step: Duration) {
    steps.append(step)
    for account in order { if let row = rows[account], let live = row.live { catchUp(account, row, live) } }
  }

  /// The account goes with the steps that it has not gone with.
  func catchUp(_ account: AccountName) {
    guard let row = rows[account], row.live == nil, row.steps < steps.count else { return }
    guard let remainder = row.remainder, steps[row.steps...].contains(where: remainder.movesWith) else {
      row.steps = steps.count
      return
    }
    _ = whole(account, row)
  }

  private func catchUp(_ account: AccountName, _ row: Row, _ live: Live) {
    let missed = steps[row.steps...]
    row.steps = steps.count
    var isMoved = false
    for step in missed where live.grant?.clockStepped(by: step) == true { isMoved = true }
    guard !missed.isEmpty else { return }
    row.packed = nil
    if isMoved { onMove?(account) }
  }

  // MARK: Packing

  private func whole(_ account: AccountName, _ row: Row) -> Live {
    if let live = row.live { return live }
    let (grant, isDamaged) = unpacked(row)
    let live = Live(grant)
    row.live = live
    // Kept without secrets from now on, so that it is opened in vain, and reported, only once.
    if isDamaged { (row.original, row.packed) = (row.packed, nil) }
    catchUp(account, row, live)
    becameWhole(account)
    if isDamaged { onDamage?(grant) }
    return live
  }

  private func unpacked(_ row: Row) -> (grant: Grant, isDamaged: Bool) {
    guard let packed = row.packed, let remainder = row.remainder else { preconditionFailure("a row has neither form") }
    do throws(StoreError) {
      let stored = try packed.read(.whole)
      if !stored.leftOut.isEmpty { onLeftOut?(packed.account, stored.leftOut) }
      return (Grant(saved: stored.grant, tokens: stored.tokens, intent: stored.intent, remainder: remainder), false)
    } catch {
      guard let stored = (try? packed.read(.facts)) ?? (try? packed.read(.remains)), let unreadable else {
        preconditionFailure("\(error.message)")
      }
      return (unreadable(stored, error), true)
    }
  }

  /// Every account that is whole is in ``order``.
  private func becameWhole(_ account: AccountName) {
    order.append(account)
    for _ in 0..<4 where order.count > wholeAccounts {
      let oldest = order.removeFirst()
      guard let row = rows[oldest], let grant = row.live?.grant else { continue }
      // A duplicate name was removed and added again.
      if oldest == account, order.contains(account) { continue }
      // Those that are busy get another turn.
      guard oldest != account, let remainder = grant.remainder else {
        order.append(oldest)
        continue
      }
      if row.packed == nil {
        row.packed = pack(StoredAccount(grant: grant.saved, tokens: grant.tokens, intent: grant.intent))
      }
      row.remainder = remainder
      row.live = nil
    }
  }
}

/// An account at one moment, which can be read off the broker's isolation.
enum AccountSnapshot: Sendable {
  case whole(Grant)
  /// - Parameter steps: of the wall clock, which it has not gone with.
  case packed(any PackedAccount, Grant.Remainder, steps: ArraySlice<Duration>)

  /// Nil: that cannot be read.
  func read(_ depth: AccountDepth) -> Grant? {
    switch self {
    case .whole(let grant): return grant
    case .packed(let packed, let remainder, let steps):
      guard let stored = try? packed.read(depth) else { return nil }
      var grant = Grant(saved: stored.grant, tokens: stored.tokens, intent: stored.intent, remainder: remainder)
      for step in steps { _ = grant.clockStepped(by: step) }
      return grant
    }
  }
}
