import BrokerAPI
import TestSupport
import Testing

@testable import grantctl

/// The notice for a user whose program waits for approval.
@Suite struct ConfirmationNoticeTests {
  private static let explained: JSON = [
    "allowed": true, "why": "rule ask-me requires approval of each release",
    "confirm": ["rule": "ask-me", "timeout": 60],
  ]

  private func slow(_ gate: Gate, _ explained: JSON) -> [String: ScriptedBroker.Reply] {
    [
      "token.get": { _, _ in
        await gate.wait()
        return .success(CommandTests.token)
      },
      "policy.explain": answer(explained),
    ]
  }

  @Test("at a terminal the wait is explained, and the output stays only the token")
  func told() async throws {
    let gate = Gate()
    try await ScriptedBroker.with(slow(gate, Self.explained)) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["token", "work"], recorder) {
        ($0.isErrTTY, $0.quietTime) = (true, .zero)
      }
      #expect(
        await eventually {
          recorder.err == "Waiting for approval: grantctl approve (Ctrl-C gives up).\n"
        })
      #expect(broker.params(of: "policy.explain") == ["account": "work", "method": "token.get"])
      gate.open()
      #expect(try await status == .success)
      #expect(recorder.out == "ya29.abc-_~\n")
    }
  }

  @Test("without a required approval nothing is printed")
  func nobody() async throws {
    let gate = Gate()
    try await ScriptedBroker.with(slow(gate, ["allowed": true, "why": "rule dev allows it"])) {
      broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["token", "work"], recorder) {
        ($0.isErrTTY, $0.quietTime) = (true, .zero)
      }
      #expect(await eventually { broker.methods.contains("policy.explain") })
      gate.open()
      #expect(try await status == .success)
      #expect(recorder.err.isEmpty)
    }
  }

  @Test("programs, and commands that release nothing, look for no such reason")
  func silent() {
    var terminal = Recorder().terminal()
    let params = TokenGet.Params(account: "work")
    func notice(_ shell: Shell, _ params: any Sendable) -> Bool {
      let task = shell.noticeOfConfirmation(TokenGet.name, of: params)
      task?.cancel()
      return task != nil
    }
    #expect(!notice(Shell(terminal: terminal, settings: .init()), params))
    terminal.isErrTTY = true
    #expect(notice(Shell(terminal: terminal, settings: .init()), params))
    #expect(!notice(Shell(terminal: terminal, settings: .init(isJSON: true)), params))
    #expect(!notice(Shell(terminal: terminal, settings: .init()), AccountGet.Params(account: "work")))
  }
}
