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

  /// What the caller may do, without a look at one account: by kind of access, the patterns of accounts.
  public func permissions(of caller: Caller) -> [Access: [String]] {
    var permissions: [Access: [String]] = [:]
    for access in Access.allCases where access != .open {
      let patterns =
        isPrivileged(caller)
        ? ["*"] : rules.filter { $0.access.contains(access) && $0.matches(caller) }.flatMap(\.accounts)
      if !patterns.isEmpty { permissions[access] = patterns.contains("*") ? ["*"] : Array(Set(patterns)).sorted() }
    }
    return permissions
  }

  /// Whether there is any account that the caller may do this to.
  public func allowsSome(_ access: Access, caller: Caller) -> Bool {
    access == .open || isPrivileged(caller)
      || rules.contains { $0.access.contains(access) && $0.matches(caller) && !$0.accounts.isEmpty }
  }

  /// Whether the caller may do this to the account; nil: where no account is concerned. Then a rule for any account
  /// will do, except to `manage`: what changes the broker for all needs a rule for all.
  public func allows(_ access: Access, account: String?, caller: Caller) -> Bool {
    access == .open || isPrivileged(caller)
      || rules.contains { rule in
        rule.access.contains(access) && rule.matches(caller) && !rule.accounts.isEmpty
          && (account.map { name in rule.accounts.contains { wildcard($0, matches: name) } }
            ?? (access != .manage || rule.accounts.contains("*")))
      }
  }
}

extension Rule {
  fileprivate func matches(_ caller: Caller) -> Bool {
    (uid.map { $0 == caller.uid } ?? true)
      && (gid.map { $0 == caller.gid || caller.groups.contains($0) } ?? true)
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
