import AsyncClient
import BlockingClient
import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

/// Rules with `confirm` in the real daemon: the caller and the approver are separate programs.
@Suite("Approval before a release")
struct ConfirmTests {
  /// In an instance of a user, whose programs need no rule otherwise.
  private static func rule(_ more: String = "") -> String {
    "[[rule]]\nname = \"ask-me\"\nanyone = true\naccounts = [\"alice\"]\naccess = [\"use\"]\nconfirm = true\n\(more)\n"
  }

  private static let hook = """
    cat > "$1/part" && printf '%s\\n' "$GRANTD_RELEASE_ID $GRANTD_METHOD $GRANTD_CALLER_PID" >> "$1/part" && mv "$1/part" "$1/told"
    """

  private func with(_ more: String = "", _ body: (Rig) async throws -> Void) async throws {
    try await Rig.with(Wish { $0.configuration = Self.rule() + more }) { rig in
      try await rig.login("alice")
      try await rig.login("bob")
      try await body(rig)
    }
  }

  /// Starts `grantctl token alice` and does not wait for it.
  private func asking(_ rig: Rig, _ arguments: [String] = [], to output: String = "asked") throws -> Child {
    try Child(
      Programs.grantctl, ["--socket", rig.socket, "token", "alice"] + arguments,
      environment: Programs.environment(rig.folder), output: rig.folder.path(output))
  }

  private func text(_ rig: Rig, _ name: String = "asked") -> String {
    (try? String(contentsOfFile: rig.folder.path(name), encoding: .utf8)) ?? ""
  }

  private func grantctl(_ rig: Rig, _ arguments: [String]) async throws -> (status: Int32, output: String) {
    try await Programs.run(Programs.grantctl, ["--socket", rig.socket] + arguments, in: rig.folder)
  }

  private func list(_ rig: Rig) async throws -> ReleaseList.Result {
    try await rig.client.call(ReleaseList.self, .init(), timeout: .seconds(30))
  }

  private func waiting(_ rig: Rig, _ pid: pid_t? = nil) async throws -> ReleaseView {
    try await eventually("a release waits") {
      try await self.list(rig).waiting.first { pid == nil || $0.caller.pid == pid }
    }
  }

  @Test("a program waits for `grantctl approve` and then gets the token; others are served during the wait")
  func approved() async throws {
    try await with { rig in
      let asked = try asking(rig)
      let release = try await waiting(rig)
      #expect(release.caller.pid == asked.pid && release.caller.exe == Programs.grantctl && release.rule == "ask-me")
      for _ in 1...20 { _ = try await rig.token("bob") }
      let listed = try await grantctl(rig, ["approve"])
      #expect(listed.status == 0 && listed.output.contains(release.id) && listed.output.contains("token.get"))
      #expect(listed.output.split(separator: "\n").allSatisfy { $0.count <= 80 || $0.hasPrefix("    ") })
      #expect(asked.status == nil)
      let said = try await grantctl(rig, ["approve", release.id])
      #expect(said.status == 0 && said.output == "Allowed: \(release.id)\n")
      #expect(try await asked.end() == 0)
      // The cache has it by now; it asks again all the same.
      let again = try asking(rig, to: "again")
      let second = try await waiting(rig)
      #expect(second.id != release.id && again.status == nil)
      #expect(try await grantctl(rig, ["approve", second.id, "--deny"]).output == "Refused: \(second.id)\n")
      #expect(try await again.end() == 4)
      #expect(text(rig, "again").contains("the user refused token.get for account alice"))
      #expect(try await grantctl(rig, ["approve", second.id]).status == 7)
      let token = text(rig).dropLast()
      #expect(await eventually { rig.log.contains(release.id) })
      #expect(token.count > 8 && !rig.log.contains(token))
    }
  }

  @Test("without an answer the program gets the next step in time; a closed connection stops waiting")
  func ends() async throws {
    try await with { rig in
      let asked = try asking(rig, ["--timeout", "15"])
      _ = try await waiting(rig)
      #expect(try await asked.end() == 5)
      #expect(text(rig).contains("was not confirmed in time") && text(rig).contains("grantctl approve --wait"))
      let leaving = try asking(rig)
      _ = try await waiting(rig, leaving.pid)
      leaving.kill9()
      try await eventually("nothing waits") { try await self.list(rig).waiting.isEmpty }
    }
  }

