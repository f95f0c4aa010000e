import BrokerAPI
import Grants
import OAuth
import Testing

@testable import Broker

/// A login that brings no refresh token goes on with the account's own: a rotation of it under way must not be lost.
@Suite("A login without a refresh token", .scheduled, .timeLimit(.minutes(5))) struct KeptRotationTests {
  /// A refresh is under way, and the login's answer is here and waits for it.
  private func waiting() async throws -> (
    rig: Rig, login: LoginStart.Result, refresh: Task<TokenGet.Result?, Never>, callback: Task<CallbackOutcome, Never>
  ) {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3700))
    let rig = try await Rig(store: store)
    let login = try await rig.start()
    rig.transport.answer(.token) { request in
      TokenServer.granted(request, lifetime: 3600, rotates: request.form["code"] == nil)
    }
    rig.transport.hold(.token)
    let refresh = Task { try? await rig.token("work", timeout: 60) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let callback = Task { await rig.callBack(login, code: "again") }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token, last: true)
    #expect(await eventually { await rig.broker.runtime.waiters.count == 2 && rig.clock.sleepers == 1 })
    return (rig, login, refresh, callback)
  }

  @Test("waits for the refresh however often the account moves")
  func manyWakes() async throws {
    let (rig, _, refresh, callback) = try await waiting()
    for _ in 0..<2 * Limit.rounds {
      await rig.broker.runtime.waiters.wake(.account(account("work")))
      await settle()
    }
    #expect(rig.store.grant("work")?.generation == 1)
    rig.transport.release(.token)
    #expect(await callback.value.kind == .completed)
    _ = await refresh.value
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(try await rig.token("work").access_token == "again-a1")
  }

  @Test("is refused where the refresh does not end in time, and the rotation is kept")
  func deadline() async throws {
    let (rig, login, refresh, callback) = try await waiting()
    rig.clock.advance(Timeouts.maximum)
    #expect(await callback.value.kind == .providerFault)
    #expect(await rig.reason { try await rig.waitFor(login) } == .temporarilyUnavailable)
    #expect(rig.store.grant("work")?.generation == 1 && rig.store.logins.isEmpty)
    rig.transport.release(.token)
    _ = await refresh.value
    #expect(await rig.isQuiet())
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r2"))
    #expect(rig.store.revocations.isEmpty && rig.transport.count(.revocation) == 0)
  }
}
