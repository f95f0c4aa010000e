import Broker
import OAuth
import SQLite

// The table of the audit trail: its records, queries, and removals.

extension AuditCounts {
  init(_ db: Database) throws {
    self.init()
    for row in try db.rows("SELECT refuser, standing, count(*) FROM audit GROUP BY 1, 2") {
      add(row[0].text.map { Refuser($0, row[1].text) }, Int(row[2].integer ?? 0))
    }
  }

  /// Deletes the oldest records of each refuser that is over its share.
  ///
  /// - Returns: whether more remain to be deleted.
  mutating func removeExcess(over most: Int, in db: Database) throws -> Bool {
    var room = AuditFile.forgottenAtOnce
    for (refuser, count) in AuditShares(most: most).excess(of: self) {
      try db.execute(
        """
        DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE refuser IS ? AND standing IS ?
          ORDER BY last, id LIMIT ?)
        """,
        [ColumnValue(refuser?.name), ColumnValue(refuser?.standing.rawValue), .integer(Int64(min(count, room)))])
      add(refuser, -db.changes)
      room -= db.changes
    }
    return room == 0
  }
}

extension AuditCounts.Refuser {
  init(_ refuser: AuditSubject) { self.init(name: refuser.name, standing: refuser.standing) }

  /// An unknown standing, as a later version may write it, counts as ``AuditSubject/RuleCoverage/unnamed``.
  init(_ name: String, _ standing: String?) {
    self.init(name: name, standing: standing.flatMap(AuditSubject.RuleCoverage.init) ?? .unnamed)
  }
}

extension AuditRecord {
  /// - Returns: whether it is new.
  func put(in db: Database) throws -> Bool {
    let isNew = try db.value("SELECT 1 FROM audit WHERE id = ?", [.integer(id)]) == nil
    let who = entry.who
    let arguments: [ColumnValue] = [
      .integer(id), .integer(first.milliseconds), .integer(last.milliseconds), .integer(Int64(clamping: count)),
      .text(entry.actionName), .text(entry.method), ColumnValue(entry.account), ColumnValue(entry.provider),
      ColumnValue(who.uid.map { Int64($0) }), ColumnValue(pid.map { Int64($0) }), ColumnValue(who.unit),
      ColumnValue(who.userUnit), ColumnValue(who.executable),
      ColumnValue(entry.scopes.isEmpty ? nil : entry.scopes.joined(separator: " ")), ColumnValue(entry.generation),
      ColumnValue(entry.rule), .text(entry.result), ColumnValue(entry.detail), ColumnValue(refuser?.name),
      ColumnValue(refuser?.standing.rawValue), ColumnValue(who.parent),
    ]
    try db.statement(
      """
        INSERT INTO audit (id, first, last, count, action, method, account, provider, uid, pid, unit, user_unit, exe,
          scopes, generation, rule, result, detail, refuser, standing, parent)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET count = max(count, excluded.count), last = max(last, excluded.last),
          pid = excluded.pid
      """
    ).run(arguments)
    return isNew
  }

  /// Nil if a column has a value unknown to this version.
  init?(_ row: Row) {
    let who = AuditCaller(
      uid: row["uid"].integer.flatMap { UInt32(exactly: $0) }, unit: row["unit"].text, userUnit: row["user_unit"].text,
      executable: row["exe"].text, parent: row["parent"].text)
    guard let id = row["id"].integer, let count = row["count"].integer, let first = row["first"].integer,
      let last = row["last"].integer, let action = row["action"].text, let method = row["method"].text,
      let result = row["result"].text,
      var entry = AuditEntry(actionName: action, method: method, account: row["account"].text, who: who, result: result)
    else { return nil }
    entry.provider = row["provider"].text
    entry.scopes = row["scopes"].text.map { $0.split(separator: " ").map(String.init) } ?? []
    entry.generation = row["generation"].integer
    entry.rule = row["rule"].text
    entry.detail = row["detail"].text
    self.init(
      id: id, entry: entry, pid: row["pid"].integer.flatMap { Int32(exactly: $0) }, count: UInt64(clamping: count),
      first: Timestamp(milliseconds: first), last: Timestamp(milliseconds: last))
  }
}

extension AuditQuestion {
  var sql: (String, [ColumnValue]) {
    var conditions: [String] = []
    var arguments: [ColumnValue] = []
    func add(_ condition: String, _ values: ColumnValue...) { add(condition, values) }
    func add(_ condition: String, _ values: [ColumnValue]) {
      conditions.append(condition)
      arguments += values
    }
    if let account { add("account = ?", .text(account)) }
    if let accounts { add(Self.matching(accounts.count), accounts.map { .text(Self.glob($0)) }) }
    if let uid { add("uid = ?", .integer(Int64(uid))) }
    if let unit { add("(unit = ? OR user_unit = ?)", .text(unit), .text(unit)) }
    if let actionName { add("action = ?", .text(actionName)) }
    if refusalsOnly {
      let marks = AuditEntry.refusals.map { _ in "?" }.joined(separator: ", ")
      add("result IN (\(marks))", AuditEntry.refusals.map(ColumnValue.text))
    }
    if let since { add("last >= ?", .integer(since.milliseconds)) }
    if let until { add("first <= ?", .integer(until.milliseconds)) }
    if let before { add("id < ?", .integer(before)) }
    let filter = conditions.isEmpty ? "" : "WHERE \(conditions.joined(separator: " AND ")) "
    arguments.append(.integer(Int64(limit)))
    return ("SELECT * FROM audit \(filter)ORDER BY id DESC LIMIT ?", arguments)
  }

  /// That the account is one that a pattern stands for. Each name is compared once, out of the index, not each record.
  private static func matching(_ patterns: Int) -> String {
    guard patterns > 0 else { return "0" }
    let rows = [String](repeating: "(?)", count: patterns).joined(separator: ", ")
    return """
      account IN (SELECT name FROM (SELECT DISTINCT account AS name FROM audit)
        WHERE EXISTS (SELECT 1 FROM (VALUES \(rows)) WHERE name GLOB column1))
      """
  }

  /// To GLOB `?` and `[` are more than themselves.
  private static func glob(_ pattern: String) -> String {
    pattern.replacing("[", with: "[[]").replacing("?", with: "[?]")
  }
}
