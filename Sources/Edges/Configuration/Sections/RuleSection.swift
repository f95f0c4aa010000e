import Broker
import BrokerAPI
import Grants

/// A rule as written.
struct RuleDraft {
  var name: String?
  var uid: UInt32?
  var user: String?
  var gid: UInt32?
  var group: String?
  var subordinates = false
  var unit: String?
  var userUnit: String?
  var executable: String?
  var anyone = false
  var accounts: [String]?
  var access: [Access]?
  var methods: [String] = []
  var scopes: [String]?
  var resources: [String]?
  var requests: [RequestPattern]?
  var mcp: [MCPPattern]?
  var confirm = false
  var confirmTimeout = Duration.seconds(60)
}

extension Sections {
  /// `open` needs no rule, so no rule names it.
  static let grantable: [Access] = [.use, .idToken, .login, .observe, .manage]

  static let rule = Section<RuleDraft>(
    header: "[[rule]]",
    meaning:
      "Who may do what. Without a rule only root (system instance) or the owner (user instance) may do anything. "
      + "All that a rule names of a caller must be so.",
    keys: [
      Key(
        "name", .name, \.name, standard: "its file and line",
        "The rule's name in messages and in the audit trail."),
      Key("user", .name, \.user, "The caller's user, by name."),
      Key("uid", .id, \.uid, "The caller's user, by number."),
      Key("group", .name, \.group, "A group of the caller, by name."),
      Key("gid", .id, \.gid, "A group of the caller, by number."),
      Key(
        "subordinates", .flag, \.subordinates, standard: "false",
        "With `group` or `gid`: whether the rule is also for user ids of a range in `/etc/subuid`, such as those of rootless "
          + "containers, which have the groups that their user gives them."),
      Key(
        "unit", callerUnit, \.unit,
        "The system's unit that the caller runs in, such as `mail-sync.service`; `*` stands for any run of characters."),
      Key(
        "user_unit", callerUnit, \.userUnit,
        "The unit of the user's own manager, the same way. Together with `user` or `uid`: any user may have one of any name."
      ),
      Key(
        "exe", .path, \.executable,
        "The path of the caller's executable. Together with a user, a group or a unit: any user can run a program and "
          + "change its code. A system instance needs CAP_SYS_PTRACE to see that of other users."
      ),
      Key(
        "anyone", .flag, \.anyone, standard: "false", "Must be true in a rule that names nothing of the caller."),
      Key(
        "accounts", .list(pattern, of: "account names", orEmpty: false), \.accounts,
        "Required. The accounts, by name; `*` stands for any run of characters."),
      Key(
        "access",
        .list(.word(grantable), of: grantable.map { "\"\($0.rawValue)\"" }.joined(separator: ", "), orEmpty: false),
        \.access,
        "Required without `methods`. `use`: get tokens; `id_token`: get ID tokens; `login`: start and finish logins; `observe`: see accounts and "
          + "events; `manage`: forget accounts, reload."),
      Key(
        "methods", .list(method, of: "methods"), \.methods, standard: "[]",
        "Single methods of the socket, in addition to those of `access`."),
      Key(
        "requests", .list(requestPattern, of: "requests such as \"GET /repos/*\"", orEmpty: false), \.requests,
        "Requests to the provider's API that the broker sends for the caller with the account's token (`request.send`, "
          + "`/forward`): a method, and a path or a host with a path; `*` stands for any run of characters. The rule gives "
          + "these, and no token."),
      Key(
        "mcp", .list(mcpPattern, of: "MCP calls such as \"tools/call:search_*\"", orEmpty: false), \.mcp,
        "With `requests`: the calls of the Model Context Protocol that the POST requests may contain: a method, or a method "
          + "with the name of a tool, prompt or resource. Messages that each session has are allowed too; GET and DELETE only "
          + "if `requests` names them."),
      Key(
        "scopes", .scopes, \.scopes, standard: "all that was granted",
        "A cap: `token.get` returns only tokens of these scopes if the provider can narrow, otherwise none."),
      Key(
        "resources", .names, \.resources, standard: "any; none if the rule has `scopes`",
        "The resources that a token may be requested for (RFC 8707), in addition to the account's own."),
      Key(
        "confirm", .flag, \.confirm, standard: "false",
        "A user must approve each release of a token (`grantctl approve`), also for root and the owner, unless another "
          + "rule permits it without. Only releases and uses of a token wait; `grantctl backup` and "
          + "`LoadCredential=` cannot, and are refused."),
      Key(
        "confirm_timeout", .duration(.seconds(5)...(.minutes(5))), \.confirmTimeout, standard: "\"60s\"",
        "With `confirm`: the user's time, and the longest that the caller waits."),
    ])

