import Broker
import Foundation
import GRDB
import OAuth

// The table of the audit trail: records in and out, questions, and what it forgets.

extension AuditCounts {
  init(_ db: Database) throws {
    self.init()
    for row in try Row.fetchAll(db, sql: "SELECT refuser, standing, count(*) FROM audit GROUP BY 1, 2") {
      add((row[0] as String?).map { Refuser($0, row[1]) }, row[2])
    }
  }

  /// Deletes the oldest records of each refuser that is over its share.
  ///
  /// - Returns: whether more remain to be deleted.
  mutating func forgetExcess(over most: Int, in db: Database) throws -> Bool {
    var room = AuditFile.forgottenAtOnce
    for (refuser, count) in AuditShares(most: most).excess(of: self) {
      try db.execute(
        sql: """
          DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE refuser IS ? AND standing IS ?
            ORDER BY last, id LIMIT ?)
          """, arguments: [refuser?.name, refuser?.standing.rawValue, min(count, room)])
      add(refuser, -db.changesCount)
      room -= db.changesCount
    }
    return room == 0
  }
}

extension AuditCounts.Refuser {
  init(_ refuser: AuditRefuser) { self.init(name: refuser.name, standing: refuser.standing) }

  /// An unknown standing, as a later version may write it, counts as ``AuditRefuser/Standing/unnamed``.
  init(_ name: String, _ standing: String?) {
    self.init(name: name, standing: standing.flatMap(AuditRefuser.Standing.init) ?? .unnamed)
  }
}

extension AuditRecord {
  /// - Returns: whether it is new.
  func put(in db: Database) throws -> Bool {
    let isKnown = try db.cachedStatement(sql: "SELECT 1 FROM audit WHERE id = ?")
    let isNew = try Int.fetchOne(isKnown, arguments: [id]) == nil
    let arguments: StatementArguments = [
      id, first.milliseconds, last.milliseconds, Int64(clamping: count), entry.actionName, entry.method,
      entry.account, entry.provider, entry.who.uid.map { Int64($0) }, pid.map { Int64($0) }, entry.who.unit,
      entry.who.userUnit, entry.who.executable, entry.scopes.isEmpty ? nil : entry.scopes.joined(separator: " "),
      entry.generation, entry.rule, entry.result, entry.detail, refuser?.name,
      refuser?.standing.rawValue,
    ]
    try db.cachedStatement(
      sql: """
        INSERT INTO audit (id, first, last, count, action, method, account, provider, uid, pid, unit, user_unit, exe,
          scopes, generation, rule, result, detail, refuser, standing)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET count = max(count, excluded.count), last = max(last, excluded.last),
          pid = excluded.pid
        """
    ).execute(arguments: arguments)
    return isNew
  }

  /// Nil where a column holds what this version does not know.
  init?(_ row: Row) {
    let who = AuditEntry.Who(
      uid: (row["uid"] as Int64?).flatMap { UInt32(exactly: $0) }, unit: row["unit"], userUnit: row["user_unit"],
      executable: row["exe"])
    guard
      var entry = AuditEntry(
        actionName: row["action"], method: row["method"], account: row["account"], who: who, result: row["result"])
    else { return nil }
    entry.provider = row["provider"]
    entry.scopes = (row["scopes"] as String?).map { $0.split(separator: " ").map(String.init) } ?? []
    entry.generation = row["generation"]
    entry.rule = row["rule"]
    entry.detail = row["detail"]
    let count: Int64 = row["count"]
    self.init(
      id: row["id"], entry: entry, pid: (row["pid"] as Int64?).flatMap { Int32(exactly: $0) },
      count: UInt64(clamping: count), first: Timestamp(milliseconds: row["first"]),
      last: Timestamp(milliseconds: row["last"]))
  }
}

extension AuditQuestion {
  var sql: (String, StatementArguments) {
    var conditions: [String] = []
    var arguments = StatementArguments()
    func add(_ condition: String, _ value: any DatabaseValueConvertible) { add(condition, [value]) }
    func add(_ condition: String, _ values: [any DatabaseValueConvertible]) {
      conditions.append(condition)
      arguments += StatementArguments(values)
    }
    if let account { add("account = ?", account) }
    if let accounts {
      add(Self.matching(accounts.count), accounts.map { Self.glob($0) as any DatabaseValueConvertible })
    }
    if let uid { add("uid = ?", Int64(uid)) }
    if let unit { add("(unit = ? OR user_unit = ?)", [unit, unit]) }
    if let actionName { add("action = ?", actionName) }
    if refusalsOnly {
      add(
        "result IN (\(AuditEntry.refusals.map { _ in "?" }.joined(separator: ", ")))",
        AuditEntry.refusals.map { $0 as any DatabaseValueConvertible })
    }
    if let since { add("last >= ?", since.milliseconds) }
    if let until { add("first <= ?", until.milliseconds) }
    if let before { add("id < ?", before) }
    let filter = conditions.isEmpty ? "" : "WHERE \(conditions.joined(separator: " AND ")) "
    arguments += [limit]
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
    pattern.replacingOccurrences(of: "[", with: "[[]").replacingOccurrences(of: "?", with: "[?]")
  }
}
