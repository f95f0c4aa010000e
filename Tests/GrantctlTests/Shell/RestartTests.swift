import BrokerAPI
import Synchronization
import Testing

@testable import grantctl

@Suite struct RestartTests {
  private static let ending = RPCError(.shuttingDown, "the broker is stopping")

  /// Answers `shutting_down` so many times, and then the result.
  private func afterEnds(_ count: Int, _ result: JSON) -> ScriptedBroker.Reply {
    let left = Mutex(count)
    return { _, _ in
      left.withLock { left in
        defer { left -= 1 }
        return left > 0 ? .failure(Self.ending) : .success(result)
      }
    }
  }

  @Test("A repeatable request is sent once more if the broker was stopping")
  func again() async throws {
    let token: JSON = [
      "access_token": "t0k", "token_type": "Bearer", "account": "work", "provider": "x", "generation": 1,
      "scope": ["openid"],
    ]
    try await ScriptedBroker.with(["token.get": afterEnds(1, token)]) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(["token", "work"], recorder)
      #expect(status == .success && recorder.out == "t0k\n")
      #expect(broker.methods == ["token.get", "token.get"])
    }
    try await ScriptedBroker.with(["token.get": afterEnds(2, token)]) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(["token", "work"], recorder)
      #expect(status == .temporarilyUnavailable && recorder.out.isEmpty)
      #expect(broker.methods.count == 2)
    }
  }

  @Test("What changes something is asked once")
  func once() async throws {
    try await ScriptedBroker.with(["account.logout": afterEnds(1, [:])]) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(["logout", "work"], recorder)
      #expect(status == .temporarilyUnavailable)
      #expect(broker.methods == ["account.logout"])
    }
  }
}