  private static let callerUnit = unitPattern([".service", ".scope"], example: "mail-sync.service")

  /// Units of these types, with `*`.
  static func unitPattern(_ suffixes: [String], example: String) -> Form<String> {
    Form<String>.text.map("a unit's name") { text throws(Unfit) in
      let fits = text.utf8.allSatisfy {
        (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
          || "*:-_.\\@".utf8.contains($0)
      }
      guard fits, (suffixes + ["*"]).contains(where: { text.hasSuffix($0) }), text.utf8.count <= 255 else {
        throw .found(quoted(text), suggestion: "write it whole, such as \(example)")
      }
      return text
    }
  }

  private static let method = Form<String>.text.map("methods") { text throws(Unfit) in
    guard let known = Methods.named(text), known.access != .open else {
      throw .found(quoted(text), suggestion: didYouMean(text, Methods.all.map { $0.name }))
    }
    return text
  }

  private static let requestPattern = Form<String>.text.map("requests such as \"GET /repos/*\"") { text throws(Unfit) in
    guard let pattern = RequestPattern(text) else {
      throw .found(quoted(text), suggestion: "write a method and a path, such as \"GET /repos/*\", with * for any")
    }
    return pattern
  }

  private static let mcpPattern = Form<String>.text.map("MCP calls such as \"tools/call:search_*\"") {
    text throws(Unfit) in
    guard let pattern = MCPPattern(text) else {
      throw .found(
        quoted(text), suggestion: "write a method, such as \"tools/list\", or tools/call: and the name of a tool")
    }
    return pattern
  }

  static let pattern = Form<String>.text.map("account names") { text throws(Unfit) in
    // A pattern is a name once each `*` is a letter.
    guard AccountName(rawValue: text.replacing("*", with: "x")) != nil else { throw .found(quoted(text)) }
    return text
  }
}

extension RuleDraft {
  /// The rule; nil, and a report, if its keys contradict each other.
  func rule(
    _ table: [String: Item], at place: FileLocation, sources: Settings.Sources, report: inout ConfigurationReport
  ) -> Rule? {
    let title = "[[rule]]"
    for (named, numbered) in [("user", "uid"), ("group", "gid")] where table[named] != nil && table[numbered] != nil {
      report.problem("\(title) has both \"\(named)\" and \"\(numbered)\"", at: place, suggestion: "keep one of them")
      return nil
    }
    if !isMeant("accounts", in: table) { report.problem("\(title) has no \"accounts\"", at: place) }
    if !isMeant("access", in: table), !isMeant("methods", in: table), !isMeant("requests", in: table) {
      report.problem("\(title) has no \"access\"", at: place, suggestion: "or name methods one by one with \"methods\"")
    }
    if let requests = table["requests"]?.place,
      access.map({ $0 != [.use] }) ?? false || !methods.isEmpty || scopes != nil
    {
      report.problem(
        "\(title) has \"requests\", which permits only these, and other access", at: requests,
        suggestion: "keep access, methods and scopes for a rule of their own")
      return nil
    }
    if let place = table["mcp"]?.place, table["requests"] == nil {
      report.problem(
        "\(title) has \"mcp\" and no \"requests\"", at: place,
        suggestion: "add the server's path, such as requests = [\"POST /mcp\", \"GET /mcp\", \"DELETE /mcp\"]")
      return nil
    }
    checkConfirm(table, at: place, report: &report)
    guard checkCaller(table, at: place, report: &report) else { return nil }
    let namesCaller = Self.ofCaller.contains { table[$0] != nil }
    let uid = uid ?? id(of: user, "user", in: table, by: sources.user, report: &report)
    let gid = gid ?? id(of: group, "group", in: table, by: sources.group, report: &report)
    guard let accounts, access != nil || !methods.isEmpty || requests != nil, namesCaller != anyone else {
      return nil
    }
    guard (user == nil || uid != nil) && (group == nil || gid != nil) else { return nil }
    var who = Rule.CallerCondition(uid: uid, gid: gid, unit: unit, userUnit: userUnit, executable: executable)
    who.subordinates = subordinates
    var rule = Rule(
      name: name ?? place.description, who: who, accounts: accounts,
      access: requests == nil ? Set(access ?? []) : [], methods: requests == nil ? Set(methods) : [RequestSend.name],
      scopes: scopes.map(Set.init), resources: resources.map(Set.init), confirm: confirm ? confirmTimeout : nil)
    rule.source = place.description
    rule.requests = requests
    rule.mcp = mcp
    return rule
  }

