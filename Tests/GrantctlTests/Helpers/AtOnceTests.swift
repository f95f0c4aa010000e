import BrokerAPI
import TestSupport
import Testing

@testable import grantctl

@Suite struct AtOnceTests {
  @Test("A helper that waits for approval asks once, and names the wait") func confirmed() async throws {
    let gate = Gate()
    let explained: JSON = [
      "allowed": true, "why": "rule ask-me requires approval of each release",
      "confirm": ["rule": "ask-me", "timeout": 60],
    ]
    try await ScriptedBroker.with([
      "token.get": { _, _ in
        await gate.wait()
        return .success(HelperTests.token)
      },
      "policy.explain": answer(explained),
    ]) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["helper", "git", "--account", "work", "get"], recorder) { terminal in
        terminal.inputUntil = { _, _, _ in .bytes(Array(HelperTests.input.utf8)) }
        terminal.isErrTTY = true
        terminal.quietTime = .milliseconds(10)
      }
      #expect(await eventually { recorder.err.contains("Waiting for approval") })
      gate.open()
      #expect(try await status == .success)
      #expect(broker.methods.filter { $0 == "token.get" }.count == 1)
      #expect(String(decoding: recorder.bytes, as: UTF8.self).contains("password=T\n"))
    }
  }
}
