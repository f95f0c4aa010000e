import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

@Suite("Hooks and metrics of the real daemon")
struct WatchingTests {
  /// Writes its environment and its input into files of the event's name.
  private static let script = """
    cat /proc/$$/environ > "$1/$GRANTD_EVENT.part"
    mv "$1/$GRANTD_EVENT.part" "$1/$GRANTD_EVENT.environment"
    cat > "$1/$GRANTD_EVENT.part"
    mv "$1/$GRANTD_EVENT.part" "$1/$GRANTD_EVENT.json"
    """

  private func read(_ rig: Rig, _ name: String) -> String? {
    try? String(contentsOfFile: rig.folder.path(name), encoding: .utf8)
  }

  @Test("a hook runs with the event in its environment and on its input, and without a token or more")
  func hook() async throws {
    let wish = Wish {
      $0.accessTTL = 20
      $0.rotation = .none
      $0.provider = "rotation = \"none\""
      $0.refresh = "share = 0.1\njitter = 0\nretry_delays = [\"1s\"]"
      $0.environment = ["SECRET_OF_THE_DAEMON": "x"]
    }
    try await Rig.with(wish, starting: false) { rig in
      try rig.folder.write(Self.script, to: "hook.sh")
      try rig.configure(
        """
        [[on_event]]
        command = ["/bin/sh", "\(rig.folder.path("hook.sh"))", "\(rig.folder.root)"]
        events = ["login.completed", "token.failed"]
        accounts = ["al*"]
        """)
      try await rig.start()
      try rig.demo.fault(.status, at: .tokenRefresh) { $0.status = 500 }
      try await rig.login("bob")
      try await rig.login("alice")
      try await eventually("the hook of the login ran") { self.read(rig, "login.completed.json") != nil }
      try await eventually("the hook of the failure ran") { self.read(rig, "token.failed.json") != nil }
      let token = try await rig.token().access_token
      for name in ["login.completed", "token.failed"] {
        let line = try #require(read(rig, "\(name).json"))
        let event = try JSON.parse(Array(line.utf8)).decode(Event.self)
        #expect(event.type.rawValue == name && event.account == "alice" && event.provider == "demo")
        let variables = try #require(read(rig, "\(name).environment")).split(separator: "\0").map(String.init)
        #expect(variables.contains("GRANTD_EVENT=\(name)") && variables.contains("GRANTD_ACCOUNT=alice"))
        #expect(variables.contains("PATH=/usr/bin:/bin"))
        #expect(variables.allSatisfy { $0.hasPrefix("GRANTD_") || $0.hasPrefix("PATH=") || $0.hasPrefix("LANG=") })
        #expect(!line.contains(token) && !variables.joined().contains(token))
      }
      let text = try await metrics(rig)
      #expect(text.contains("\ngrantd_hook_runs_total{result=\"succeeded\"} "))
      #expect(text.contains("\ngrantd_hook_runs_total{result=\"failed\"} 0\n"))
    }
  }

  @Test("a reload changes the hooks, and the daemon ends while one hangs")
  func reloaded() async throws {
    try await Rig.with(starting: false) { rig in
      try rig.configure("[[on_event]]\ncommand = [\"/bin/sh\", \"-c\", \"touch \(rig.folder.path("old"))\"]")
      try await rig.start()
      try await rig.login("alice")
      try await eventually("the old hook ran") { self.read(rig, "old") != nil }
      let pid = rig.folder.path("pid")
      try rig.configure(
        "[[on_event]]\ncommand = [\"/bin/sh\", \"-c\", \"echo $$ > \(pid).part; mv \(pid).part \(pid); sleep 600\"]")
      try await rig.call("broker.reload")
      try await rig.login("bob")
      try await eventually("the new hook runs") { self.read(rig, "pid") != nil }
      #expect(try await rig.terminate() == 0)
      let number = try #require(read(rig, "pid").flatMap { pid_t($0.dropLast()) })
      #expect(kill(number, 0) == -1)
    }
  }

  @Test("metrics come over the socket, the loopback port and a Unix socket, and a reload moves them")
  func metricsEverywhere() async throws {
    try await Rig.with(starting: false) { rig in
      try rig.configure("[metrics]\nlisten = \"127.0.0.1:0\"")
      try await rig.start()
      try await rig.login("alice")
      // The first is not from memory yet.
      for _ in 1...4 { _ = try await rig.token() }
      let text = try await metrics(rig)
      for line in [
        "grantd_accounts{provider=\"demo\",state=\"ok\"} 1", "grantd_store_ok 1",
        "grantd_logins_total{provider=\"demo\",outcome=\"completed\"} 1",
        "grantd_provider_condition{provider=\"demo\",grantd_provider_condition=\"ok\"} 1",
        "grantd_cached_tokens_served_total 3", "grantd_socket_connections 1",
      ] {
        #expect(text.contains("\n\(line)\n"))
      }
      for name in ["process_resident_memory_bytes", "process_open_fds", "process_max_fds", "process_cpu_seconds_total"]
      {
        #expect(text.contains("\n\(name) "))
      }
      #expect(!text.contains("alice") && text.hasSuffix("# EOF\n"))

      let address = try await eventually("the log has the address") {
        rig.log.firstMatch(of: /http:\/\/127\.0\.0\.1:[0-9]+\/metrics/).map { String($0.output) }
      }
      let page = try await Browser.open(address)
      #expect(page.status == 200 && page.body.contains("\ngrantd_store_ok 1\n") && page.body.hasSuffix("# EOF\n"))
      #expect(try await Browser.open(address, host: "evil.example").status == 421)
      #expect(try await Browser.open(address.replacing("/metrics", with: "/")).status == 404)

      try rig.configure("[metrics]\nlisten = \"\(rig.folder.path("m"))\"")
      let warnings = try #require(try await rig.call("broker.reload")["warnings"]?.array)
      #expect(warnings.allSatisfy { $0.string?.contains("metrics") == false })
      #expect(FileManager.default.fileExists(atPath: rig.folder.path("m")))
      await #expect(throws: (any Error).self) { try await Browser.open(address) }
      let written = try await Programs.run(Programs.grantctl, ["--socket", rig.socket, "metrics"], in: rig.folder)
      #expect(written.status == 0 && written.output.hasSuffix("# EOF\n"))
    }
  }

  private func metrics(_ rig: Rig) async throws -> String {
    try #require(try await rig.call("broker.metrics")["text"]?.string)
  }
}
