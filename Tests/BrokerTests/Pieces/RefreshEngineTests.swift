import Grants
import OAuth
import Testing

@testable import Broker

/// The engine with its dependencies, without a broker, socket, policy or login.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct RefreshEngineTests {
  @Test("An account that is due is refreshed once, and its new refresh token is on disk before its token is served")
  @BrokerActor func refreshes() async throws {
    let parts = Parts()
    try await parts.store.signIn("a", age: .seconds(3500), at: parts.clock.now)
    let (providers, cache) = (parts.directory(), parts.cache())
    let accounts = Accounts(
      parts.runtime, providers: providers, journal: parts.journal, cache: cache, audit: parts.audit(cache),
      refreshPolicy: RefreshPolicy(), wholeAccounts: 8)
    let revocations = Revocations(parts.runtime, providers: providers, journal: parts.journal)
    let engine = RefreshEngine(
      parts.runtime, accounts: accounts, providers: providers, journal: parts.journal, revocations: revocations,
      proofs: parts.proofs(accounts, providers), registrations: parts.registrations(accounts, providers))
    for packed in try await parts.store.accounts(after: nil, most: 10) {
      let loaded = AccountLoading.Loaded(packed: packed, grant: Grant(try packed.read(.moments), jitter: 0))
      accounts.takeOver(loaded) { engine.reschedule(packed.account, $0) }
    }
    parts.transport.answer(.token, TokenServer.rotating)
    parts.store.set(.hangs, concerning: isRenewal)
    _ = engine.tick()
    #expect(await eventually { parts.store.hanging == 1 })
    _ = engine.tick()
    #expect(accounts[account("a")]?.saved.refreshToken == Secret("a-r1"))
    parts.store.set(.works)
    #expect(await eventually { accounts[account("a")]?.saved.refreshToken == Secret("a-r2") })
    #expect(parts.store.grant("a")?.refreshToken == Secret("a-r2"))
    #expect(parts.transport.count(.token) == 1 && accounts[account("a")]?.phase == .idle)
  }
}
