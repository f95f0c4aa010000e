import ArgumentParser
import BrokerAPI
import Foundation
import TestSupport
import Testing

@testable import grantctl

@Suite struct HandleURLTests {
  static let url = "de.7pass.example:/cb/authz?code=c&state=s1"
  private static let pending: JSON = ["login_id": "L1", "state": "pending"]

  private static func notified(_ words: String...) -> [String] {
    ["/usr/bin/notify-send", "--app-name=grantd", "--"] + words
  }

  @Test(
    "the user at the desktop gets the result",
    arguments: [
      (LoginTests.completed, ["Signed in", "as ada@example.com, account work"]),
      (
        LoginActionTests.two,
        [
          "Not done yet",
          "as many sessions are open as the provider allows (2). Go on in the terminal where you signed in, or with "
            + "grantctl login list.",
        ]
      ), (pending, ["Signing in", "Go back to the program that asked for it."]),
      (.null, ["Signed in", "Go back to the program that asked for it."]),
    ] as [(JSON, [String])], [true, false])
  func outcome(_ outcome: (state: JSON, words: [String]), hasNotifications: Bool) async throws {
    let foreign = RPCError(.unknownLogin, "no such login")
    try await ScriptedBroker.with([
      "login.handle_callback": answer(["handled": true, "login_id": "L1"]),
      "login.wait": outcome.state == .null ? refuse(foreign) : answer(outcome.state),
    ]) { broker, _ async throws in
      let recorder = Recorder()
      if !hasNotifications { recorder.absent = ["notify-send"] }
      #expect(try await broker.run(["handle-url", "--", Self.url], recorder) == .success)
      #expect(broker.params(of: "login.handle_callback") == ["url": .string(Self.url)])
      #expect(broker.params(of: "login.wait") == ["login_id": "L1", "timeout": 0])
      let expected = ["/usr/bin/notify-send", "--app-name=grantd", "--"] + outcome.words
      #expect(recorder.launched == (hasNotifications ? [expected] : []))
      #expect(recorder.err == (hasNotifications ? "" : outcome.words.joined(separator: ": ") + "\n"))
      #expect(recorder.out.isEmpty)
    }
  }

  @Test("the address comes from standard input too, and the answer as JSON") func standardInput() async throws {
    let result: JSON = ["handled": true, "login_id": "L1"]
    try await ScriptedBroker.with([
      "login.handle_callback": answer(result), "login.wait": answer(LoginTests.completed),
    ]) { broker, _ async throws in
      let recorder = Recorder()
      for line in ["", " \(Self.url)\r", "another"] { recorder.type(line) }
      recorder.endInput()
      #expect(try await broker.run(["handle-url", "-", "--json"], recorder) == .success)
      #expect(broker.params(of: "login.handle_callback") == ["url": .string(Self.url)])
      #expect(try JSON.parse(Array(recorder.out.utf8)) == result)
    }
  }

