import BrokerAPI
import DemoProvider
import Foundation
import TestSupport
import Testing

/// grantctl and the real daemon: sign-ins that need more than a browser.
@Suite("grantctl signs in at the special systems", .atMost)
struct CommandLineTests {
  /// A waiting `grantctl login`, and the URL that it prints.
  private struct Waiting {
    let child: Child
    let output: String
    let address: String

    var said: String { (try? String(contentsOfFile: output, encoding: .utf8)) ?? "" }
  }

  private func login(_ rig: Rig, _ arguments: String...) async throws -> Waiting {
    let output = rig.folder.path("login-\(UUID().uuidString).out")
    let child = try Child(
      Programs.grantctl, ["login"] + arguments + ["--socket", rig.socket],
      environment: Programs.environment(rig.folder), output: output)
    let address = try await eventually("the address is shown") {
      (try? String(contentsOfFile: output, encoding: .utf8))?.firstMatch(of: #/(?m)^(http\S+)\n/#).map { String($0.1) }
    }
    return Waiting(child: child, output: output, address: address)
  }

  private func run(_ rig: Rig, _ arguments: String...) async throws -> (status: Int32, output: String) {
    let socket = ["--socket", rig.socket]
    // `login continue` is one command of two words.
    let words = arguments.dropFirst().first == "continue" ? 2 : 1
    return try await Programs.run(
      Programs.grantctl, arguments.prefix(words) + socket + arguments.dropFirst(words), in: rig.folder)
  }

  @Test("too many sessions: without a terminal the message names the next command, which signs in after a restart")
  func sessionLimit() async throws {
    try await Rig.withVMS { rig in
      rig.demo.changeSettings { $0.vms.sessionLimit = 1 }
      let old = try rig.demo.addVMSSession(client: "old", isOnline: false, age: .seconds(3600))
      let waiting = try await login(rig, "cameras", "alice")
      let handed = try await run(rig, "handle-url", "--", try await rig.address(waiting.address, as: "alice"))
      #expect(handed.status == 0 && handed.output.hasPrefix("Not done yet: "), "\(handed.output)")
      #expect(try await waiting.child.end() == 9, "\(waiting.said)")
      #expect(waiting.said.contains("\n\(old) ") && waiting.said.contains("1 h ago"), "\(waiting.said)")
      let id = try #require(waiting.said.firstMatch(of: #/grantctl login continue (\S+) --replace-session ID/#)).1
      try await rig.restart()
      let done = try await run(rig, "login", "continue", String(id), "--replace-session", "oldest")
      #expect(done.status == 0, "\(done.output)")
      #expect(
        done.output.contains(
          "Signed in to alice as alice@demo.example at cameras, by a printed URL, not the first way that was offered\n"
        ))
      let sessions = try await run(rig, "sessions", "alice")
      #expect(sessions.status == 0 && sessions.output.contains("this one") && !sessions.output.contains("old"))
      let me = try await run(rig, "request", "alice", "GET", "/users/self")
      #expect(me.status == 0 && me.output.contains("\"alice@demo.example\""), "\(me.output)")
      let none = try await run(rig, "request", "alice", "GET", "/nothing", "--include")
      #expect(none.status == 22 && none.output.hasPrefix("HTTP 404\n"), "\(none.output)")
    }
  }

  @Test("a registration is answered ahead, and the session comes as a cookie")
  func registration() async throws {
    try await Rig.withZephr { rig in
      rig.demo.changeSettings { $0.zephr.requiredAttributes = "city" }
      let waiting = try await login(rig, "news", "seven", "--attribute", "city=Köln")
      let address = try await rig.address(waiting.address, as: "user-7")
      let handed = try await run(rig, "handle-url", "--", address)
      #expect(handed.status == 0, "\(handed.output)")
      #expect(try await waiting.child.end() == 0, "\(waiting.said)")
      #expect(waiting.said.contains("Signed in to seven"))
      let (id, cookie) = (try await run(rig, "token", "seven"), try await run(rig, "token", "seven", "--cookie"))
      #expect(id.status == 0 && cookie.output == "blaize_session=\(id.output)")
      let out = try await run(rig, "logout", "seven", "--extent", "EVERYWHERE")
      #expect(out.status == 0 && out.output.hasPrefix("Sign out at the provider  done\n"), "\(out.output)")
    }
  }

  @Test("a URL of another program belongs to no login, and a redirecting one names its target")
  func handedOver() async throws {
    try await Rig.withVMS { rig in
      let foreign = try await run(rig, "handle-url", "--", "vms-demo://external-auth?code=x")
      #expect(foreign.status == 7, "\(foreign.output)")
    }
    let forward = "https://provider.example/external/callback"
    let lines = "bridge = [{ scheme = \"fb123\", forward = \"\(forward)\", in_query = { fbapp_type = \"web\" } }]"
    try await Rig.withSevenPass(lines) { rig in
      let waiting = try await login(rig, "7pass", "alice")
      defer { waiting.child.kill9() }
      let handed = try await run(rig, "handle-url", "--", "fb123://authorize?state=s&code=c")
      #expect(handed.status == 0 && handed.output.contains("\(forward)?"), "\(handed.output)")
      #expect(waiting.child.status == nil)
    }
  }
}