  private static let ofCaller = ["user", "uid", "group", "gid", "unit", "user_unit", "exe"]

  /// False, and a report, if the rule's conditions on the caller are too weak to be intended.
  private func checkCaller(_ table: [String: Item], at place: FileLocation, report: inout ConfigurationReport) -> Bool {
    let title = "[[rule]]"
    func has(_ keys: [String]) -> Bool { keys.contains { isMeant($0, in: table) } }
    if !has(Self.ofCaller), !anyone, !isMisread("anyone", in: table) {
      report.problem(
        "\(title) names nothing of a caller", at: place,
        suggestion: "add user, uid, group, gid, unit, user_unit or exe, or anyone = true for all callers")
    } else if anyone, has(Self.ofCaller) {
      report.problem(
        "\(title) says anyone = true, and names something of the caller", at: place, suggestion: "keep one of them")
    }
    if let unit = table["user_unit"]?.place, !has(["user", "uid"]) {
      report.problem(
        "\(title) has a \"user_unit\" and no user: any user may have a unit of that name", at: unit,
        suggestion: "add user or uid")
      return false
    }
    if let exe = table["exe"]?.place, !has(["user", "uid", "group", "gid", "unit"]) {
      report.problem(
        "\(title) has an \"exe\" and no user, group or unit: any user can run that program with code of their own in it",
        at: exe, suggestion: "add user, group or unit")
      return false
    }
    return true
  }

  /// Whether the table has the key, or the most similar unknown key: a user who mistyped a key is not also informed
  /// that it is missing.
  private func isMeant(_ key: String, in table: [String: Item]) -> Bool {
    let known = Sections.rule.keys.map(\.name)
    return table.keys.contains { $0 == key || !known.contains($0) && nearest(to: $0, in: known) == key }
  }

  /// Whether the table has the key, and its value was refused.
  private func isMisread(_ flag: String, in table: [String: Item]) -> Bool {
    switch table[flag]?.value {
    case nil, .flag: false
    case .text, .number, .fraction, .list, .table, .time: true
    }
  }

  private func checkConfirm(_ table: [String: Item], at place: FileLocation, report: inout ConfigurationReport) {
    let asks = isMeant("confirm", in: table) && (table["confirm"] == nil || isMisread("confirm", in: table))
    if let timeout = table["confirm_timeout"]?.place, !confirm, !asks {
      report.problem(
        "[[rule]] has a \"confirm_timeout\" and nothing to confirm", at: timeout, suggestion: "add confirm = true")
    }
    guard confirm, requests == nil, access != nil || !methods.isEmpty else { return }
    let access = access ?? []
    let releases = Methods.all.filter { $0 is any TokenRelease.Type }
    guard !access.contains(.idToken),
      !releases.contains(where: { access.contains($0.access) || methods.contains($0.name) })
    else { return }
    report.problem(
      "[[rule]] has confirm = true, and allows nothing that releases a token", at: table["confirm"]?.place ?? place,
      suggestion: "add \"use\" to access, or remove confirm")
  }

  private func id(
    of name: String?, _ key: String, in table: [String: Item], by lookUp: (String) -> UInt32?,
    report: inout ConfigurationReport
  ) -> UInt32? {
    guard let name, let place = table[key]?.place else { return nil }
    if let id = lookUp(name) { return id }
    report.problem("this system has no \(key) \(quoted(name))", at: place, suggestion: "create it, or correct the name")
    return nil
  }
}
