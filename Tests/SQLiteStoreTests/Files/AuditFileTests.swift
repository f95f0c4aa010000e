import Broker
import BrokerAPI
import Foundation
import OAuth
import Principals
import SQLite
import SQLiteStore
import Testing

@Suite("The audit trail on disk")
struct AuditFileTests {
  let folder = TemporaryFolder()

  private func file() throws -> AuditFile {
    try FileManager.default.createDirectory(atPath: folder.state, withIntermediateDirectories: true)
    return AuditFile(folder: folder.state)
  }

  private func record(
    _ id: Int64, account: String? = "work", uid: UInt32? = 1000, unit: String? = "mail.service",
    action: AuditAction = .release, result: String = "ok", from first: Int64 = 1000, to last: Int64? = nil,
    count: UInt64 = 1
  ) -> AuditRecord {
    var entry = AuditEntry(
      action: action, method: "token.get", account: account,
      who: .init(uid: uid, unit: unit, userUnit: "feed.service", executable: "/usr/bin/mail"), result: result)
    entry.provider = "example"
    entry.scopes = ["read", "write"]
    entry.generation = 7
    entry.rule = "reader"
    entry.detail = "said"
    return AuditRecord(
      id: id, entry: entry, pid: 42, count: count, first: Timestamp(seconds: first),
      last: Timestamp(seconds: last ?? first))
  }

  @Test("returns written records after it was reopened, the latest first")
  func roundTrip() async throws {
    let bare = AuditRecord(
      id: 2, entry: AuditEntry(action: .policy, method: "broker.reload", who: .init(uid: nil)), pid: nil, count: 1,
      first: Timestamp(seconds: 5), last: Timestamp(seconds: 5))
    let first = try file()
    #expect(try await first.lastID() == 0)
    try await first.write([record(1, uid: .max), bare], most: 1000)
    await first.close()
    let second = try file()
    #expect(try await second.lastID() == 2)
    #expect(try await second.read(AuditQuestion(limit: 10)) == [bare, record(1, uid: .max)])
    #expect(try FileManager.default.attributesOfItem(atPath: second.path)[.posixPermissions] as? Int == 0o600)
    await second.close()
  }

  @Test("keeps the higher count of a record in either order")
  func counts() async throws {
    let file = try file()
    try await file.write([record(1, to: 2000, count: 9)], most: 1000)
    try await file.write([record(1, to: 1500, count: 4)], most: 1000)
    #expect(try await file.read(AuditQuestion(limit: 1)) == [record(1, to: 2000, count: 9)])
    try await file.write([record(1, to: 3000, count: 10)], most: 1000)
    #expect(try await file.read(AuditQuestion(limit: 1)) == [record(1, to: 3000, count: 10)])
    await file.close()
  }

  @Test("answers each question with the records that it names")
  func questions() async throws {
    let file = try file()
    try await file.write(
      [
        record(1), record(2, account: "home"), record(3, uid: 0, unit: nil), record(4, action: .login),
        record(5, result: "not_permitted"), record(6, account: nil, result: "rate_limited", from: 2000, to: 3000),
      ], most: 1000)
    let cases: [((inout AuditQuestion) -> Void, [Int64])] = [
      ({ $0.account = "work" }, [5, 4, 3, 1]), ({ $0.uid = 0 }, [3]), ({ $0.unit = "mail.service" }, [6, 5, 4, 2, 1]),
      ({ $0.unit = "feed.service" }, [6, 5, 4, 3, 2, 1]), ({ $0.action = .login }, [4]),
      ({ $0.refusalsOnly = true }, [6, 5]), ({ $0.since = Timestamp(seconds: 2500) }, [6]),
      ({ $0.until = Timestamp(seconds: 1500) }, [5, 4, 3, 2, 1]), ({ $0.before = 3 }, [2, 1]),
      ({ $0.limit = 2 }, [6, 5]), ({ $0.account = "x' OR 1=1 --" }, []),
    ]
    for (change, ids) in cases {
      var question = AuditQuestion(limit: 100)
      change(&question)
      #expect(try await file.read(question).map(\.id) == ids)
    }
    await file.close()
  }

