public import BrokerAPI

/// Whose refusals are counted together. Control groups, executables and subordinate user ids are the holder's to choose,
/// so none of them counts apart.
public struct AuditRefuser: Sendable, Hashable {
  public enum Standing: String, Sendable, CaseIterable {
    /// Root and the broker's own user.
    case own
    /// A rule is for the caller.
    case named
    case unnamed
  }

  /// Nil: the kernel did not name the caller, or there are too many holders to count each.
  public let holder: Holder?
  public let standing: Standing

  public init(_ holder: Holder?, isNamed: Bool) {
    self.holder = holder
    standing = holder?.hasOwnPlaces == true ? .own : isNamed ? .named : .unnamed
  }

  static let unknown = AuditRefuser(nil, isNamed: false)

  /// As it is stored.
  public var name: String { holder?.description ?? "other callers that no rule names" }
}

extension AuditEntry {
  /// The method of a record that counts refusals of several.
  static let severalMethods = "*"

  /// Counts the refusals beyond the refuser's budget.
  init(moreRefusalsOf refuser: AuditRefuser) {
    var who = Who(uid: nil)
    switch refuser.holder {
    case .root: who.uid = 0
    case .owner, nil: break
    case .user(let uid): who.uid = uid
    case .unit(let unit, let uid): (who.unit, who.uid) = (unit, uid)
    }
    self.init(
      action: .admin, method: Self.severalMethods, who: who, result: ErrorReason.notPermitted.rawValue)
    detail = "more refusals of \(refuser.name), beyond those recorded one by one"
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

  private var holders: [AuditRefuser: MinuteBudget] = [:]
  private var allUnnamed = MinuteBudget(Self.allUnnamed)

  enum Answer: Equatable {
    case record
    /// Count it in the record of this one's further refusals.
    case countOnly(AuditRefuser)
  }

  mutating func take(_ refuser: AuditRefuser, at uptime: Int64) -> Answer {
    guard refuser.standing != .own else { return .record }
    if holders[refuser] == nil, holders.count >= Self.holders {
      holders = holders.filter { !$0.value.isFull(at: uptime) }
      guard holders.count < Self.holders else { return .countOnly(.unknown) }
    }
    var own = holders[refuser] ?? MinuteBudget(refuser.standing == .named ? Self.named : Self.unnamed)
    defer { holders[refuser] = own }
    guard own.take(at: uptime), refuser.standing == .named || allUnnamed.take(at: uptime) else {
      return .countOnly(refuser)
    }
    return .record
  }
}
