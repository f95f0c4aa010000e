import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// If a revocation ends all grants of a user to this client, a queued one must not end a later grant.
@Suite("A revocation from before a login", .scheduled, .timeLimit(.minutes(5))) struct ObsoleteRevocationTests {
  private func rig(age: Duration = .zero) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", age: age)
    let settings = ProviderSettings.plain {
      $0.logout.revocation = .bearer
      $0.logout.backchannel = true
    }
    return try await Rig(store: store, configuration: .plain([NamingProvider(settings)]))
  }

  private func logOut(_ rig: Rig, revoke: Bool = true) -> Task<AccountLogout.Result, any Error> {
    Task { try await rig.call(AccountLogout.self, .init(account: "work", revoke: revoke)) }
  }

  private func signIn(_ rig: Rig, _ account: String = "work", as person: String = "work") async throws {
    #expect(await rig.callBack(try await rig.start(account: account), code: person).kind == .completed)
  }

  /// Nothing of before is on disk, in memory, or sent from now on.
  private func isOver(_ rig: Rig) async -> Bool {
    let sent = rig.transport.count(.revocation)
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 200) }
    for _ in 0..<3 {
      rig.clock.advance(.seconds(600))
      _ = await rig.broker.tick()
      await settle()
    }
    let left = await rig.broker.logout.revocations.count
    return left == 0 && rig.store.revocations.isEmpty && rig.transport.count(.revocation) == sent
  }

  @Test("that the provider answers after it with a failure is not tried again")
  func answeredLate() async throws {
    let rig = try await rig()
    rig.transport.hold(.revocation)
    let logout = logOut(rig)
    #expect(await eventually { rig.transport.held(.revocation) == 1 })
    try await signIn(rig)
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    rig.transport.release(.revocation)
    let steps = try await logout.value.steps
    #expect(steps.map(\.result) == ["skipped", "skipped", "done"])
    // Nor is the logout's other one sent.
    #expect(rig.transport.count(.revocation) == 1)
    #expect(await isOver(rig))
  }

  @Test("whose failure is being saved does not return to the disk")
  func beingWritten() async throws {
    let rig = try await rig()
    rig.transport.hold(.revocation)
    let logout = logOut(rig)
    #expect(await eventually { rig.transport.held(.revocation) == 1 })
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    rig.store.set(.hangs) { $0.contains { if case .putRevocation = $0 { true } else { false } } }
    rig.transport.release(.revocation)
    #expect(await eventually { rig.store.hanging == 1 })
    try await signIn(rig)
    rig.store.set(.works)
    _ = try await logout.value
    #expect(await isOver(rig))
  }

  @Test("waits on where the login could not be saved")
  func unsavedLogin() async throws {
    let rig = try await rig()
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    _ = try await logOut(rig).value
    let login = try await rig.start()
    rig.store.set(.fails, concerning: isRenewal)
    let callback = Task { await rig.callBack(login) }
    #expect(await rig.clock.passes { await callback.value }.kind == .actionRequired)
    #expect(
      await rig.clock.reaches(by: .seconds(5)) { await rig.reason { try await rig.waitFor(login) } == .storeFailure })
    let waiting = await rig.broker.logout.revocations.count
    #expect(waiting >= 2 && rig.store.revocations.count == waiting)
  }

  @Test("that was getting an access token to revoke by is not sent")
  func gettingAToken() async throws {
    let rig = try await rig(age: .seconds(3700))
    rig.transport.hold(.token)
    let logout = logOut(rig)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let login = try await rig.start()
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token, last: true)
    #expect(await callback.value.kind == .completed)
    rig.transport.release(.token)
    #expect(try await logout.value.steps.first?.result == "skipped")
    #expect(rig.transport.count(.revocation) == 0)
    #expect(await isOver(rig))
  }

  @Test("of a refresh that was answered after a logout is found under the account's new name")
  func lateRefresh() async throws {
    for name in ["work", "other"] {
      let rig = try await rig(age: .seconds(3700))
      rig.transport.hold(.token)
      let caller = Task { await rig.reason { try await rig.token("work", timeout: 60) } }
      #expect(await eventually { rig.transport.held(.token) == 1 })
      _ = try await logOut(rig, revoke: false).value
      rig.transport.release(.token)
      #expect(await caller.value == .unknownAccount)
      #expect(await eventually { rig.store.revocations.map(\.token) == [Secret("work-r2")] })
      try await signIn(rig, name)
      #expect(await isOver(rig))
    }
  }

  @Test("that came of a sign-out at the provider is found")
  func signedOut() async throws {
    let rig = try await rig()
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    #expect(await rig.signOutAtProvider() == .taken)
    #expect(rig.store.revocations.map(\.token) == [Secret("work-r1")])
    try await signIn(rig, "other")
    #expect(await isOver(rig))
  }

  @Test("of a login that was not for its account is found")
  func refusedLogin() async throws {
    let rig = try await rig()
    #expect(await rig.callBack(try await rig.start(), code: "home").kind == .denied)
    #expect(rig.store.revocations.count == 2)
    try await signIn(rig, "home", as: "home")
    #expect(await isOver(rig))
  }
}
