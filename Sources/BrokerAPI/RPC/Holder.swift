/// The party that a caller's resources are charged to: connections, bytes, waiting requests, pending logins. Quotas are per
/// holder, because a user with a line in `/etc/subuid` has 65,536 user ids.
public enum Holder: Sendable, Hashable {
  case root
  /// The user that the broker runs as.
  case owner
  /// A user with all that is theirs: their slice of control groups, and their subordinate user ids.
  case user(UInt32)
  /// A user in a unit of the system, as one unit may run the jobs of all users; no user where the service manager made up
  /// one for the unit.
  case unit(String, user: UInt32?)

  /// What the user id alone tells.
  public init(uid: UInt32) { self = uid == 0 ? .root : .user(uid) }

  /// Root and the broker's own user have places of their own wherever places are shared, so that they always get in.
  public var hasOwnPlaces: Bool {
    switch self {
    case .root, .owner: true
    case .user, .unit: false
    }
  }
}

extension Holder: CustomStringConvertible {
  public var description: String {
    switch self {
    case .root: "root"
    case .owner: "the broker's own user"
    case .user(let uid): "uid \(uid)"
    case .unit(let unit, nil): "unit \(unit)"
    case .unit(let unit, let uid?): "uid \(uid) in unit \(unit)"
    }
  }
}

/// What the policy says of a caller before it has asked for anything.
public enum CallerClass: Sendable, Hashable {
  /// It may do everything without a rule.
  case privileged
  /// Some rule is for it.
  case named
  /// No rule is for it: it may learn that, and how to get one.
  case unnamed
}

/// How many places of a shared table, or bytes of a shared memory, each holder has. Root and the broker's own user take
/// nothing of what the others share.
public struct Shares: Sendable {
  /// Of all others, and of each holder.
  public let all: Int
  public let perHolder: Int
  private var held: [Holder: Int] = [:]
  private var shared = 0

  public init(all: Int, perHolder: Int) {
    self.all = all
    self.perHolder = perHolder
  }

  public enum Shortage: Sendable, Equatable {
    case ofHolder
    case ofAll
  }

  /// Which limit `amount` more would exceed; nil: none.
  public func shortage(of amount: Int = 1, for holder: Holder) -> Shortage? {
    guard held[holder, default: 0] + amount <= perHolder else { return .ofHolder }
    return holder.hasOwnPlaces || shared + amount <= all ? nil : .ofAll
  }

  /// Takes `amount`; returns the limit that this would exceed, nil where it was taken.
  public mutating func take(_ amount: Int = 1, for holder: Holder) -> Shortage? {
    if let shortage = shortage(of: amount, for: holder) { return shortage }
    add(amount, for: holder)
    return nil
  }

  /// Takes it also where there is too little.
  public mutating func add(_ amount: Int, for holder: Holder) {
    held[holder, default: 0] += amount
    if !holder.hasOwnPlaces { shared += amount }
  }

  public mutating func giveBack(_ amount: Int = 1, of holder: Holder) {
    guard let count = held[holder] else { return }
    held[holder] = count > amount ? count - amount : nil
    if !holder.hasOwnPlaces { shared -= min(amount, count) }
  }

  public var isEmpty: Bool { held.isEmpty }

  public func count(of holder: Holder) -> Int { held[holder, default: 0] }

  /// What all hold but root and the broker's own user.
  public var sharedCount: Int { shared }

  /// Who holds the most beside this one; nil: nobody has more. Root and the broker's own user are left out.
  public func largest(beside holder: Holder) -> Holder? {
    let most = held.filter { !$0.key.hasOwnPlaces }.max { ($0.value, "\($0.key)") < ($1.value, "\($1.key)") }
    return most.flatMap { $0.value > count(of: holder) ? $0.key : nil }
  }
}
