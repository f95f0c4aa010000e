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

  /// The facts from only the user id.
  public init(uid: UInt32) { self = uid == 0 ? .root : .user(uid) }

  /// The holder that the total of the user is counted for: a user has a share for all units together.
  public var user: Holder {
    if case .unit(_, let user?) = self { .user(user) } else { self }
  }

  /// Root and the broker's own user have separate places wherever places are shared, so that they always get in.
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

/// The policy's class of a caller before its first request.
public enum CallerClass: Sendable, Hashable {
  /// It may do everything without a rule.
  case privileged
  /// Some rule is for it.
  case named
  /// No rule is for it: it may learn that, and how to get one.
  case unnamed
}
