import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// The tokens of a login become the account's, regardless of other events of the account and the disk.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct AdoptionTests {
  private func signedIn() async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3700))
    return try await Rig(store: store)
  }

  @Test func nobodyIsToldOfALoginBeforeItsTokensAreOnDisk() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.store.set(.hangs, concerning: isRenewal)
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.store.hanging == 1 })
    #expect(try await rig.waitFor(login).state == .pending)
    #expect(await rig.reason { try await rig.token("work") } == .unknownAccount && rig.cached("work") == nil)
    rig.store.set(.works)
    #expect(await callback.value.kind == .completed)
    #expect(try await rig.token("work").access_token == "work-a1" && rig.cached("work") != nil)
  }

  @Test func aStoreThatFailsForAMomentLosesNoLogin() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.store.set(.fails, concerning: isRenewal)
    let callback = Task { await rig.callBack(login) }
    // The login tries again, and so does the repair of the store.
    #expect(await eventually { rig.clock.sleepers == 2 })
    rig.store.set(.works)
    rig.clock.advance(.seconds(1))
    #expect(await callback.value.kind == .completed)
    #expect(rig.store.token("work")?.accessToken == Secret("work-a1"))
  }

  @Test("Tokens that the disk does not take stay in memory, and the login is completed once it does")
  func savedLate() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.store.set(.fails, concerning: isRenewal)
    let callback = Task { await rig.callBack(login) }
    #expect(await rig.clock.passes { await callback.value }.kind == .actionRequired)
    #expect(try await rig.waitFor(login).waiting_for?.hasPrefix("the disk") == true)
    #expect(
      await rig.reason { try await rig.token("work") } == .unknownAccount && rig.transport.count(.revocation) == 0)
    rig.store.set(.works)
    #expect(await rig.clock.reaches(by: .seconds(1)) { (try? await rig.waitFor(login).state) == .completed })
    #expect(rig.store.token("work")?.accessToken == Secret("work-a1"))
  }

  @Test("Tokens that the disk does not take until the stop are among what is unsaved")
  func unsavedAtStop() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.store.set(.fails, concerning: isRenewal)
    let callback = Task { await rig.callBack(login) }
    #expect(await rig.clock.passes { await callback.value }.kind == .actionRequired)
    await rig.clock.passes(by: .milliseconds(20)) {
      await rig.broker.drain(until: rig.clock.elapsed + .seconds(40))
    }
    let unsaved = try #require(await rig.broker.unsaved().first).read(.whole)
    #expect(unsaved.grant.refreshToken == Secret("work-r1") && rig.transport.count(.revocation) == 0)
  }

  @Test func tokensThatCannotBeSavedAreRevoked() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.store.set(.fails, concerning: isRenewal)
    let callback = Task { await rig.callBack(login) }
    #expect(await rig.clock.passes { await callback.value }.kind == .actionRequired)
    #expect(
      await rig.clock.reaches(by: .seconds(5)) { await rig.reason { try await rig.waitFor(login) } == .storeFailure })
    _ = await rig.broker.tick()
    #expect(await eventually { rig.transport.count(.revocation) == 2 })
    #expect(rig.transport.requests(.revocation).contains { $0.form["token"] == "work-r1" })
  }

  /// A refresh of the account and a login of it, whose requests have no answer yet.
  private func refreshAndLogin(
    _ rig: Rig
  ) async throws -> (caller: Task<TokenGet.Result, any Error>, callback: Task<CallbackOutcome, Never>) {
    let login = try await rig.start()
    rig.transport.hold(.token)
    let caller = Task { try await rig.token("work", timeout: 60) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let callback = Task { await rig.callBack(login, code: "again") }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    return (caller, callback)
  }

  /// The refresh's answer comes while the login is on its way to the disk: the login wins in memory and on disk.
  @Test func aRenewalThatMeetsANewLoginDoesNotOverwriteIt() async throws {
    let rig = try await signedIn()
    let (caller, callback) = try await refreshAndLogin(rig)
    rig.store.set(.hangs, concerning: isRenewal)
    rig.transport.release(.token)
    await settle()
    rig.store.set(.works)
    #expect(await callback.value.kind == .completed)
    _ = try await caller.value
    #expect(await rig.isQuiet())
    let shown = try await rig.token("work")
    #expect(shown.access_token == "again-a1")
    #expect(rig.store.token("work")?.accessToken == Secret("again-a1"))
    #expect(rig.store.grant("work")?.refreshToken == Secret("again-r1"))
    #expect(rig.store.grant("work")?.generation == shown.generation)
  }

  @Test func aLateAnswerOfTheOldGrantDoesNotReplaceTheNewLogin() async throws {
    let rig = try await signedIn()
    let (caller, callback) = try await refreshAndLogin(rig)
    let (first, second) = (rig.transport.requests(.token)[0], rig.transport.requests(.token)[1])
    #expect(first.form["refresh_token"] == "work-r1" && second.form["code"] == "again")
    rig.transport.releaseOne(.token, last: true)
    #expect(await callback.value.kind == .completed)
    #expect(try await caller.value.access_token == "again-a1")
    rig.transport.release(.token)
    #expect(await rig.isQuiet())
    #expect(try await rig.token("work").access_token == "again-a1")
    #expect(rig.store.grant("work")?.refreshToken == Secret("again-r1"))
  }

  @Test func aNewLoginRevivesADeadGrantAndCountsOn() async throws {
    let store = MemoryStore()
    let dead = Standing.loginRequired(.refused, FailureRecord(message: "over", at: ManualClock.start))
    try await store.signIn("work", age: .seconds(3700), standing: dead)
    let rig = try await Rig(store: store)
    #expect(await rig.reason { try await rig.token("work") } == .loginRequired)
    #expect(rig.transport.count(.token) == 0)
    _ = await rig.callBack(try await rig.start())
    let token = try await rig.token("work")
    #expect(token.access_token == "work-a1" && token.generation == 2)
    #expect(try await rig.view("work").state == .ok)
  }

  @Test func anExchangeUnderWayIsAwaitedAtTheEnd() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    let late = try await rig.start(account: "late")
    rig.transport.hold(.token)
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    let end = Task { await rig.broker.drain(until: rig.clock.elapsed + .seconds(30)) }
    #expect(await eventually { rig.clock.sleepers == 1 })
    #expect(await rig.callBack(late, code: "late").kind == .refused)
    #expect(await rig.reason { try await rig.start(account: "new") } == .shuttingDown)
    rig.transport.release(.token)
    #expect(await callback.value.kind == .completed)
    rig.clock.advance(.milliseconds(20))
    await end.value
    #expect(rig.store.grant("work") != nil && rig.store.logins.map(\.account) == [account("late")])
  }

  @Test("A login does not replace an account that was declared in the interim", arguments: [true, false])
  func declaredMeanwhile(_ isPassword: Bool) async throws {
    var configuration = BrokerConfiguration.plain([OAuthProvider(.plain { $0.token.allowsPassword = true })])
    let rig = try await Rig(configuration: configuration)
    let login = isPassword ? nil : try await rig.start(account: "ci")
    rig.transport.hold(.token)
    let signedIn = Task {
      if let login { return await rig.callBack(login).kind == .completed }
      let params = LoginPassword.Params(
        provider: "example", account: "ci", username: "work", password: SecretText("open-sesame"))
      return await rig.reason { try await rig.call(LoginPassword.self, params) } == nil
    }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    configuration.accounts = [
      DeclaredAccount(name: account("ci"), provider: provider("example"), source: .clientCredentials)
    ]
    rig.reading.value = .success(configuration)
    _ = try await rig.call(BrokerReload.self, NoParams())
    rig.transport.release(.token)
    #expect(await signedIn.value == false)
    #expect(rig.store.grant("ci")?.kind == .clientCredentials && rig.store.grant("ci")?.refreshToken == nil)
    #expect(await rig.broker.accounts[account("ci")]?.saved.kind == .clientCredentials)
    // The user's grant belongs to no account.
    #expect(rig.store.revocations.map(\.hint).sorted() == ["access_token", "refresh_token"])
  }
}
