import Broker
import BrokerAPI
import Foundation
import GRDB
import OAuth
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

  @Test("gives back what was written, after it was opened again, the latest first")
  func roundTrip() async throws {
    let bare = AuditRecord(
      id: 2, entry: AuditEntry(action: .policy, method: "broker.reload", who: .init(uid: nil)), pid: nil, count: 1,
      first: Timestamp(seconds: 5), last: Timestamp(seconds: 5))
    let first = try file()
    #expect(try await first.lastID() == 0)
    try await first.write([record(1, uid: .max), bare])
    await first.close()
    let second = try file()
    #expect(try await second.lastID() == 2)
    #expect(try await second.read(AuditQuestion(limit: 10)) == [bare, record(1, uid: .max)])
    #expect(try FileManager.default.attributesOfItem(atPath: second.path)[.posixPermissions] as? Int == 0o600)
    await second.close()
  }

  @Test("keeps the higher count of a record, whichever comes last")
  func counts() async throws {
    let file = try file()
    try await file.write([record(1, to: 2000, count: 9)])
    try await file.write([record(1, to: 1500, count: 4)])
    #expect(try await file.read(AuditQuestion(limit: 1)) == [record(1, to: 2000, count: 9)])
    try await file.write([record(1, to: 3000, count: 10)])
    #expect(try await file.read(AuditQuestion(limit: 1)) == [record(1, to: 3000, count: 10)])
    await file.close()
  }

  @Test("answers each question with the records that it names")
  func questions() async throws {
    let file = try file()
    try await file.write([
      record(1), record(2, account: "home"), record(3, uid: 0, unit: nil), record(4, action: .login),
      record(5, result: "not_permitted"), record(6, account: nil, result: "rate_limited", from: 2000, to: 3000),
    ])
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
      ])
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

  @Test("counts what did not get to its unit among the refusals")
  func refusals() async throws {
    let file = try file()
    let results = ["ok", "not_permitted", "login_required", "rate_limited", "not_delivered"]
    try await file.write(results.enumerated().map { record(Int64($0.offset + 1), result: $0.element) })
    var question = AuditQuestion(limit: 10)
    question.refusalsOnly = true
    #expect(try await file.read(question).map(\.entry.result) == ["not_delivered", "rate_limited", "not_permitted"])
    await file.close()
  }

  @Test("forgets what is old, and the oldest where there is too much")
  func retention() async throws {
    let file = try file()
    try await file.write((1...20).map { record($0, from: $0 * 100) })
    try await file.forget(before: Timestamp(seconds: 500), most: 100)
    #expect(try await file.read(AuditQuestion(limit: 100)).map(\.id) == (5...20).reversed())
    try await file.forget(before: Timestamp(seconds: 0), most: 3)
    #expect(try await file.read(AuditQuestion(limit: 100)).map(\.id) == [20, 19, 18])
    await file.close()
  }

  @Test("of a newer version is refused, and not harmed")
  func newer() async throws {
    let first = try file()
    try await first.write([record(1)])
    await first.close()
    let queue = try DatabaseQueue(path: first.path)
    try await queue.write { try $0.execute(sql: "PRAGMA user_version = 99") }
    try queue.close()
    let second = try file()
    let error = await #expect(throws: StoreError.self) { try await second.write([record(2)]) }
    #expect(error == .newer(path: second.path, found: 99, known: 1))
    await second.close()
    let after = try DatabaseQueue(path: first.path)
    #expect(try await after.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM audit") } == 1)
  }

  @Test("that is damaged is put aside, and the next write begins a new one")
  func damaged() async throws {
    let first = try file()
    try Data("this is no database, and never was one".utf8).write(to: URL(fileURLWithPath: first.path))
    let error = await #expect(throws: StoreError.self) { try await first.write([record(1)]) }
    guard case .corrupt(_, let detail) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(detail.contains("audit.db.damaged"))
    #expect(FileManager.default.fileExists(atPath: first.path + ".damaged"))
    try await first.write([record(1)])
    #expect(try await first.read(AuditQuestion(limit: 9)) == [record(1)])
    await first.close()
  }

  @Test("that is removed or replaced while it is open is begun anew", arguments: [false, true])
  func removed(isReplaced: Bool) async throws {
    let file = try file()
    try await file.write([record(1)])
    for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file.path + suffix) }
    if isReplaced { try #require(FileManager.default.createFile(atPath: file.path, contents: nil)) }
    try await file.write([record(2)])
    let other = AuditFile(folder: folder.state)
    #expect(try await other.read(AuditQuestion(limit: 9)).map(\.id) == [2])
    await other.close()
    await file.close()
  }
}
