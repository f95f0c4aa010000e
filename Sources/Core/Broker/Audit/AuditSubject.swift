import BrokerAPI
import DequeModule
public import Principals

/// The user whose refusals, or whose other records, have a share together. A user chooses control groups, executables and
/// subordinate user ids, and may have several units, so none of these has a separate share.
public struct AuditSubject: Sendable, Hashable {
  public enum RuleCoverage: String, Sendable, CaseIterable {
    /// Root and the broker's own user.
    case own
    /// A rule is for the caller.
    case named
    case unnamed
    /// Not a refusal: a release, a login or a change by a user.
    case event
  }

  /// Nil: the kernel did not name the caller, or there are too many holders to count each.
  public let holder: Holder?
  public let standing: RuleCoverage

  public init(_ holder: Holder?, isNamed: Bool) {
    self.holder = holder?.user
    standing = holder?.hasOwnPlaces == true ? .own : isNamed ? .named : .unnamed
  }

  /// For records other than refusals. Nil: root and the broker's own user have no share.
  init?(eventsOf holder: Holder) {
    guard !holder.hasOwnPlaces else { return nil }
    (self.holder, standing) = (holder.user, .event)
  }

  static let unknown = AuditSubject(nil, isNamed: false)

  var isRefusal: Bool { standing != .event }

  /// The user id, or the unit of a user that the service manager made for it.
  var who: AuditCaller {
    switch holder {
    case .root: .init(uid: 0)
    case .owner, nil: .init(uid: nil)
    case .user(let uid): .init(uid: uid)
    case .unit(let unit, let uid): .init(uid: uid, unit: unit)
    }
  }

  /// As it is stored.
  public var name: String { holder?.description ?? "other callers that no rule names" }
}

extension AuditEntry {
  /// The method of a record that counts refusals of several.
  static let severalMethods = "*"

  /// Counts the refusals beyond the refuser's budget.
  init(moreRefusalsOf refuser: AuditSubject) {
    self.init(
      action: .admin, method: Self.severalMethods, who: refuser.who, result: ErrorReason.notPermitted.rawValue,
      detail: "more refusals of \(refuser.name), beyond those recorded one by one")
  }

  /// The same by any program of the user.
  func byAnyProgram(of user: AuditSubject) -> AuditEntry {
    var entry = self
    entry.who = user.who
    let note = "by more programs of \(user.name)"
    entry.detail = entry.detail.map { "\($0); \(note)" } ?? note
    return entry
  }
}

/// How many new records of refusals there may be. Those of root and the broker's own user have no budget.
struct AuditBudgets {
  /// Records at once and a minute: of a holder that a rule names, of one that none names, and of all those together.
  static let named = 64
  static let unnamed = 16
  static let allUnnamed = 32
  /// Holders that are counted apart.
  static let holders = 1024

  private var holders: [AuditSubject: TokenBucket] = [:]
  private var allUnnamed = TokenBucket(Self.allUnnamed, per: .seconds(60))

  enum Answer: Equatable {
    case record
    /// Count it in the record of this one's further refusals.
    case countOnly(AuditSubject)
  }

  mutating func acquire(_ refuser: AuditSubject, at uptime: Int64) -> Answer {
    guard refuser.standing != .own else { return .record }
    let now = Duration.milliseconds(uptime).nanoseconds
    if holders[refuser] == nil, holders.count >= Self.holders {
      holders = holders.filter { !$0.value.isFull(at: now) }
      guard holders.count < Self.holders else { return .countOnly(.unknown) }
    }
    var own = holders[refuser] ?? TokenBucket(refuser.standing == .named ? Self.named : Self.unnamed, per: .seconds(60))
    defer { holders[refuser] = own }
    guard own.acquire(at: now), refuser.standing == .named || allUnnamed.acquire(at: now) else {
      return .countOnly(refuser)
    }
    return .record
  }
}

/// The programs of each user, by control group and executable, that have separate records of releases and changes.
struct AuditPrograms {
  /// Programs of a user at once, and new ones in a minute.
  static let perUser = 64
  /// Users whose programs are remembered; those of further users have no separate records.
  static let users = 1024

  private struct Known {
    var programs: Deque<AuditCaller> = []
    var budget = TokenBucket(AuditPrograms.perUser, per: .seconds(60))
  }

  private var known: [AuditSubject: Known] = [:]

  /// Whether the program gets no separate record.
  mutating func isBeyond(_ program: AuditCaller, of user: AuditSubject, at uptime: Int64) -> Bool {
    let now = Duration.milliseconds(uptime).nanoseconds
    if known[user] == nil, known.count >= Self.users {
      known = known.filter { !$0.value.budget.isFull(at: now) }
      guard known.count < Self.users else { return true }
    }
    var one = known[user] ?? Known()
    defer { known[user] = one }
    guard !one.programs.contains(program) else { return false }
    guard one.budget.acquire(at: now) else { return true }
    if one.programs.count >= Self.perUser { one.programs.removeFirst() }
    one.programs.append(program)
    return false
  }
}
