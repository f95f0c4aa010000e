import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// A login replaces the account's refresh token, which stays good at the provider until it is revoked.
@Suite("The refresh token that a login replaces", .scheduled, .timeLimit(.minutes(5))) struct ReplacedTokenTests {
  private func signedIn(_ style: ProviderSettings.RevocationStyle = .rfc7009, revokes: Bool = true) async throws -> Rig
  {
    let store = MemoryStore()
    try await store.signIn("work")
    let settings = ProviderSettings.plain {
      $0.logout.revocation = style
      $0.logout.revokesReplaced = revokes
    }
    return try await Rig(store: store, configuration: .plain([OAuthProvider(settings)]))
  }

  private func revocations(_ rig: Rig) async -> [String?] {
    _ = await rig.broker.tick()
    #expect(await eventually { rig.store.revocations.isEmpty })
    await settle()
    return rig.transport.requests(.revocation).map { $0.form["token"] }
  }

  @Test("is revoked, and the pending revocation is on disk with the new token")
  func revoked() async throws {
    let rig = try await signedIn()
    #expect(await rig.callBack(try await rig.start(), code: "again").kind == .completed)
    let adoption = try #require(rig.store.log.last(where: isRenewal))
    let queued = adoption.compactMap { if case .putRevocation(let one) = $0 { one.token } else { nil } }
    #expect(queued == [Secret("work-r1")])
    #expect(await revocations(rig) == ["work-r1"])
    #expect(rig.store.revocations.isEmpty)
    #expect(rig.store.grant("work")?.refreshToken == Secret("again-r1"))
  }

  @Test("is not revoked unless a revocation is known to end only that grant")
  func unknownReach() async throws { try await isKept(try await signedIn(revokes: false)) }

  @Test("is not revoked if only access tokens can be, and that ends the whole grant")
  func bearer() async throws { try await isKept(try await signedIn(.bearer)) }

  private func isKept(_ rig: Rig) async throws {
    #expect(await rig.callBack(try await rig.start(), code: "again").kind == .completed)
    #expect(rig.store.grant("work")?.refreshToken == Secret("again-r1"))
    let sent = await revocations(rig)
    #expect(sent.isEmpty && rig.store.revocations.isEmpty)
  }

  @Test("is not revoked if it equals the new one, or if the login returned none", arguments: [true, false])
  func same(_ rotates: Bool) async throws {
    let rig = try await signedIn()
    rig.transport.answer(.token) { TokenServer.granted($0, lifetime: 3600, rotates: rotates) }
    #expect(await rig.callBack(try await rig.start(), code: "work").kind == .completed)
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
    #expect(await revocations(rig).isEmpty && rig.store.revocations.isEmpty)
  }

  @Test("is revoked even if its renewal is not on disk yet")
  func renewal() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3700))
    let settings = ProviderSettings.plain { $0.logout.revokesReplaced = true }
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(settings)]))
    let login = try await rig.start()
    rig.store.set(.fails, concerning: isRenewal)
    let caller = Task { try? await rig.token("work", timeout: 60) }
    #expect(
      await eventually {
        if case .committing = await rig.broker.accounts[account("work")]?.phase { true } else { false }
      })
    let callback = Task { await rig.callBack(login, code: "again") }
    #expect(await eventually { rig.store.logins.isEmpty })
    await settle()
    rig.store.set(.works)
    #expect(await rig.clock.passes { await callback.value }.kind == .completed)
    _ = await rig.clock.passes { await caller.value }
    #expect(rig.store.grant("work")?.refreshToken == Secret("again-r1"))
    _ = await rig.broker.tick()
    await settle()
    // The one before too, unless the renewal was saved before the login.
    #expect(rig.transport.requests(.revocation).contains { $0.form["token"] == "work-r2" })
  }

  @Test("is revoked with the one of a renewal that is not on disk, in the commit of the login")
  func both() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3700))
    let settings = ProviderSettings.plain { $0.logout.revokesReplaced = true }
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(settings)]))
    let login = try await rig.start()
    rig.store.set(.fails) { changes in
      changes.contains { if case .putToken(let token) = $0 { token.accessToken == Secret("work-a2") } else { false } }
    }
    let caller = Task { try? await rig.token("work", timeout: 60) }
    #expect(
      await eventually {
        if case .committing = await rig.broker.accounts[account("work")]?.phase { true } else { false }
      })
    let callback = Task { await rig.callBack(login, code: "again") }
    #expect(await rig.clock.passes { await callback.value }.kind == .completed)
    let adoption = try #require(rig.store.log.last(where: isRenewal))
    let queued = adoption.compactMap { if case .putRevocation(let one) = $0 { one.token.exposed } else { nil } }
    #expect(queued.sorted() == ["work-r1", "work-r2"])
    rig.store.set(.works)
    _ = await rig.clock.passes { await caller.value }
  }

  @Test("is kept, without a revocation, if the adoption cannot be saved")
  func unsaved() async throws {
    let rig = try await signedIn()
    let login = try await rig.start()
    rig.store.set(.fails, concerning: isRenewal)
    let callback = Task { await rig.callBack(login, code: "again") }
    #expect(await rig.clock.passes { await callback.value }.kind == .actionRequired)
    #expect(await revocations(rig).contains("work-r1") == false)
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
  }
}
