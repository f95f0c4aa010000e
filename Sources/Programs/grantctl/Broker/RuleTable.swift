import BrokerAPI
import PlainText

/// `grantctl explain ACCOUNT --all`: which rules allow which callers, and when each was last used.
struct RuleTable {
  /// Records of the audit trail that are read for the last uses.
  private static let mostRecords = 5_000

  let shell: Shell

  func show(_ account: String) async throws(Failure) {
    let answer = try await shell.ask(PolicyRules.self, .init(account: account))
    if shell.isJSON { return shell.print(answer.json) }
    let result = try answer.value()
    let uses = await lastUses(of: account)
    let rows = [owner(result, uses)] + result.rules.map { row($0, uses) }
    shell.print(
      TextTable(titles: ["CALLER", "MAY", "APPROVAL", "LAST USE"], shrinkable: [0, 1], rows: rows, droppable: 2))
    if result.rules.isEmpty { shell.terminal.print("No rule covers account \(Cell(account).text).") }
  }

  /// By rule; "" for callers that need none. Nothing if the broker keeps no audit trail.
  private func lastUses(of account: String) async -> [String: Int64] {
    var uses: [String: Int64] = [:]
    var params = AuditList.Params(account: account)
    var count = 0
    while count < Self.mostRecords, let page = try? await shell.ask(AuditList.self, params).value() {
      for line in page.records where line.result == "ok" && [.release, .use].contains(line.action) {
        uses[line.rule ?? "", default: 0] = max(uses[line.rule ?? ""] ?? 0, line.last)
      }
      count += page.records.count
      guard let next = page.next else { break }
      params.before = next
    }
    return uses
  }

  private func lastUse(_ rule: String, _ uses: [String: Int64]) -> Cell {
    Cell(uses[rule].map { TimeText.ago($0, now: shell.now) } ?? "-")
  }

  private func owner(_ result: PolicyRules.Result, _ uses: [String: Int64]) -> TextTable.Row {
    let name = result.instance == "system" ? shell.terminal.users(0) : "the broker's owner"
    return .init(cells: [Cell(name), "everything", "-", lastUse("", uses)], notes: ["needs no rule"])
  }

  private func row(_ rule: PolicyRules.Rule, _ uses: [String: Int64]) -> TextTable.Row {
    let may = rule.access.map(\.rawValue) + (rule.methods ?? [])
    let approval = rule.confirm_timeout.map { "within \(TimeText.duration(Int64($0)))" } ?? "-"
    let source = rule.source.flatMap { $0 == rule.rule ? nil : " (\(shell.terminal.short($0)))" } ?? ""
    var notes = ["rule \(rule.rule)\(source)"]
    if let scopes = rule.scopes { notes.append("scopes: \(scopes.joined(separator: " "))") }
    if let resources = rule.resources { notes.append("resources: \(resources.joined(separator: " "))") }
    if let requests = rule.requests { notes.append("only requests: \(requests.joined(separator: ", "))") }
    if let mcp = rule.mcp { notes.append("only MCP calls: \(mcp.joined(separator: ", "))") }
    return .init(
      cells: [Cell(caller(rule)), Cell(may.joined(separator: " ")), Cell(approval), lastUse(rule.rule, uses)],
      notes: [notes.joined(separator: "; ")])
  }

  /// Every condition of the rule.
  private func caller(_ rule: PolicyRules.Rule) -> String {
    var parts: [String] = []
    if let uid = rule.uid { parts.append(shell.terminal.users(uid)) }
    if let gid = rule.gid { parts.append("group \(shell.terminal.users.group(gid) ?? "\(gid)")") }
    if let unit = rule.unit { parts.append(unit) }
    if let unit = rule.user_unit { parts.append("user unit \(unit)") }
    if let exe = rule.exe { parts.append(exe) }
    return parts.isEmpty ? "any caller" : parts.joined(separator: ", ")
  }
}
