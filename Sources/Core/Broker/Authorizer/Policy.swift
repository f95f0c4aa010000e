public import BrokerAPI
public import Principals

/// Caller → accounts and access. No rule, no access; root may do all in a system instance, the owner in a user one.
public struct Policy: Sendable, Equatable {
  public enum Instance: String, Sendable {
    case system
    case user
  }

  public var instance: Instance
  /// The uid that the broker runs as.
  public var owner: UInt32
  public var rules: [Rule] {
    didSet { updateProperties() }
  }
  /// Who needs no rule is held by one that asks: they must be looked at then.
  private(set) var asksSomebody = false
  /// Whether a rule depends on the messages of a request.
  private(set) var readsMessages = false

  public init(instance: Instance, owner: UInt32, rules: [Rule]) {
    self.instance = instance
    self.owner = owner
    self.rules = rules
    updateProperties()
  }

  private mutating func updateProperties() {
    asksSomebody = rules.contains { $0.confirm != nil }
    readsMessages = rules.contains { $0.mcp != nil }
  }

  /// Whether the caller may do everything, without a rule.
  public func isPrivileged(_ caller: Principal) -> Bool {
    switch caller {
    case .process(let process), .unit(_, manager: let process), .peer(let process): isPrivileged(uid: process.uid)
    }
  }

  private func isPrivileged(uid: UInt32) -> Bool {
    switch instance {
    case .system: uid == 0
    case .user: uid == owner
    }
  }

  /// Whether any rule is for the caller, regardless of its rights.
  public func callerClass(of caller: Principal) -> CallerClass {
    if isPrivileged(caller) { return .privileged }
    return rules.contains { $0.who.matches(caller) } ? .named : .unnamed
  }

  /// Whether a rule is for the caller, or it needs none.
  func names(_ caller: Principal) -> Bool { callerClass(of: caller) != .unnamed }

  /// A decision.
  public enum Decision: Sendable, Equatable {
    /// Nil: no rule is needed. The cap: the scopes that tokens may have for the caller; nil: all granted ones.
    /// `confirm`: the approval required before a release; nil: none.
    case allowed(rule: String?, scopes: Set<String>?, confirm: Confirmation?)
    /// The missing condition, as text for users.
    case refused(why: String)

    public var isAllowed: Bool { if case .allowed = self { true } else { false } }
    var rule: String? { if case .allowed(let rule, _, _) = self { rule } else { nil } }
  }

  /// A person must allow the release.
  public struct Confirmation: Sendable, Equatable {
    /// The rule that asks for it.
    public var rule: String
    /// The time for the approval.
    public var within: Duration
    /// Tokens of these scopes alone need none: other rules allow them.
    public var exempt: Set<String>
  }

  /// The caller's rights without a specific account: patterns of accounts for each kind of access.
  public func permissions(of caller: Principal) -> [Access: [String]] {
    let own = rules.filter { $0.who.matches(caller) }
    var permissions: [Access: [String]] = [:]
    for access in Access.allCases where access != .open {
      let patterns = isPrivileged(caller) ? ["*"] : own.filter { $0.access.contains(access) }.flatMap(\.accounts)
      if !patterns.isEmpty { permissions[access] = patterns.contains("*") ? ["*"] : Array(Set(patterns)).sorted() }
    }
    return permissions
  }

  /// Whether there is any account that the caller may do this to.
  public func allowsSome(_ access: Access, method: String? = nil, caller: Principal) -> Bool {
    access == .open || isPrivileged(caller)
      || rules.contains { !$0.accounts.isEmpty && $0.gives(access, method) && $0.who.matches(caller) }
  }

  /// Whether the caller may do this to the account; nil: where no account is concerned.
  public func allows(_ access: Access, method: String? = nil, account: String?, caller: Principal) -> Bool {
    access == .open || isPrivileged(caller)
      || rules.contains {
        $0.gives(access, method) && $0.covers(account, access) && $0.who.matches(caller)
      }
  }

  /// The accounts that the caller may manage by this method, as patterns; nil: all, and records without an account.
  func managed(_ method: String, by caller: Principal) -> [String]? {
    guard !allows(.manage, method: method, account: nil, caller: caller) else { return nil }
    return Set(rules.filter { $0.gives(.manage, method) && $0.who.matches(caller) }.flatMap(\.accounts)).sorted()
  }

  /// The same, with the rule or the missing condition.
  public func decide(_ access: Access, method: String?, account: String?, caller: Principal) -> Decision {
    permission(access, method, account, caller) ?? .refused(why: lack(access, method, account, caller))
  }

