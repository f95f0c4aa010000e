import ArgumentParser
import BrokerAPI
import Foundation

struct AuditCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "audit", abstract: "Show who got which token, who was refused, and who changed what.",
    discussion: """
      The latest first. The same token released again to the same caller is one line, with how often and until when. \
      It takes the permission to manage the accounts.

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
  @Option(help: ArgumentHelp("Only this user, by number.", valueName: "number"))
  var uid: UInt32?
  @Option(help: ArgumentHelp("Only this unit.", valueName: "unit"))
  var unit: String?
  @Option(help: ArgumentHelp("release, use, login, logout, policy or admin.", valueName: "kind"))
  var action: String?
  @Flag(help: "Only what was refused.")
  var refused = false
  @Option(help: ArgumentHelp("At most so many.", valueName: "number"))
  var limit = 50
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if let action, AuditAction(rawValue: action) == nil {
      let known = AuditAction.allCases.map(\.rawValue).joined(separator: ", ")
      throw ValidationError("--action is one of: \(known).")
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
      return shell.say(JSON(encoding: AuditList.Result(records: lines, next: hasMore ? params.before : nil)))
    }
    if lines.isEmpty { return shell.terminal.say("Nothing is recorded\(isNarrowed ? " of that" : "").") }
    shell.say(lines.table)
    if hasMore { shell.terminal.note("There are more: --limit \(limit * 10), or --until.") }
  }

  private var isNarrowed: Bool {
    account != nil || since != nil || until != nil || uid != nil || unit != nil || action != nil || refused
  }

  private func moment(_ text: String?, _ option: String, _ shell: Shell) throws(Failure) -> Int64? {
    guard let text else { return nil }
    if let moment = TimeText.moment(text, now: shell.now, in: .current) { return moment }
    throw Failure(
      .usage, "\(option) \(Cell(text).text) is no time",
      hints: ["Write 90s, 30m, 2h or 7d for so long ago, 2026-01-31, or \"2026-01-31 13:45\"."])
  }
}

extension [AuditList.Line] {
  var table: Table {
    Table(
      titles: ["last", "who", "what", "account", "times", "result"], shrinkable: [1, 3, 2],
      rows: map { line in
        let isGood = line.result == "ok"
        var notes: [String] = []
        if !isGood, let detail = line.detail { notes.append(detail) }
        return Table.Row(
          cells: [
            Cell(TimeText.date(line.last, in: .current)), Cell(line.who), Cell(line.method),
            Cell(line.account ?? "-"), Cell("\(line.count)"), Cell(line.result, isGood ? .plain : .bad),
          ], notes: notes)
      })
  }
}

extension AuditList.Line {
  /// The unit, else the program, and the user.
  fileprivate var who: String {
    guard let uid else { return "grantd" }
    let program = user_unit ?? unit ?? exe?.split(separator: "/").last.map(String.init)
    return program.map { "\($0) \(uid)" } ?? "uid \(uid)"
  }
}
