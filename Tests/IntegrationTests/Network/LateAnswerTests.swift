import AsyncClient
import BlockingClient
import BrokerAPI
import Foundation
import Glibc
import TestSupport
import Testing

/// Answers that come after a refresh's time, from a provider whose refresh tokens are good once. Each takes half a minute
/// and more, since a request has that much time.
@Suite("An answer that is late", .atMost)
struct LateAnswerTests {
  /// As many as are refreshed at once.
  private static let names = (1...8).map { "account-\($0)" }

  /// A daemon with accounts of the strict provider. The provider has acted on a refresh of each, and its answers are on the
  /// way.
  private func with(
    answeredIn seconds: Double, _ body: (Rig, StrictProvider, [Task<Void, any Error>]) async throws -> Void
  ) async throws {
    let provider = try await StrictProvider.start()
    defer { provider.stop() }
    try await Rig.with(Wish { $0.configuration = provider.section() }) { rig in
      for name in Self.names {
        let params: JSON = [
          "account": .string(name), "provider": "strict", "refresh_token": .string("\(name)-r1"),
        ]
        try await rig.call("account.import", params)
      }
      try await provider.delay(seconds: seconds)
      var callers: [Task<Void, any Error>] = []
      for name in Self.names {
        let generation = try await rig.token(name).generation
        let params = TokenReportRejected.Params(account: name, generation: generation, timeout: 50)
        callers.append(
          Task { _ = try await rig.client.call(TokenReportRejected.self, params, timeout: .seconds(60)) })
      }
      try await eventually("the provider is asked") {
        try await provider.ledger.refreshes == 2 * Self.names.count
      }
      try await body(rig, provider, callers)
    }
  }

  /// Every account has the token of the late answer, and goes on with its refresh token.
  private func expectAlive(_ rig: Rig, _ provider: StrictProvider) async throws {
    try await provider.delay(seconds: 0)
    for name in Self.names {
      try await rig.wait(for: name, toBe: .ok)
      let token = try await rig.token(name)
      #expect(token.access_token == "\(name)-a3")
      #expect(try await rig.reject(token.generation, of: name).refreshed)
    }
    let ledger = try await provider.ledger
    #expect(ledger.revoked.isEmpty && ledger.refreshes == 3 * Self.names.count)
    #expect(ledger.current.values.allSatisfy { $0 == 4 })
  }

  @Test("and waits in the socket while the process is stopped for longer than a request's time is taken")
  func frozen() async throws {
    try await with(answeredIn: 2) { rig, provider, callers in
      try rig.daemon.signal(SIGSTOP)
      try await Task.sleep(for: .seconds(40))
      try rig.daemon.signal(SIGCONT)
      // Their own time may be over.
      for caller in callers { _ = await caller.result }
      try await expectAlive(rig, provider)
    }
  }

  @Test("by a few seconds is taken, and the refresh token is sent once")
  func late() async throws {
    try await with(answeredIn: 42) { rig, provider, callers in
      for caller in callers {
        let error = await #expect(throws: SocketClientError.self) { try await caller.value }
        if case .rpc(let error)? = error { #expect(error.reason == .temporarilyUnavailable, "\(error)") }
      }
      #expect(try await rig.account(Self.names[0]).state == .degraded)
      try await expectAlive(rig, provider)
    }
  }
}