  /// The resources that the caller may request tokens for, in addition to the account's own; nil: any. A rule that caps the
  /// scopes allows none that it does not name, since a token for another resource may have other scopes.
  func resources(_ access: Access, _ method: String, _ account: String, _ caller: Principal) -> Set<String>? {
    guard access != .open, !isPrivileged(caller) else { return nil }
    var allowed: Set<String> = []
    for rule in rules
    where rule.gives(access, method) && rule.who.matches(caller) && rule.covers(account, access) {
      guard rule.resources != nil || rule.scopes != nil else { return nil }
      allowed.formUnion(rule.resources ?? [])
    }
    return allowed
  }

  /// Rules add up: one without cap and approval is enough. If all matching rules require approval, it is required, even
  /// for callers that need no rule. Nil: refused.
  ///
  /// - Parameter request: the request to the provider's API; nil: none, or not known yet.
  func permission(
    _ access: Access, _ method: String?, _ account: String?, _ caller: Principal, request: APIRequest? = nil
  ) -> Decision? {
    let needsNone = access == .open || isPrivileged(caller)
    guard !needsNone || asksSomebody else { return .allowed(rule: nil, scopes: nil, confirm: nil) }
    var first: Rule?
    var asking: Rule?
    var (cap, exempt): (Set<String>, Set<String>) = ([], [])
    var isCapped = !needsNone
    for rule in rules
    where rule.gives(access, method) && rule.who.matches(caller) && rule.covers(account, access) {
      switch rule.cover(request) {
      case .no: continue
      case .whole: break
      case .session: return .allowed(rule: rule.name, scopes: nil, confirm: nil)
      case .part:
        // It holds for a caller that needs no rule too; it does not allow the others.
        if needsNone, rule.confirm != nil { asking = asking ?? rule }
        continue
      }
      guard rule.scopes != nil || rule.confirm != nil else {
        return .allowed(rule: rule.name, scopes: nil, confirm: nil)
      }
      first = first ?? rule
      cap.formUnion(rule.scopes ?? [])
      if rule.scopes == nil { isCapped = false }
      if rule.confirm == nil { exempt.formUnion(rule.scopes ?? []) } else { asking = asking ?? rule }
    }
    guard needsNone || first != nil else { return nil }
    let confirm = asking.map { Confirmation(rule: $0.name, within: $0.confirm ?? .zero, exempt: exempt) }
    return .allowed(rule: needsNone ? nil : first?.name, scopes: isCapped ? cap : nil, confirm: confirm)
  }

  /// Whether a rule for the caller depends on the messages of the request.
  func readsMessages(_ method: String, _ account: String, _ caller: Principal, of request: APIRequest) -> Bool {
    readsMessages
      && rules.contains { rule in
        guard rule.mcp != nil, rule.gives(.use, method), rule.who.matches(caller), rule.covers(account, .use) else {
          return false
        }
        return if case .part = rule.cover(request) { true } else { false }
      }
  }

  /// The closest rule, and the condition that failed.
  private func lack(_ access: Access, _ method: String?, _ account: String?, _ caller: Principal) -> String {
    guard !rules.isEmpty else { return "there is no rule at all" }
    let what = method ?? access.rawValue
    let fitting = rules.filter { $0.gives(access, method) && $0.covers(account, access) }
    if let rule = fitting.first, let why = rule.who.mismatch(caller) { return "rule \(rule.name): \(why)" }
    let own = rules.filter { $0.who.matches(caller) }
    if let rule = own.first(where: { $0.covers(account, access) }) {
      return "rule \(rule.name) is for this caller\(account == nil ? "" : " and account"), and does not allow \(what)"
    }
    if let account, let rule = own.first(where: { $0.gives(access, method) }) {
      return "rule \(rule.name) allows this caller \(what), and not for account \(account.prefix(128))"
    }
    return own.isEmpty ? "no rule is for this caller" : "no rule for this caller allows \(what)"
  }
}

/// `*` matches any characters, including none. Linear in the product of the lengths for every pattern, without
/// allocation: each new connection evaluates every rule.
public func wildcard(_ pattern: String, matches text: String) -> Bool {
  var (pattern, text) = (pattern, text)
  return pattern.withUTF8 { pattern in text.withUTF8 { matches(pattern, $0) } }
}

private func matches(_ pattern: UnsafeBufferPointer<UInt8>, _ text: UnsafeBufferPointer<UInt8>) -> Bool {
  var (at, next) = (0, 0)
  // The position after the latest star, and the text position of its next attempt.
  var star: (pattern: Int, text: Int)?
  while at < text.count {
    if next < pattern.count, pattern[next] == UInt8(ascii: "*") {
      next += 1
      star = (next, at)
    } else if next < pattern.count, pattern[next] == text[at] {
      next += 1
      at += 1
    } else if let latest = star {
      star = (latest.pattern, latest.text + 1)
      (next, at) = (latest.pattern, latest.text + 1)
    } else {
      return false
    }
  }
  return pattern[next...].allSatisfy { $0 == UInt8(ascii: "*") }
}