  @Test("answers of the accounts that the patterns stand for, to the page's end, and never of no account")
  func patterns() async throws {
    let file = try file()
    try await file.write(
      (1...20).map { record($0, account: $0.isMultiple(of: 5) ? "work" : "home") } + [
        record(21, account: nil), record(22, account: "a?[b]"),
      ], most: 1000)
    let many = (1...2000).map { "x\($0)" }
    let cases: [(patterns: [String], ids: [Int64])] = [
      (["work"], [20, 15, 10]), (["w*k", "work"], [20, 15, 10]), (["*"], [22, 20, 19]), (["a?[b]"], [22]),
      (many + ["w*"], [20, 15, 10]), (["w?rk", "[w]ork", "Work", "wor", "'"], []), ([], []),
    ]
    for (patterns, ids) in cases {
      var question = AuditQuestion(limit: 3)
      question.accounts = patterns
      #expect(try await file.read(question).map(\.id) == ids, "\(patterns.prefix(5))")
    }
    var rest = AuditQuestion(limit: 3)
    rest.accounts = ["w*"]
    rest.before = 10
    #expect(try await file.read(rest).map(\.id) == [5])
    await file.close()
  }

  @Test("counts undelivered credentials among the refusals")
  func refusals() async throws {
    let file = try file()
    let results = ["ok", "not_permitted", "login_required", "rate_limited", "not_delivered"]
    try await file.write(results.enumerated().map { record(Int64($0.offset + 1), result: $0.element) }, most: 1000)
    var question = AuditQuestion(limit: 10)
    question.refusalsOnly = true
    #expect(try await file.read(question).map(\.entry.result) == ["not_delivered", "rate_limited", "not_permitted"])
    await file.close()
  }

  @Test("removes old records, and the oldest above the limit")
  func retention() async throws {
    let file = try file()
    try await file.write((1...20).map { record($0, from: $0 * 100) }, most: 1000)
    try await file.removeRecords(before: Timestamp(seconds: 500), most: 100)
    #expect(try await file.read(AuditQuestion(limit: 100)).map(\.id) == (5...20).reversed())
    try await file.removeRecords(before: Timestamp(seconds: 0), most: 3)
    #expect(try await file.read(AuditQuestion(limit: 100)).map(\.id) == [20, 19, 18])
    await file.close()
  }

  private func refusal(
    _ id: Int64, of refuser: String, _ standing: AuditSubject.RuleCoverage = .unnamed, count: UInt64 = 1
  ) -> AuditRecord {
    var refusal = record(id, uid: 7, result: "not_permitted", from: 1000 + id, count: count)
    refusal.refuser = AuditSubject(.unit(refuser, user: nil), isNamed: standing == .named)
    return refusal
  }

  private func kept(_ file: AuditFile) async throws -> [Int64] {
    try await file.read(AuditQuestion(limit: 10_000)).map(\.id).sorted()
  }

  @Test("removes refusals first, of the largest holder, and releases last")
  func shares() async throws {
    let file = try file()
    try await file.write((1...100).map { record($0) }, most: 160)
    for id in stride(from: 101, through: 1100, by: 10) as StrideThrough<Int64> {
      try await file.write((id..<(id + 10)).map { refusal($0, of: "a") }, most: 160)
      #expect(try await kept(file).count <= 120)
    }
    #expect(try await kept(file) == Array(1...100) + Array(1081...1100))
    // Another does not have to go for it, and what happens later goes before both.
    try await file.write([refusal(2000, of: "b", .named)], most: 160)
    try await file.write((2001...2045).map { record($0) }, most: 160)
    #expect(try await kept(file) == Array(1...100) + Array(1087...1100) + Array(2000...2045))
    try await file.write((3001...3010).map { record($0) }, most: 160)
    #expect(try await kept(file) == Array(6...100) + Array(1092...1100) + Array(2000...2045) + Array(3001...3010))
    await file.close()
  }

  @Test("knows after a restart who has how many, and keeps a refusal that is counted still")
  func sharesAfterRestart() async throws {
    let first = try file()
    try await first.write((1...20).map { refusal($0, of: "a") }, most: 160)
    await first.close()
    let second = try file()
    var latest = refusal(1, of: "a", count: 9)
    latest.last = Timestamp(seconds: 9000)
    try await second.write([latest, refusal(21, of: "a"), refusal(22, of: "b")], most: 160)
    #expect(try await kept(second) == [1] + Array(3...22))
    await second.close()
  }

  @Test("removes very many in steps after the limit was lowered")
  func lowered() async throws {
    let file = try file()
    try await file.write((1...25_000).map { refusal($0, of: "a\($0 % 100)", .named) }, most: 1_000_000)
    try await file.removeRecords(before: Timestamp(seconds: 0), most: 1600)
    #expect(try await kept(file).count == 1600)
    await file.close()
  }