  @Test("if the browser must continue it does", arguments: [["DISPLAY": ":0"], [:]])
  func goesOn(environment: [String: String]) async throws {
    let next = "https://provider.example/external?code=c&fbapp_type=web"
    try await ScriptedBroker.with([
      "login.handle_callback": answer(["handled": true, "next_url": .string(next)])
    ]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["handle-url", Self.url], recorder, environment: environment) == .success)
      #expect(recorder.launched == (environment.isEmpty ? [] : [["/usr/bin/xdg-open", next]]))
      #expect(recorder.err.contains(next) && broker.methods == ["login.handle_callback"])
    }
  }

  @Test(
    "a URL that a broker may not open is not opened",
    arguments: ["file:///etc/passwd", "javascript:alert(1)", "myapp://x"])
  func noOtherAddress(next: String) async throws {
    try await ScriptedBroker.with([
      "login.handle_callback": answer(["handled": true, "next_url": .string(next)])
    ]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["handle-url", Self.url], recorder, environment: ["DISPLAY": ":0"]) == .success)
      #expect(recorder.launched.isEmpty)
    }
  }

  @Test(
    "a failure is shown at the desktop and has its exit status",
    arguments: [
      (RPCError(.loginDenied, "the login was refused: <b>no</b> & more"), ExitStatus.loginFailed),
      (RPCError(.invalidCallback, "no state in it"), .failure), (RPCError(.loginExpired, "too late"), .loginFailed),
    ] as [(RPCError, ExitStatus)])
  func failed(error: RPCError, status: ExitStatus) async throws {
    try await ScriptedBroker.with(["login.handle_callback": refuse(error)]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["handle-url", Self.url], recorder) == status)
      #expect(recorder.err.hasPrefix("grantctl: \(error.message)\n"))
      let words = recorder.launched.first ?? []
      #expect(words.dropLast() == Self.notified("Sign-in failed")[...])
      #expect(
        words.last?.hasPrefix(
          error.message.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
            .replacing(">", with: "&gt;")) == true)
      #expect(!(words.joined() + recorder.err).contains("code=c"))
    }
  }

  @Test("a URL of no login is reported, and an invalid one is not sent") func foreign() async throws {
    try await ScriptedBroker.with(["login.handle_callback": answer(["handled": false])]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["handle-url", Self.url], recorder) == .unknownName)
      #expect(recorder.err.hasPrefix("grantctl: that URL does not match a pending login\n"))
      #expect(broker.methods == ["login.handle_callback"])
      #expect(try await broker.run(["handle-url", "rubbish"], recorder) == .usage)
      #expect(broker.methods == ["login.handle_callback"])
    }
    let none = try await perform(["handle-url", Self.url], Recorder(), environment: ["GRANTD_SOCKET": "/nowhere/s"])
    #expect(none == .notRunning)
  }

  @Test(
    "the user's own broker is asked first, then the system's if the URL belongs to another",
    arguments: [
      (answer(["handled": false]), answer(["handled": true]), ExitStatus.success, true),
      (refuse(RPCError(.invalidCallback, "used before")), answer(["handled": true]), .success, true),
      (refuse(RPCError(.notPermitted, "no")), answer(["handled": true]), .success, true),
      (refuse(RPCError(.invalidCallback, "used before")), answer(["handled": false]), .failure, true),
      (answer(["handled": false]), refuse(RPCError(.notPermitted, "no")), .unknownName, true),
      (answer(["handled": true]), answer(["handled": true]), .success, false),
      (refuse(RPCError(.loginDenied, "no")), answer(["handled": true]), .loginFailed, false),
    ] as [(ScriptedBroker.Reply, ScriptedBroker.Reply, ExitStatus, Bool)])
  func brokers(
    first: @escaping ScriptedBroker.Reply, second: @escaping ScriptedBroker.Reply, status: ExitStatus, goesOn: Bool
  ) async throws {
    try await ScriptedBroker.with(["login.handle_callback": first]) { own, _ async throws in
      try await ScriptedBroker.with(["login.handle_callback": second]) { system, _ async throws in
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("gr-\(UUID().uuidString.prefix(8))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("grantd").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(atPath: path + "/grantd.sock", withDestinationPath: own.path)
        let environment = ["XDG_RUNTIME_DIR": folder.path]
        let result = try await perform(["handle-url", Self.url], Recorder(), environment: environment) {
          $0.systemSocket = system.path
          $0.files.exists = { $0 == path + "/grantd.sock" }
        }
        #expect(result == status)
        #expect(own.methods == ["login.handle_callback"] && system.methods.isEmpty == !goesOn)
      }
    }
  }

  @Test("an address and a registration do not go together", arguments: [[], ["a:b", "--register", "a.b"]])
  func together(arguments: [String]) {
    #expect(throws: (any Error).self) { try Grantctl.parseAsRoot(["handle-url"] + arguments) }
  }

  @Test(
    "a program that fails at once did not open anything, one that runs on did",
    arguments: [
      (["/bin/true"], true), (["/bin/false"], false), (["/nonexistent/x"], false), (["/bin/sleep", "3"], true),
    ])
  func launching(command: [String], isOpen: Bool) async {
    // A busy machine may not have run a program that fails when its first seconds are over.
    #expect(await eventually { await Terminal.ofProcess().programs.launch(command) == isOpen })
  }
}
