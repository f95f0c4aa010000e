public import BrokerAPI

/// Caller → accounts and access. No rule, no access; root may do all in a system instance, the owner in a user one.
public struct Policy: Sendable, Equatable {
  public enum Instance: String, Sendable {
    case system
    case user
  }

  public var instance: Instance
  /// The uid that the broker runs as.
  public var owner: UInt32
  public var rules: [Rule]

  public init(instance: Instance, owner: UInt32, rules: [Rule]) {
    self.instance = instance
    self.owner = owner
    self.rules = rules
  }

  /// Whether the caller may do everything, without a rule.
  public func isPrivileged(_ caller: Caller) -> Bool {
    switch instance {
    case .system: caller.uid == 0
    case .user: caller.uid == owner
    }
  }

  /// What a decision says.
  public enum Decision: Sendable, Equatable {
    /// Nil: it needs no rule. The cap: the scopes that tokens may have for the caller; nil: all that was granted.
    case allowed(rule: String?, scopes: Set<String>?)
    /// For people: what is missing.
    case refused(why: String)

    public var isAllowed: Bool { if case .allowed = self { true } else { false } }
  }

  /// What the caller may do, without a look at one account: by kind of access, the patterns of accounts.
  public func permissions(of caller: Caller) -> [Access: [String]] {
    let own = rules.filter { $0.who.mismatch(caller) == nil }
    var permissions: [Access: [String]] = [:]
    for access in Access.allCases where access != .open {
      let patterns = isPrivileged(caller) ? ["*"] : own.filter { $0.access.contains(access) }.flatMap(\.accounts)
      if !patterns.isEmpty { permissions[access] = patterns.contains("*") ? ["*"] : Array(Set(patterns)).sorted() }
    }
    return permissions
  }

  /// Whether there is any account that the caller may do this to.
  public func allowsSome(_ access: Access, method: String? = nil, caller: Caller) -> Bool {
    access == .open || isPrivileged(caller)
      || rules.contains { !$0.accounts.isEmpty && $0.gives(access, method) && $0.who.mismatch(caller) == nil }
  }

  /// Whether the caller may do this to the account; nil: where no account is concerned.
  public func allows(_ access: Access, method: String? = nil, account: String?, caller: Caller) -> Bool {
    access == .open || isPrivileged(caller)
      || rules.contains {
        $0.gives(access, method) && $0.covers(account, access) && $0.who.mismatch(caller) == nil
      }
  }

  /// The same for a token as it is, whatever scopes it has.
  func allowsWhole(_ method: String, account: String, caller: Caller) -> Bool {
    isPrivileged(caller)
      || rules.contains {
        $0.scopes == nil && $0.gives(.use, method) && $0.covers(account, .use) && $0.who.mismatch(caller) == nil
      }
  }

  /// The same, and by which rule, or what is missing.
  public func decide(_ access: Access, method: String?, account: String?, caller: Caller) -> Decision {
    if access == .open || isPrivileged(caller) { return .allowed(rule: nil, scopes: nil) }
    var first: Rule?
    var cap: Set<String> = []
    for rule in rules where rule.gives(access, method) && rule.covers(account, access) {
      guard rule.who.mismatch(caller) == nil else { continue }
      guard let scopes = rule.scopes else { return .allowed(rule: rule.name, scopes: nil) }
      first = first ?? rule
      cap.formUnion(scopes)
    }
    if let first { return .allowed(rule: first.name, scopes: cap) }
    return .refused(why: lack(access, method, account, caller))
  }

  /// The rule that came nearest, and what stood in its way.
  private func lack(_ access: Access, _ method: String?, _ account: String?, _ caller: Caller) -> String {
    guard !rules.isEmpty else { return "there is no rule at all" }
    let what = method ?? access.rawValue
    let fitting = rules.filter { $0.gives(access, method) && $0.covers(account, access) }
    if let rule = fitting.first, let why = rule.who.mismatch(caller) { return "rule \(rule.name): \(why)" }
    let own = rules.filter { $0.who.mismatch(caller) == nil }
    if let rule = own.first(where: { $0.covers(account, access) }) {
      return "rule \(rule.name) is for this caller\(account == nil ? "" : " and account"), and does not allow \(what)"
    }
    if let account, let rule = own.first(where: { $0.gives(access, method) }) {
      return "rule \(rule.name) allows this caller \(what), and not for account \(account.prefix(128))"
    }
    return own.isEmpty ? "no rule is for this caller" : "no rule for this caller allows \(what)"
  }
}

/// `*` stands for any run of characters, also none. Linear in the product of the lengths, whatever the pattern.
public func wildcard(_ pattern: String, matches text: String) -> Bool {
  let pattern = Array(pattern.utf8)
  let text = Array(text.utf8)
  var reach = [true] + [Bool](repeating: false, count: text.count)
  for symbol in pattern {
    var next = [Bool](repeating: false, count: text.count + 1)
    if symbol == UInt8(ascii: "*") {
      var open = false
      for index in reach.indices {
        open = open || reach[index]
        next[index] = open
      }
    } else {
      for index in text.indices where reach[index] && text[index] == symbol { next[index + 1] = true }
    }
    reach = next
  }
  return reach[text.count]
}
