import Logging
import Providers

@testable import Broker

/// Pieces of a broker without the broker: each test takes the pieces that it tests, and their dependencies.
@BrokerActor
struct Parts {
  let clock = ManualClock()
  let store = MemoryStore()
  let transport = ScriptedTransport()
  let inForce: PolicyInForce
  let authorizer: Authorizer
  let runtime: Runtime
  let journal: Journal

  init(rules: [Rule] = []) {
    inForce = PolicyInForce(Policy(instance: .system, owner: 990, rules: rules))
    authorizer = Authorizer(inForce, CallerLimits(), clock.system)
    let brokerClock = BrokerClock(clock.system)
    let measures = Metrics()
    runtime = Runtime(
      clock: brokerClock, waiters: Waiters(brokerClock), lifecycle: Lifecycle(), events: Events(authorizer, measures),
      measures: measures, summary: Summary(), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    journal = Journal(store, runtime)
  }

  func directory() -> ProviderDirectory {
    ProviderDirectory([OAuthProvider(.plain())], refreshesAtOnce: 8, transport, journal: journal, runtime)
  }

  func proofs(_ accounts: Accounts, _ providers: ProviderDirectory) -> ImportProofs {
    ImportProofs(
      runtime, accounts: accounts, providers: providers,
      checks: TokenChecks(runtime, accounts: accounts, providers: providers))
  }

  func registrations(_ accounts: Accounts, _ providers: ProviderDirectory) -> Registrations {
    Registrations(
      runtime, providers: providers, accounts: accounts, journal: journal,
      addresses: CallbackAddresses(runtime.clock, publicOrigin: nil), registrar: nil)
  }

  func cache() -> TokenCache {
    let trail = AuditTrail(
      store: nil, logger: runtime.logger, now: clock.system.now, uptime: clock.system.uptime)
    return TokenCache(inForce, trail: trail, uptime: clock.system.uptime)
  }

  func audit(_ cache: TokenCache) -> AuditLog {
    AuditLog(cache.trail, cache, clock.system, runtime.logger)
  }
}
