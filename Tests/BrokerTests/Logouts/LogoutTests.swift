import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct LogoutTests {
  private func logout(_ rig: Rig, revoke: Bool? = nil) async throws -> [String] {
    try await rig.call(AccountLogout.self, .init(account: "work", revoke: revoke)).steps.map {
      "\($0.step) \($0.result)"
    }
  }

  private func signedIn(_ settings: ProviderSettings = .plain(), age: Duration = .zero) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", age: age)
    return try await Rig(store: store, configuration: .plain([OAuthProvider(settings)]))
  }

  static let answers: [(String, ScriptedTransport.Answer)] = [
    ("done", { _ in HTTPResponse(status: 200) }), ("unsupported", { _ in HTTPResponse(status: 404) }),
    ("queued", { _ in HTTPResponse(status: 503) }), ("queued", TokenServer.failing(.timedOut)),
    ("refused", TokenServer.refused("invalid_client", status: 401)),
  ]

  @Test(arguments: answers.indices) func theAccountIsForgottenWhateverTheProviderAnswers(_ index: Int) async throws {
    let (result, answer) = Self.answers[index]
    let rig = try await signedIn()
    rig.transport.answer(.revocation, answer)
    let steps = try await logout(rig)
    #expect(steps == ["revoke_refresh_token \(result)", "revoke_access_token \(result)", "forget done"])
    #expect(rig.store.grant("work") == nil && rig.store.token("work") == nil && rig.cached("work") == nil)
    #expect(rig.store.revocations.count == (result == "queued" ? 2 : 0))
    #expect(await rig.reason { try await rig.token("work") } == .unknownAccount)
    #expect(await rig.reason { try await logout(rig) } == .unknownAccount)
  }

  @Test func whatIsToBeRevokedIsOnDiskWithTheForgetting() async throws {
    let rig = try await signedIn()
    rig.transport.hold(.revocation)
    let logout = Task { try await self.logout(rig) }
    #expect(await eventually { rig.transport.held(.revocation) == 1 })
    #expect(rig.store.grant("work") == nil)
    #expect(Set(rig.store.revocations.map(\.token)) == [Secret("work-r1"), Secret("work-a1")])
    #expect(rig.transport.requests(.revocation).first?.form["token"] == "work-r1")
    rig.transport.release(.revocation)
    #expect(try await logout.value.count == 3)
    #expect(rig.store.revocations.isEmpty)
  }

  @Test func aStoreThatFailsForgetsNothing() async throws {
    let rig = try await signedIn()
    rig.store.set(.fails)
    #expect(await rig.reason { try await logout(rig) } == .storeFailure)
    #expect(try await rig.token("work").access_token == "work-a1")
    #expect(rig.transport.count(.revocation) == 0)
  }

  @Test func withoutRevokingNothingIsSent() async throws {
    let rig = try await signedIn()
    #expect(try await logout(rig, revoke: false) == ["forget done"])
    #expect(rig.transport.count(.revocation) == 0 && rig.store.revocations.isEmpty)
  }

  @Test func aProviderWithoutTheEndpointIsUnsupported() async throws {
    let rig = try await signedIn(.plain { $0.server.endpoints[.revocation] = nil })
    #expect(try await logout(rig).first == "revoke_refresh_token unsupported")
    #expect(rig.store.revocations.isEmpty)
  }

  @Test func aQueuedRevocationIsTriedAgainAlsoAfterARestart() async throws {
    let before = try await signedIn()
    before.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    _ = try await logout(before)
    let rig = try await Rig(clock: before.clock, store: before.store)
    _ = await rig.broker.tick()
    await settle()
    #expect(rig.transport.count(.revocation) == 0)
    rig.clock.advance(.seconds(180))
    _ = await rig.broker.tick()
    _ = await rig.broker.tick()
    #expect(await eventually { rig.store.revocations.isEmpty })
    #expect(rig.transport.count(.revocation) == 2)
  }

  @Test func aRevocationIsGivenUpAfterAWeek() async throws {
    let rig = try await signedIn()
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    _ = try await logout(rig)
    // An hour apart at most, so that much is left over.
    for _ in 0..<24 * 7 * 2 where !rig.store.revocations.isEmpty {
      rig.clock.advance(.seconds(3600))
      _ = await rig.broker.tick()
      await settle()
    }
    #expect(rig.store.revocations.isEmpty)
    #expect(rig.transport.count(.revocation) > 24 * 7 - 6)
  }

  // MARK: Where access tokens alone are taken, and end the whole grant

  private static let bearer = ProviderSettings.plain { $0.logout.revocation = .bearer }

  private func bearers(_ rig: Rig) -> [String?] {
    rig.transport.requests(.revocation).map { request in
      request.headers.first { $0.name == "Authorization" }?.value
    }
  }

  @Test func aGoodAccessTokenEndsTheGrantAsAWhole() async throws {
    let rig = try await signedIn(Self.bearer)
    #expect(try await logout(rig) == ["revoke_access_token done", "revoke_refresh_token done", "forget done"])
    #expect(bearers(rig) == ["Bearer work-a1"])
    #expect(rig.transport.count(.token) == 0 && rig.store.revocations.isEmpty)
  }

  @Test func forAnAccessTokenThatHasEndedAnotherIsHad() async throws {
    let rig = try await signedIn(Self.bearer, age: .seconds(3700))
    #expect(try await logout(rig) == ["revoke_refresh_token done", "forget done"])
    #expect(rig.transport.requests(.token).map { $0.form["refresh_token"] } == ["work-r1"])
    #expect(bearers(rig) == ["Bearer work-a2"])
    #expect(rig.store.revocations.isEmpty)
  }

  static let withoutToken: [(String, ScriptedTransport.Answer)] = [
    ("queued", { _ in HTTPResponse(status: 503) }), ("queued", TokenServer.failing(.lost)),
    ("refused", TokenServer.refused("invalid_client", status: 401)), ("done", TokenServer.refused("invalid_grant")),
  ]

  @Test(arguments: withoutToken.indices) func whereNoneCanBeHadTheStepSaysSo(_ index: Int) async throws {
    let (result, answer) = Self.withoutToken[index]
    let rig = try await signedIn(Self.bearer, age: .seconds(3700))
    rig.transport.answer(.token, answer)
    let steps = try await rig.call(AccountLogout.self, .init(account: "work")).steps
    #expect(steps.map { "\($0.step) \($0.result)" } == ["revoke_refresh_token \(result)", "forget done"])
    #expect(result == "done" || steps.first?.message?.isEmpty == false)
    #expect(rig.transport.count(.revocation) == 0 && rig.store.grant("work") == nil)
    #expect(rig.store.revocations.count == (result == "queued" ? 1 : 0))
  }

  @Test func aQueuedOneEndsTheGrantLaterByTheRefreshTokenThatRotatedMeanwhile() async throws {
    let before = try await signedIn(Self.bearer)
    before.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    #expect(
      try await logout(before) == ["revoke_access_token queued", "revoke_refresh_token queued", "forget done"])
    #expect(Set(before.store.revocations.map(\.token)) == [Secret("work-a1"), Secret("work-r2")])
    let rig = try await Rig(
      clock: before.clock, store: before.store, configuration: .plain([OAuthProvider(Self.bearer)]))
    rig.transport.answer(.revocation) { request in
      // The access token of before has ended.
      HTTPResponse(status: request.headers.contains { $0.value == "Bearer work-a1" } ? 401 : 200)
    }
    rig.clock.advance(.seconds(7200))
    _ = await rig.broker.tick()
    #expect(await eventually { rig.store.revocations.isEmpty })
    #expect(rig.transport.requests(.token).map { $0.form["refresh_token"] } == ["work-r2"])
    #expect(bearers(rig).contains("Bearer work-a3"))
  }

  @Test func whoSignsInAgainMeanwhileIsNotEndedByWhatWasQueued() async throws {
    let rig = try await signedIn(Self.bearer)
    rig.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    _ = try await logout(rig)
    #expect(rig.store.revocations.count == 2)
    // A sign-in of another user changes nothing.
    #expect(await rig.callBack(try await rig.start(account: "home"), code: "home").kind == .completed)
    #expect(rig.store.revocations.count == 2)
    #expect(await rig.callBack(try await rig.start(), code: "work").kind == .completed)
    #expect(rig.store.revocations.isEmpty)
    let sent = rig.transport.count(.revocation)
    rig.clock.advance(.seconds(7200))
    _ = await rig.broker.tick()
    await settle()
    #expect(rig.transport.count(.revocation) == sent && rig.store.grant("work") != nil)
  }

  @Test func aLogoutWaitsForAProviderThatHangsNoLongerThanItsTime() async throws {
    let rig = try await signedIn()
    rig.transport.hold(.revocation)
    let logout = Task { try await self.logout(rig) }
    #expect(await eventually { rig.transport.held(.revocation) == 1 && rig.clock.sleepers == 1 })
    rig.clock.advance(Limit.logoutWait)
    #expect(try await logout.value == ["revoke_refresh_token queued", "revoke_access_token queued", "forget done"])
    #expect(rig.store.revocations.count == 2)
    rig.transport.release(.revocation)
    #expect(await eventually { rig.store.revocations.isEmpty })
    #expect(rig.transport.count(.revocation) == 2)
  }

  @Test func aLateAnswerOfAForgottenAccountIsRevoked() async throws {
    let rig = try await signedIn(age: .seconds(3700))
    rig.transport.hold(.token)
    let caller = Task { await rig.reason { try await rig.token("work", timeout: 60) } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    _ = try await logout(rig)
    #expect(await caller.value == .unknownAccount)
    rig.transport.release(.token)
    #expect(await eventually { rig.store.revocations.map(\.token) == [Secret("work-r2")] })
    _ = await rig.broker.tick()
    #expect(await eventually { rig.store.revocations.isEmpty })
    #expect(rig.store.grant("work") == nil)
  }

  /// The answer to a refresh comes while the removal is on its way to the disk.
  private func logoutMeetsAnswer(_ rig: Rig) async throws {
    rig.store.set(.hangs)
    let logout = Task { try await self.logout(rig) }
    #expect(await eventually { rig.store.hanging == 1 })
    rig.transport.release(.token)
    await settle()
    rig.store.set(.works)
    _ = try await logout.value
  }

  /// The removal and the renewal are both on their way to the disk when the account is forgotten.
  @Test func aRenewalThatMeetsALogoutIsForgottenAndRevoked() async throws {
    let rig = try await signedIn(age: .seconds(3700))
    rig.transport.hold(.token)
    let caller = Task { await rig.reason { try await rig.token("work", timeout: 60) } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await logoutMeetsAnswer(rig)
    #expect(await caller.value == .unknownAccount)
    #expect(await rig.isQuiet())
    #expect(rig.store.grant("work") == nil && rig.store.token("work") == nil)
    _ = await rig.broker.tick()
    #expect(await eventually { rig.transport.requests(.revocation).contains { $0.form["token"] == "work-r2" } })
  }

  /// The refresh fails while the removal is on its way to the disk: its record must not bring the account back.
  @Test func aFailureThatMeetsALogoutDoesNotBringTheAccountBack() async throws {
    let rig = try await signedIn(age: .seconds(3700))
    rig.transport.hold(.token)
    rig.transport.answer(.token, TokenServer.failing(.lost))
    let caller = Task { await rig.reason { try await rig.token("work", timeout: 60) } }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await logoutMeetsAnswer(rig)
    _ = await caller.value
    #expect(await rig.isQuiet())
    #expect(rig.store.grant("work") == nil)
  }

  /// An intent needs its grant on disk: a refresh of a forgotten account must not be taken for a disk that fails.
  @Test func aLogoutWhileMetadataAreFetchedIsNoFailureOfTheStore() async throws {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3700))
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(.discovered())]))
    rig.transport.hold(.discovery)
    let caller = Task { await rig.reason { try await rig.token("work", timeout: 60) } }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    _ = try await logout(rig, revoke: false)
    rig.transport.release(.discovery)
    #expect(await caller.value == .unknownAccount)
    #expect(await rig.isQuiet())
    #expect(try await rig.call(BrokerStatus.self, NoParams()).store.state == "ok")
    #expect(rig.transport.count(.token) == 0)
  }
}
