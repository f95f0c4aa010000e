import ArgumentParser
import BrokerAPI
import PlainText

struct AuditCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "audit", abstract: "Show the audit trail.",
    usage: "grantctl audit [options]",
    discussion: """
      The newest record is the last. A token that was released several times to one caller is one line, with the number \
      and the first time below it. Requires `manage` access.

      Examples:
        grantctl audit
        grantctl audit --account work --since 2h
        grantctl audit --refused --since 2026-01-31
        grantctl audit --unit mail-sync.service --json
      """)

  @Option(help: ArgumentHelp("Only this account.", valueName: "name"))
  var account: String?
  @Option(help: ArgumentHelp("Only since then: 90s, 30m, 2h, 7d ago, a date, or a date and time.", valueName: "time"))
  var since: String?
  @Option(help: ArgumentHelp("Only until then, the same way.", valueName: "time"))
  var until: String?
  @Option(help: ArgumentHelp("Only this user, by name or number.", valueName: "user"), transform: RunningAs.uid(named:))
  var uid: UInt32?
  @Option(help: ArgumentHelp("Only this unit.", valueName: "unit"), transform: RunningAs.unitName)
  var unit: String?
  @Option(help: ArgumentHelp("Only this kind: \(kinds).", valueName: "kind"))
  var action: String?
  @Flag(help: "Only refusals and failed credential deliveries.")
  var refused = false
  @Option(help: ArgumentHelp("Maximum number of records.", valueName: "number"))
  var limit = 50
  @OptionGroup var options: GlobalOptions

  private static let kinds = AuditAction.allCases.map(\.rawValue).joined(separator: ", ")

  func validate() throws {
    if let action, AuditAction(rawValue: action) == nil {
      throw ValidationError("--action is one of: \(Self.kinds).")
    }
    guard (1...100_000).contains(limit) else { throw ValidationError("--limit is from 1 to 100000.") }
  }

  func run(in shell: Shell) async throws(Failure) {
    var params = AuditList.Params(
      account: account, since: try moment(since, "--since", shell), until: try moment(until, "--until", shell),
      uid: uid, unit: unit, action: action.flatMap(AuditAction.init), refused: refused ? true : nil)
    var lines: [AuditList.Line] = []
    var hasMore = false
    // Each answer brings one record at least, or is the last.
    while lines.count < limit {
      params.limit = min(limit - lines.count, AuditList.mostRecords)
      let page = try await shell.ask(AuditList.self, params).value()
      lines += page.records
      hasMore = page.next != nil
      guard let next = page.next else { break }
      params.before = next
    }
    if shell.isJSON {
      return shell.print(JSON(encoding: AuditList.Result(records: lines, next: hasMore ? params.before : nil)))
    }
    if lines.isEmpty { return shell.terminal.print("Nothing is recorded\(isNarrowed ? " of that" : "").") }
    if hasMore { shell.terminal.note("There are older records: --limit \(limit * 10), or --until.") }
    shell.print(lines.table(now: shell.now, in: shell.terminal.timeZone, users: shell.terminal.users))
  }

  private var isNarrowed: Bool {
    account != nil || since != nil || until != nil || uid != nil || unit != nil || action != nil || refused
  }

  private func moment(_ text: String?, _ option: String, _ shell: Shell) throws(Failure) -> Int64? {
    guard let text else { return nil }
    if let moment = TimeText.moment(text, now: shell.now, in: shell.terminal.timeZone) { return moment }
    throw Failure(
      .usage, "\(option) \(Cell(text).text) is not a time",
      hints: ["Write 90s, 30m, 2h or 7d before now, 2026-01-31, or \"2026-01-31 13:45\"."])
  }
}

extension [AuditList.Line] {
  /// In the order of the last times: the numbers of the records follow the first ones.
  func table(now: Int64, in zone: LocalTime, users: UserNames) -> TextTable {
    TextTable(
      titles: ["LAST", "USER", "CALLER", "METHOD", "ACCOUNT", "RESULT"], shrinkable: [2, 4, 1, 5],
      rows: sorted { ($0.last, $0.id) < ($1.last, $1.id) }.map { line in
        TextTable.Row(
          cells: [
            Cell(TimeText.dated(line.last, now: now, in: zone)),
            Cell(line.uid.map { users.name($0) ?? "\($0)" } ?? "-"),
            Cell(line.caller), Cell(line.method), Cell(line.account ?? "-"),
            Cell(line.result, line.result == "ok" ? .plain : .bad),
          ], notes: line.note(now: now, in: zone).map { [users.named($0)] } ?? [])
      }, droppable: 3, keepsValues: true)
  }
}

extension AuditList.Line {
  /// The unit, else the program.
  fileprivate var caller: String {
    if let program = user_unit ?? unit ?? exe?.split(separator: "/").last.map(String.init) {
      return (parent.map { "\($0) → " } ?? "") + program
    }
    guard uid == nil else { return "-" }
    return result == ErrorReason.notPermitted.rawValue ? "unknown" : "grantd"
  }

  /// What is longer than a column.
  fileprivate func note(now: Int64, in zone: LocalTime) -> String? {
    var parts = action == .idToken ? ["ID token"] : []
    if count > 1 { parts.append("\(count) times since \(TimeText.dated(first, now: now, in: zone))") }
    if let rule { parts.append("rule \(rule)") }
    if let scopes, !scopes.isEmpty { parts.append("scopes: \(scopes.joined(separator: " "))") }
    if let detail { parts.append(detail) }
    return parts.isEmpty ? nil : parts.joined(separator: "; ")
  }
}
