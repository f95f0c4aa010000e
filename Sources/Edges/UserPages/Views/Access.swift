import BrokerAPI
import HTTPServer
import NIOHTTP1
import Pages
import PlainText

/// Which callers may use which account, by `policy.rules` and `policy.explain`.
extension Ask {
  /// Rows and columns of one page.
  private static let mostAccounts = 20
  private static let mostCallers = 8
  /// Rules of a cell, and records of the audit trail that are read for the last uses in a row.
  private static let mostRules = 3
  private static let mostRecords = 200

  private struct Row {
    let account: String
    let isManaged: Bool
    let rules: [PolicyRules.Rule]
    let uses: LastUses
  }

  private struct LastUses {
    /// By rule; "" for callers that need none.
    var times: [String: Int64] = [:]
    /// The trail has older records, which were not read.
    var hasOlder = false
  }

  /// A caller as rules name it.
  private struct Named: Hashable {
    var uid: UInt32?
    var gid: UInt32?
    var unit: String?
    var userUnit: String?
    var exe: String?

    init(_ rule: PolicyRules.Rule) {
      (uid, gid, unit, userUnit, exe) = (rule.uid, rule.gid, rule.unit, rule.user_unit, rule.exe)
    }

    func words(for reader: UInt32) -> String {
      let parts = [
        uid.map { PageText.user($0, for: reader) }, gid.map { "group \($0)" }, unit, userUnit.map { "user unit \($0)" },
        exe,
      ]
      let text = parts.compactMap(\.self).joined(separator: ", ")
      return text.isEmpty ? "any caller" : text
    }
  }

  func access() async -> HTTPReply {
    let listed: AccountList.Result
    switch await call(AccountList.self, .init(after: query["after"], limit: Self.mostAccounts)) {
    case .success(let result): listed = result
    case .failure(let error) where error.reason == .notPermitted: listed = .init(accounts: [], next: nil)
    case .failure(let error): return page(.failed("Access", error, section: .access))
    }
    var callers: [Named] = []
    var rows: [Row] = []
    for account in listed.accounts {
      let row = await row(of: account.account)
      rows.append(row)
      for rule in row.rules where !callers.contains(Named(rule)) { callers.append(Named(rule)) }
    }
    let hidden = max(0, callers.count - Self.mostCallers)
    callers = Array(callers.prefix(Self.mostCallers))
    var body: [HTML] = []
    for row in rows {
      var cells = [await own(row)]
      for caller in callers { cells.append(cell(row, row.rules.filter { Named($0) == caller })) }
      body.append("<tr><th scope=\"row\" class=\"long\"><bdi>\(row.account)</bdi></th>\(cells)</tr>\n")
    }
    let heads = callers.map { caller -> HTML in
      "<th scope=\"col\" class=\"long\"><bdi>\(caller.words(for: user), limit: 200)</bdi></th>"
    }
    let table: HTML =
      rows.isEmpty
      ? Parts.empty("No accounts that you may see", "A rule with <code>observe</code> shows accounts here.")
      : """
      <div class="scroll" tabindex="0" role="region" aria-label="Accounts and callers"><table>
      <caption class="hidden">Which callers may use which account</caption>
      <thead><tr><th scope="col">Account</th><th scope="col">You</th>\(heads)</tr></thead>
      <tbody>\(body)</tbody></table></div>

      """
    let more: HTML =
      hidden == 0
      ? "" : "<p class=\"soft\">\(hidden) more callers have rules: <code>grantctl explain</code> shows them.</p>"
    let next: HTML =
      listed.next.map { "<p class=\"pages\"><a class=\"button\" href=\"/access?after=\(query: $0)\">Next page</a></p>" }
      ?? ""
    return page(
      View(
        title: "Access", section: .access,
        lead: "<p class=\"lead\">Who may use which account, and by which rule</p>",
        main: table + more + next + (await mayManage(nil) ? trial(rows.first?.account) : ""), isStill: true))
  }

  /// A refused call would be in the audit trail, and the user has not asked for it.
  private func mayManage(_ account: String?) async -> Bool {
    let answer = await call(PolicyExplain.self, .init(account: account, method: PolicyRules.name))
    return (try? answer.get().allowed) ?? false
  }

  private func row(of account: String) async -> Row {
    guard await mayManage(account) else { return Row(account: account, isManaged: false, rules: [], uses: LastUses()) }
    let rules = (try? await call(PolicyRules.self, .init(account: account)).get().rules) ?? []
    return Row(account: account, isManaged: true, rules: rules, uses: await lastUses(of: account))
  }

  private func lastUses(of account: String) async -> LastUses {
    guard case .success(let trail) = await call(AuditList.self, .init(account: account, limit: Self.mostRecords)) else {
      return LastUses()
    }
    var uses = LastUses(hasOlder: trail.next != nil)
    for line in trail.records where line.result == "ok" && [.release, .idToken, .use].contains(line.action) {
      uses.times[line.rule ?? "", default: 0] = max(uses.times[line.rule ?? ""] ?? 0, line.last)
    }
    return uses
  }

  private func cell(_ row: Row, _ rules: [PolicyRules.Rule]) -> HTML {
    guard !rules.isEmpty else { return "<td><span class=\"soft\">no</span></td>" }
    let hidden = rules.count - Self.mostRules
    let more: HTML =
      hidden <= 0 ? "" : "<p class=\"soft\">and \(hidden) more: <code>grantctl explain</code> shows them</p>"
    return "<td>\(rules.prefix(Self.mostRules).map { described($0, row.uses) })\(more)</td>"
  }