  @Test("no other method gets at the token, nor does the process that asks allow itself")
  func notAround() async throws {
    try await with { rig in
      let other = try await SocketClient.connect(path: rig.socket)
      for (method, params) in [
        ("token.get", ["account": "alice", "min_ttl": 1]), ("token.get", ["account": "alice"]),
        ("account.userinfo", ["account": "alice"]), ("token.introspect", ["account": "alice"]),
        ("request.send", ["account": "alice", "method": "GET", "url": "/"]), ("token.exchange", ["account": "alice"]),
        ("token.exchange", ["account": "bob", "actor": "alice"]),
      ] as [(String, JSON)] {
        let answer = Task { () -> RPCError? in
          do {
            _ = try await other.call(method: method, params: params, timeout: .seconds(30))
            return nil
          } catch SocketClientError.rpc(let error) {
            return error
          }
        }
        let release = try await waiting(rig)
        #expect(release.method == method && release.account == "alice")
        let own = try await rig.failure("release.approve", ["id": .string(release.id)])
        #expect(own.reason == .notPermitted)
        #expect(try await grantctl(rig, ["approve", release.id, "--deny"]).status == 0)
        #expect(try await answer.value?.reason == .notPermitted)
      }
      await other.close()
    }
  }

  @Test("an approval for a time is for this program, a reload ends it, and removing the rule releases waiting calls")
  func standing() async throws {
    try await with { rig in
      let asked = try asking(rig)
      let first = try await waiting(rig)
      #expect(try await grantctl(rig, ["approve", first.id, "--for", "10m"]).status == 0)
      #expect(try await asked.end() == 0)
      #expect(try await asking(rig, to: "second").end() == 0)
      #expect(try await grantctl(rig, ["approve"]).output.contains(" more: token.get of alice to "))
      // This process is another program.
      let other = Task { try await rig.failure("token.get", ["account": "alice", "timeout": 50]) }
      let release = try await waiting(rig, getpid())
      #expect(try await grantctl(rig, ["approve", release.id, "--deny"]).status == 0)
      #expect(try await other.value.reason == .notPermitted)
      try await rig.call("broker.reload")
      let third = try asking(rig, to: "third")
      _ = try await waiting(rig, third.pid)
      try rig.folder.write(
        try String(contentsOfFile: rig.configurationFile, encoding: .utf8).replacing("confirm = true", with: ""),
        to: "grantd.toml")
      try await rig.call("broker.reload")
      #expect(try await third.end() == 0)
    }
  }

  @Test("an agent and a hook see the caller but no token; a stopping daemon ends all waits")
  func told() async throws {
    try await with("[[on_event]]\ncommand = [\"/bin/sh\", \"HOOK\", \"FOLDER\"]\nevents = [\"release.waiting\"]\n") {
      rig in
      let script = try rig.folder.write(Self.hook, to: "hook.sh")
      let text = try String(contentsOfFile: rig.configurationFile, encoding: .utf8)
      try rig.folder.write(
        text.replacing("\"HOOK\"", with: "\"\(script)\"").replacing("\"FOLDER\"", with: "\"\(rig.folder.root)\""),
        to: "grantd.toml")
      try await rig.call("broker.reload")
      let agent = try Child(
        Programs.grantctl, ["--socket", rig.socket, "approve", "--wait", "--json"],
        environment: Programs.environment(rig.folder), output: rig.folder.path("agent"))
      let asked = try asking(rig)
      let release = try await waiting(rig)
      try await eventually("the agent gets the event") { self.text(rig, "agent").contains(release.id) }
      try await eventually("the hook gets the event") { self.text(rig, "told").hasSuffix("\(asked.pid)\n") }
      #expect(self.text(rig, "told").contains("\(release.id) token.get \(asked.pid)"))
      #expect(try await rig.terminate() == 0)
      // It would have asked the next daemon, which does not come.
      #expect(try await asked.end() == 6)
      #expect(try await agent.end() == 6)
    }
  }

  @Test("a backup cannot wait: the error has a valid rule that permits backups without approval")
  func backup() async throws {
    try await with { rig in
      let secret: JSON = ["passphrase": "correct horse battery"]
      let refused = try await rig.failure("store.backup", secret)
      #expect(refused.reason == .notPermitted && refused.message.contains("rule ask-me"))
      let hint = try #require(refused.hint)
      let start = try #require(hint.range(of: "[[rule]]"))
      try rig.configure(String(hint[start.lowerBound...]))
      let checked = try await Programs.runGrantd(
        ["--user", "--config", rig.configurationFile, "--check-config"], in: rig.folder)
      #expect(checked.status == 0 && checked.output.hasSuffix(" 2 rules\n"), "\(checked.output)")
      try await rig.call("broker.reload")
      #expect(try await rig.call("store.backup", secret)["accounts"]?.integer == 2)
      let asked = Task { try await rig.failure("token.get", ["account": "alice", "timeout": 50]) }
      let release = try await waiting(rig, getpid())
      #expect(try await grantctl(rig, ["approve", release.id, "--deny"]).status == 0)
      #expect(try await asked.value.reason == .notPermitted)
    }
  }

  @Test("grantctl explain reports the approval")
  func explained() async throws {
    try await with { rig in
      let said = try await grantctl(rig, ["explain", "alice"])
      #expect(said.status == 0 && said.output.hasPrefix("allowed after confirmation: "))
      #expect(said.output.contains("rule ask-me") && said.output.contains("1 min"))
      #expect(try await grantctl(rig, ["explain", "bob"]).output.hasPrefix("allowed: it is the owner"))
    }
  }
}
