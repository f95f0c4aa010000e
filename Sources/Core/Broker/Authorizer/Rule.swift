public import BrokerAPI
import Principals

/// Who may do what: the first half names the caller, as the kernel identified it; each thing that is named must hold.
public struct Rule: Sendable, Equatable {
  /// For people: where it is written (`/etc/grantd/grantd.toml:12`), or its `name`.
  public var name: String
  /// Its file and line.
  public var source: String?
  public var who: CallerCondition
  /// Account names, `*` standing for any run of characters.
  public var accounts: [String]
  public var access: Set<Access>
  /// Methods by name, in addition to those of ``access``.
  public var methods: Set<String>
  /// The scopes that tokens may have for this caller; nil: all that was granted.
  public var scopes: Set<String>?
  /// The resources that tokens may be requested for (RFC 8707); nil: any, or none in a rule that caps the scopes.
  public var resources: Set<String>?
  /// A user must approve each token release within this time; nil: no approval.
  public var confirm: Duration?

  /// The requests to the provider's API that it allows, and no token; nil: it is about all that it gives.
  public var requests: [RequestPattern]?
  /// The calls of the Model Context Protocol that these requests may contain; nil: any body.
  public var mcp: [MCPPattern]?

  /// Conditions on a caller; nil: none.
  public struct CallerCondition: Sendable, Equatable {
    public var uid: UInt32?
    /// The primary or a supplementary group.
    public var gid: UInt32?
    /// Whether ``gid`` matches subordinate user ids, too: a user can give their own groups to all of theirs.
    public var subordinates = false
    /// The system's unit, `*` standing for any run of characters.
    public var unit: String?
    /// The unit of the user's own manager; means nothing without ``uid``.
    public var userUnit: String?
    /// The path of the executable.
    public var executable: String?

    public init(
      uid: UInt32? = nil, gid: UInt32? = nil, unit: String? = nil, userUnit: String? = nil, executable: String? = nil
    ) {
      self.uid = uid
      self.gid = gid
      self.unit = unit
      self.userUnit = userUnit
      self.executable = executable
    }
  }

  public init(
    name: String, who: CallerCondition, accounts: [String], access: Set<Access>, methods: Set<String> = [],
    scopes: Set<String>? = nil, resources: Set<String>? = nil, confirm: Duration? = nil
  ) {
    self.name = name
    self.who = who
    self.accounts = accounts
    self.access = access
    self.methods = methods
    self.scopes = scopes
    self.resources = resources
    self.confirm = confirm
  }

  public init(name: String, uid: UInt32?, gid: UInt32?, accounts: [String], access: Set<Access>) {
    self.init(name: name, who: CallerCondition(uid: uid, gid: gid), accounts: accounts, access: access)
  }
}

extension Rule.CallerCondition {
  /// Whether the caller meets all conditions. Unknown facts match nothing.
  func matches(_ caller: Principal) -> Bool {
    switch caller {
    case .process(let process), .unit(_, manager: let process), .peer(let process): matches(process)
    }
  }

  private func matches(_ caller: Caller) -> Bool {
    func fits(_ wanted: String?, _ found: String?) -> Bool {
      guard let wanted else { return true }
      return found.map { wildcard(wanted, matches: $0) } ?? false
    }
    return (uid == nil || uid == caller.uid)
      && (gid == nil || isInGroup(caller) && (subordinates || !caller.isSubordinate))
      && fits(unit, caller.unit) && fits(userUnit, caller.userUnit) && fits(executable, caller.executable)
  }

  private func isInGroup(_ caller: Caller) -> Bool { gid == caller.gid || gid.map(caller.groups.contains) ?? false }

  /// The first thing that the caller is not, for people; nil: it is all of it.
  func mismatch(_ caller: Principal) -> String? {
    switch caller {
    case .process(let process), .unit(_, manager: let process), .peer(let process): mismatch(process)
    }
  }

  private func mismatch(_ caller: Caller) -> String? {
    if let uid, uid != caller.uid { return "the caller is uid \(caller.uid), not uid \(uid)" }
    if let gid, !isInGroup(caller) { return "the caller is not in group \(gid)" }
    if gid != nil, caller.isSubordinate, !subordinates {
      return "uid \(caller.uid) is a subordinate user id, and the rule is for a group without `subordinates = true`"
    }
    return Self.mismatch("unit", unit, caller.unit)
      ?? Self.mismatch("unit of its user's manager", userUnit, caller.userUnit)
      ?? Self.mismatch("executable", executable, caller.executable)
  }

  /// Unknown facts match nothing.
  private static func mismatch(_ what: String, _ wanted: String?, _ found: String?) -> String? {
    guard let wanted else { return nil }
    guard let found else { return "the caller's \(what) is not known, and must be \(wanted)" }
    return wildcard(wanted, matches: found) ? nil : "the caller's \(what) is \(found.prefix(256)), not \(wanted)"
  }
}

extension Rule {
  /// Whether it gives the method, or the kind of access that the method is of.
  func gives(_ access: Access, _ method: String?) -> Bool {
    // `methods` names what `use` gives; an ID token takes its own kind of access.
    self.access.contains(access) || access != .idToken && method.map(methods.contains) ?? false
  }

  /// Whether it is for a request.
  enum Cover {
    case no
    case whole
    /// Only messages that each session has.
    case session
    /// Some of its calls, or perhaps: its messages are not known or not clear.
    case part
  }

  /// - Parameter request: nil: none is known yet.
  func cover(_ request: APIRequest?) -> Cover {
    guard let request else { return .whole }
    let fitting = requests.map { $0.filter { $0.matches(request) } }
    guard fitting?.isEmpty != true else { return .no }
    guard let mcp else { return .whole }
    switch request.content {
    case nil, .unclear: return .part
    case .session: return fitting?.contains { $0.method == request.method } ?? false ? .session : .no
    case .calls(let all):
      let calls = all.filter { !$0.isOfEachSession }
      guard !calls.isEmpty else { return .session }
      let allowed = calls.filter { call in mcp.contains { $0.matches(call) } }
      return allowed.isEmpty ? .no : allowed.count == calls.count ? .whole : .part
    }
  }

  /// Whether it is for the account; nil: where no account is concerned. Then any rule will do, except to `manage`: what
  /// changes the broker for all needs a rule for all.
  func covers(_ account: String?, _ access: Access) -> Bool {
    guard let account else { return !accounts.isEmpty && (access != .manage || accounts.contains("*")) }
    return accounts.contains { wildcard($0, matches: account) }
  }
}