  private func described(_ rule: PolicyRules.Rule, _ uses: LastUses) -> HTML {
    let access = (rule.access.map(\.rawValue) + (rule.methods ?? [])).joined(separator: ", ")
    let caps = [
      rule.scopes.map { "only \($0.joined(separator: " "))" },
      rule.resources.map { "only for \($0.joined(separator: " "))" },
      rule.requests.map { "only the requests \($0.joined(separator: ", "))" },
      rule.mcp.map { "only the MCP calls \($0.joined(separator: ", "))" },
      rule.confirm_timeout.map { "a user approves each release within \(TimeText.duration(Int64($0)))" },
    ]
    let source = rule.source.flatMap { $0 == rule.rule ? nil : ", \($0)" } ?? ""
    return """
      \(Parts.badge("good", "\(access)"))\(caps.compactMap(\.self).map { cap -> HTML in "<p><bdi>\(cap)</bdi></p>" })\
      <p><bdi>\(rule.rule)\(source)</bdi></p>\(lastUse(rule.rule, uses))
      """
  }

  private func lastUse(_ rule: String, _ uses: LastUses) -> HTML {
    let none = uses.hasOlder ? "no use in the latest \(Self.mostRecords) records" : "no use in the audit trail"
    return "<p>\(uses.times[rule].map { "last used \(TimeText.ago($0, now: now))" } ?? none)</p>"
  }

  private func own(_ row: Row) async -> HTML {
    switch await call(PolicyExplain.self, .init(account: row.account, caller: nil)) {
    case .failure(let error): return "<td><span class=\"soft\">\(error.message)</span></td>"
    case .success(let result):
      let scopes: HTML = result.scopes.map { "<p>only \($0.joined(separator: " "))</p>" } ?? ""
      let confirm: HTML = result.confirm == nil ? "" : "<p>a user approves each release</p>"
      let badge = result.allowed ? Parts.badge("good", "use") : Parts.badge("neutral", "no")
      let use = row.isManaged && result.rule == nil ? lastUse("", row.uses) : ""
      return "<td>\(badge)\(scopes)\(confirm)<p><bdi>\(Parts.sentence(result.why), limit: 200)</bdi></p>\(use)</td>"
    }
  }

  // MARK: Try as

  private func trial(_ first: String?) async -> HTML {
    let uid = query["uid"].flatMap { UInt32($0) }
    var result: HTML = ""
    if let account = query["account"] {
      let subject = PolicyExplain.Subject(uid: uid ?? user, unit: query["unit"], exe: query["exe"])
      result = await tried(account, subject)
    }
    func field(_ name: HTML, _ label: HTML, _ value: String, _ more: HTML = "") -> HTML {
      "<div><label for=\"try-\(name)\">\(label)</label><input id=\"try-\(name)\" name=\"\(name)\" value=\"\(value)\"\(more)></div>"
    }
    return """
      <h2>Try as a user or unit</h2>
      <div class="panel"><form method="get" action="/access"><div class="row">
      \(field("account", "Account", query["account"] ?? first ?? "", " required"))
      \(field("uid", "User (uid)", "\(uid ?? user)", " inputmode=\"numeric\" pattern=\"[0-9]{1,10}\""))
      \(field("unit", "Unit", query["unit"] ?? ""))
      \(field("exe", "Program", query["exe"] ?? ""))
      </div><div class="controls"><button>Try</button></div></form>\(result)</div>

      """
  }

  private func tried(_ account: String, _ subject: PolicyExplain.Subject) async -> HTML {
    switch await call(PolicyExplain.self, .init(account: account, caller: subject)) {
    case .failure(let error): return "<div id=\"tried\">\(Parts.problem(error))</div>"
    case .success(let result):
      let who = ReleaseCaller(uid: subject.uid, unit: subject.unit, exe: subject.exe)
      let tone: HTML = result.allowed ? "good" : "warn"
      let word = result.allowed ? "may use" : "may not use"
      let rule =
        result.allowed
        ? "" : "<p>These lines allow it:</p><pre tabindex=\"0\">\(HTML.lines(rule(account, subject)))</pre>" as HTML
      return """
        <div class="message \(tone)" id="tried"><p><bdi>\(PageText.caller(who, for: user))</bdi> \(word) <bdi>\(account)</bdi>.</p>\
        <p><bdi>\(words: Parts.sentence(result.why))</bdi></p>\(rule)</div>

        """
    }
  }

  /// The rule's lines to copy.
  private func rule(_ account: String, _ subject: PolicyExplain.Subject) -> String {
    func quoted(_ text: String) -> String {
      "\"" + text.map { $0 == "\"" || $0 == "\\" ? "\\\($0)" : String($0) }.joined() + "\""
    }
    let lines: [String?] = [
      "[[rule]]", "uid = \(subject.uid)", subject.unit.map { "unit = \(quoted($0))" },
      subject.exe.map { "exe = \(quoted($0))" }, "accounts = [\(quoted(account))]", "access = [\"use\"]",
    ]
    return lines.compactMap(\.self).joined(separator: "\n")
  }
}
