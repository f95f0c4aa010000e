import Broker
import BrokerAPI
import Grants

/// A rule as it is written.
struct RuleDraft {
  var name: String?
  var uid: UInt32?
  var user: String?
  var gid: UInt32?
  var group: String?
  var anyone = false
  var accounts: [String]?
  var access: [Access]?
}

extension Sections {
  /// `open` needs no rule, so no rule names it.
  static let grantable: [Access] = [.use, .login, .observe, .manage]

  static let rule = Section<RuleDraft>(
    header: "[[rule]]",
    meaning:
      "Who may do what. Without a rule nobody may do anything, but root in a system instance and the owner in a user one. "
      + "A rule that names a user and a group asks for both.",
    keys: [
      Key(
        "name", .name, \.name, standard: "its file and line",
        "What the rule is called where people read of it."),
      Key("user", .name, \.user, "The caller's user, by name."),
      Key("uid", .id, \.uid, "The caller's user, by number."),
      Key("group", .name, \.group, "A group of the caller, by name."),
      Key("gid", .id, \.gid, "A group of the caller, by number."),
      Key(
        "anyone", .flag, \.anyone, standard: "false", "Must be true in a rule that names neither a user nor a group."),
      Key(
        "accounts", .list(pattern, of: "account names", orEmpty: false), \.accounts,
        "Required. The accounts, by name; `*` stands for any run of characters."),
      Key(
        "access",
        .list(.word(grantable), of: grantable.map { "\"\($0.rawValue)\"" }.joined(separator: ", "), orEmpty: false),
        \.access,
        "Required. `use`: get tokens; `login`: start and finish logins; `observe`: see accounts and events; "
          + "`manage`: forget accounts, reload."),
    ])

  static let pattern = Form<String>.text.map("account names") { text throws(Unfit) in
    // A pattern is a name once each `*` is a letter.
    guard AccountName(rawValue: text.replacing("*", with: "x")) != nil else { throw .found(quoted(text)) }
    return text
  }
}

extension RuleDraft {
  /// The rule; nil, and a report, where it does not hold together.
  func rule(_ table: [String: Item], at place: Place, sources: Settings.Sources, report: inout Report) -> Rule? {
    let title = "[[rule]]"
    for (named, numbered) in [("user", "uid"), ("group", "gid")] where table[named] != nil && table[numbered] != nil {
      report.problem("\(title) has both \"\(named)\" and \"\(numbered)\"", at: place, suggestion: "keep one of them")
      return nil
    }
    for key in ["accounts", "access"] where table[key] == nil {
      report.problem("\(title) has no \"\(key)\"", at: place)
    }
    let namesCaller = ["user", "uid", "group", "gid"].contains { table[$0] != nil }
    if !namesCaller && !anyone {
      report.problem(
        "\(title) names neither a user nor a group", at: place,
        suggestion: "add user, uid, group or gid, or anyone = true if all users are meant")
    } else if namesCaller && anyone {
      report.problem(
        "\(title) says anyone = true, and names a user or group", at: place, suggestion: "keep one of them")
    }
    let uid = uid ?? id(of: user, "user", in: table, by: sources.user, report: &report)
    let gid = gid ?? id(of: group, "group", in: table, by: sources.group, report: &report)
    guard let accounts, let access, namesCaller != anyone else { return nil }
    guard (user == nil || uid != nil) && (group == nil || gid != nil) else { return nil }
    return Rule(name: name ?? place.description, uid: uid, gid: gid, accounts: accounts, access: Set(access))
  }

  private func id(
    of name: String?, _ key: String, in table: [String: Item], by lookUp: (String) -> UInt32?, report: inout Report
  ) -> UInt32? {
    guard let name, let place = table[key]?.place else { return nil }
    if let id = lookUp(name) { return id }
    report.problem("this system has no \(key) \(quoted(name))", at: place, suggestion: "create it, or correct the name")
    return nil
  }
}
