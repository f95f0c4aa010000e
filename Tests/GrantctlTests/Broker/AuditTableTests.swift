import BrokerAPI
import Foundation
import Testing

@testable import grantctl

/// What was done, as people read it.
@Suite("grantctl audit") struct AuditTableTests {
  static func line(
    _ id: Int64, _ method: String, account: String? = "work", last: Int64 = 0,
    change: (inout AuditList.Line) -> Void = { _ in }
  ) -> AuditList.Line {
    var line = AuditList.Line(
      id: id, first: Recorder.now + last, last: Recorder.now + last, count: 1, action: .release, method: method,
      account: account, provider: nil, uid: 1000, pid: 4711, unit: "user@1000.service", user_unit: nil, exe: nil,
      scopes: nil, generation: nil, rule: nil, result: "ok", detail: nil)
    change(&line)
    return line
  }

  private func text(_ lines: [AuditList.Line], now: Int64 = Recorder.now + 3600) -> String {
    lines.table(now: now, in: .utc, users: UserNames()).lines(width: 80, colour: false).joined(separator: "\n")
  }

  @Test("the newest record is the last, with its caller, and the rest below it")
  func table() {
    let lines = [
      Self.line(4, "broker.start", account: nil, last: -90) {
        ($0.uid, $0.unit, $0.detail) = (nil, nil, "3 rules, policy 5f2c")
      },
      Self.line(3, "release.approve", account: "bank", last: 600) {
        $0.exe = "/usr/bin/grantctl"
        $0.detail = "token.get to feed@1.service (uid 1000), for 600 s"
      },
      Self.line(2, "token.get", last: 60) {
        ($0.unit, $0.uid, $0.result) = (nil, nil, "not_permitted")
        $0.detail = "the caller has ended"
      },
      Self.line(1, "token.get", last: 1800) {
        $0.first = Recorder.now - 7200
        ($0.unit, $0.exe) = (nil, "/usr/bin/feed")
        ($0.count, $0.rule, $0.scopes) = (20, "feed", ["openid", "email"])
      },
    ]
    #expect(
      text(lines) == """
        LAST            USER  CALLER             METHOD           ACCOUNT  RESULT
        2025-12-31      -     grantd             broker.start     -        ok
            3 rules, policy 5f2c
        01-01 00:01:00  -     unknown            token.get        work     not_permitted
            the caller has ended
        01-01 00:10:00  1000  user@1000.service  release.approve  bank     ok
            token.get to feed@1.service (uid 1000), for 600 s
        01-01 00:30:00  1000  feed               token.get        work     ok
            20 times since 2025-12-31; rule feed; scopes: openid email
        """)
  }

  @Test("at 80 columns the time, the user, the method and a refusal are whole; a note has the cut values")
  func narrow() {
    let lines = Methods.all.enumerated().map { index, method in
      Self.line(Int64(1000 - index), method.name, account: "a-rather-long-account-name@example.com", last: -40) {
        ($0.uid, $0.user_unit, $0.result) = (65534, "a-rather-long-name-of-a-unit@1.service", "not_permitted")
      }
    }
    let all = text(lines, now: Recorder.now + 86_400 * 3).split(separator: "\n").dropFirst()
    let rows = all.filter { !$0.hasPrefix("    ") }
    #expect(rows.count == Methods.all.count)
    let notes = all.filter { $0.hasPrefix("    ") }
    #expect(notes.count == 2 * rows.count)
    #expect(
      notes.prefix(2) == [
        "    caller a-rather-long-name-of-a-unit@1.service; account",
        "    a-rather-long-account-name@example.com",
      ])
    for (row, line) in zip(rows, lines.reversed()) {
      #expect(SafeText.width(String(row)) <= 80 && row.hasPrefix("2025-12-31  65534  a-r"), "\(row)")
      #expect(row.contains(" \(line.method) ") && row.hasSuffix("  not_permitted"), "\(row)")
    }
  }
}