  @Test("of the first version gets the shares; refusals of that time count as of callers that no rule names")
  func upgrade() async throws {
    try FileManager.default.createDirectory(atPath: folder.state, withIntermediateDirectories: true)
    let old = try SQLiteConnection(path: folder.state + "/audit.db")
    try old.write { db in
      try db.execute(
        """
        CREATE TABLE audit (id INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL,
          count INTEGER NOT NULL, action TEXT NOT NULL, method TEXT NOT NULL, account TEXT, provider TEXT, uid INTEGER,
          pid INTEGER, unit TEXT, user_unit TEXT, exe TEXT, scopes TEXT, generation INTEGER, rule TEXT,
          result TEXT NOT NULL, detail TEXT) STRICT;
        CREATE INDEX audit_by_account ON audit (account, id);
        CREATE INDEX audit_by_end ON audit (last);
        PRAGMA application_id = \(0x6772_6e61); PRAGMA user_version = 1;
        """)
      for id in Int64(1)...200 {
        try db.execute(
          """
          INSERT INTO audit (id, first, last, count, action, method, uid, result)
          VALUES (?, ?, ?, 1, 'release', 'token.get', 7, ?)
          """, [.integer(id), .integer(id * 1000), .integer(id * 1000), .text(id > 50 ? "not_permitted" : "ok")])
      }
    }
    try old.close()
    let file = AuditFile(folder: folder.state)
    #expect(try await kept(file) == Array(1...200))
    try await file.write([record(201)], most: 160)
    #expect(try await kept(file) == Array(1...50) + Array(181...201))
    await file.close()
  }

  @Test("of a newer version is refused, and not harmed")
  func newer() async throws {
    let first = try file()
    try await first.write([record(1)], most: 1000)
    await first.close()
    let queue = try SQLiteConnection(path: first.path)
    try queue.write { try $0.execute("PRAGMA user_version = 99; ALTER TABLE audit ADD COLUMN later TEXT") }
    try queue.close()
    let second = try file()
    let error = await #expect(throws: StoreError.self) { try await second.write([record(2)], most: 1000) }
    #expect(error == .newer(path: second.path, found: 99, known: 3))
    await second.close()
    let after = try SQLiteConnection(path: first.path)
    #expect(try after.read { try $0.value("SELECT count(*) FROM audit")?.integer } == 1)
  }

  @Test("whose version or application number is damaged is put aside", arguments: [0, 1, 2, 7, 99, nil])
  func damagedNumber(version: Int?) async throws {
    let first = try file()
    try await first.write([record(1)], most: 1000)
    await first.close()
    let database = try SQLiteConnection(path: first.path)
    try database.use { try $0.execute(version.map { "PRAGMA user_version = \($0)" } ?? "PRAGMA application_id = 5") }
    try database.close()
    let second = try file()
    let error = await #expect(throws: StoreError.self) { try await second.write([record(2)], most: 1000) }
    guard case .corrupt(_, let detail) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(detail.contains("audit.db.damaged"))
    try await second.write([record(2)], most: 1000)
    #expect(try await kept(second) == [2])
    await second.close()
    let aside = try SQLiteConnection(path: first.path + ".damaged")
    #expect(try aside.read { try $0.value("SELECT count(*) FROM audit")?.integer } == 1)
  }

  @Test("that is damaged is put aside, and the next write begins a new one")
  func damaged() async throws {
    let first = try file()
    try Data("this is no database, and never was one".utf8).write(to: URL(fileURLWithPath: first.path))
    let error = await #expect(throws: StoreError.self) { try await first.write([record(1)], most: 1000) }
    guard case .corrupt(_, let detail) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(detail.contains("audit.db.damaged"))
    #expect(FileManager.default.fileExists(atPath: first.path + ".damaged"))
    try await first.write([record(1)], most: 1000)
    #expect(try await first.read(AuditQuestion(limit: 9)) == [record(1)])
    await first.close()
  }

  @Test("that is removed or replaced while open is started again", arguments: [false, true])
  func removed(isReplaced: Bool) async throws {
    let file = try file()
    try await file.write([record(1)], most: 1000)
    for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file.path + suffix) }
    if isReplaced { try #require(FileManager.default.createFile(atPath: file.path, contents: nil)) }
    try await file.write([record(2)], most: 1000)
    let other = AuditFile(folder: folder.state)
    #expect(try await other.read(AuditQuestion(limit: 9)).map(\.id) == [2])
    await other.close()
    await file.close()
  }
}
