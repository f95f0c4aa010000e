import AsyncClient
import BlockingClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("The audit trail of the real daemon", .atMost)
struct AuditTests {
  private func audit(_ rig: Rig, _ arguments: String...) async throws -> (status: Int32, output: String) {
    try await Programs.run(
      Programs.grantctl, ["audit", "--socket", rig.socket] + arguments, in: rig.folder)
  }

  private func records(_ rig: Rig, _ params: AuditList.Params = .init()) async throws -> [AuditList.Line] {
    try await rig.client.call(AuditList.self, params, timeout: .seconds(20)).records
  }

  @Test("records a login, cached tokens, other tokens and a logout, each with its program")
  func trail() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let raw = try RawClient(rig.socket)
      for number in 1...20 {
        try await raw.send(tokenGet(number) + "\n")
        _ = try await raw.line()
      }
      let said = try await Programs.run(
        Programs.grantctl, ["token", "alice", "--socket", rig.socket], in: rig.folder)
      #expect(said.status == 0)
      _ = try await rig.call("account.logout", ["account": "alice"])
      let records = try await records(rig)
      let releases = records.filter { $0.action == .release }
      #expect(releases.map(\.count).sorted() == [1, 20], "\(releases)")
      let mine = try #require(releases.first { $0.count == 20 })
      #expect(mine.uid == getuid() && mine.pid == getpid() && mine.account == "alice" && mine.provider == "demo")
      #expect(mine.scopes?.contains("openid") == true && mine.generation == 1 && mine.result == "ok")
      #expect(releases.first { $0.count == 1 }?.exe?.hasSuffix("grantctl") == true)
      #expect(
        records.reversed().filter { $0.action != .release }.map(\.method)
          == ["broker.start", "login.start", "login.completed", "account.logout"])
      let token = try #require(said.output.split(separator: "\n").first.map(String.init))
      #expect(token.count > 8)
      for name in try FileManager.default.contentsOfDirectory(atPath: rig.state) {
        let bytes = try Data(contentsOf: URL(fileURLWithPath: rig.state + "/" + name))
        #expect(bytes.range(of: Data(token.utf8)) == nil, "\(name) has a token")
      }
    }
  }

  @Test("records of releases are on disk soon, and numbering continues after kill -9")
  func crash() async throws {
    try await Rig.with { rig in
      try await rig.login()
      _ = try await rig.token()
      let file = rig.state + "/audit.db-wal"
      // Not asked for over the socket: that would write it.
      try await eventually("the release is on disk") {
        FileManager.default.contents(atPath: file)?.range(of: Data("releasetoken.get".utf8)) != nil
      }
      try await rig.restart()
      _ = try await rig.token()
      let releases = try await records(rig, .init(account: "alice", action: .release))
      #expect(releases.map(\.count) == [1, 1] && Set(releases.map(\.id)).count == 2)
    }
  }

  @Test("a caller over its rate is refused with a delay, gets the cached token, and is recorded")
  func rates() async throws {
    try await Rig.with(Wish { $0.configuration = "[limits]\nrequests_per_second = 5\nburst = 20\n" }) { rig in
      try await rig.login()
      // From here on its token is served from memory.
      _ = try await rig.token()
      var error: RPCError?
      for _ in 1...400 where error == nil {
        do { _ = try await rig.call("broker.status") } catch SocketClientError.rpc(let refusal) { error = refusal }
      }
      #expect(error?.reason == .rateLimited && (error?.retry_after).map { $0 > 0 && $0 <= 0.2 } == true)
      #expect(error?.hint?.isEmpty == false)
      _ = try await rig.token()
      let refused = try await eventually("the rate lets a question through") {
        // Each question is one more.
        try? await records(rig, .init(refused: true)).last
      }
      #expect(refused.result == "rate_limited" && refused.method == "broker.status")
    }
  }

  @Test("a trail that cannot be written keeps no token back, and is written when it can be")
  func unwritable() async throws {
    try await Rig.with(starting: false) { rig in
      try FileManager.default.createDirectory(
        atPath: rig.state + "/audit.db", withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: rig.state)
      try await rig.start()
      try await rig.login()
      _ = try await rig.token()
      try await eventually("it is said") { rig.log.contains("the audit trail cannot be") }
      try FileManager.default.removeItem(atPath: rig.state + "/audit.db")
      let releases = try await eventually("it is written") {
        let all = try? await records(rig, .init(account: "alice"))
        return all?.isEmpty == false ? all : nil
      }
      #expect(Set(releases.map(\.method)).isSuperset(of: ["login.start", "login.completed", "token.get"]))
    }
  }

  @Test("grantctl audit shows it to people and to programs, and knows its times")
  func command() async throws {
    try await Rig.with { rig in
      let begun = try await audit(rig)
      #expect(begun.status == 0 && begun.output.contains("broker.start"), "\(begun.output)")
      let nothing = try await audit(rig, "--refused")
      #expect(nothing.status == 0 && nothing.output == "Nothing is recorded of that.\n", "\(nothing.output)")
      try await rig.login()
      _ = try await rig.token()
      let shown = try await audit(rig, "--account", "alice", "--since", "1h")
      let lines = shown.output.split(separator: "\n")
      #expect(shown.status == 0 && lines.first?.hasPrefix("LAST ") == true, "\(shown.output)")
      #expect(lines.contains { $0.contains("token.get") && $0.hasSuffix("ok") })
      let parsed = try JSON.parse(Array(try await audit(rig, "--json", "--action", "release").output.utf8))
      #expect(parsed["records"]?.array?.first?["account"]?.string == "alice")
      #expect(
        try await audit(rig, "--since", "2020-01-01", "--until", "2020-01-02 10:30").output
          == "Nothing is recorded of that.\n")
      for wrong in ["yesterday", "2026-02-31", "5y", "2026-1", "-3h"] {
        #expect(try await audit(rig, "--since=\(wrong)").status == 64, "\(wrong)")
      }
    }
  }
}
