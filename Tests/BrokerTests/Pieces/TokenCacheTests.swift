import BrokerAPI
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

@Suite struct TokenCacheTests {
  @BrokerActor private func entry(_ name: String, _ parts: Parts) -> TokenCache.Entry {
    let now = parts.runtime.clock.now
    let grant = SavedGrant(
      account: account(name), provider: provider("example"), identity: nil, requestedScopes: [], grantedScopes: [],
      refreshToken: nil, generation: 1, standing: .good, createdAt: now, loggedInAt: now)
    let token = SavedToken(
      account: account(name), accessToken: Secret("\(name)-a1"), type: "Bearer", scopes: [], generation: 1,
      issuedAt: now, expiresAt: now + .seconds(3600))
    return .init(
      token, grant: grant, provider: OAuthProvider(.plain()), isNarrowable: true, policy: RefreshPolicy(), at: now,
      parts.runtime.clock.uptime)
  }

  @Test("Only callers with the full right find an account's token, until it or the policy changes")
  @BrokerActor func find() {
    let parts = Parts(rules: [
      Rule(name: "use", who: .init(uid: 1000), accounts: ["a"], access: [.use]),
      Rule(name: "see", who: .init(uid: 1001), accounts: ["a"], access: [.observe]),
    ])
    let cache = parts.cache()
    cache.set(account("a"), entry("a", parts))
    #expect(cache.knows("a") && cache.isAsked(account("a")))
    guard case .none = cache.find("b", for: .process(.root)) else {
      Issue.record("there is no such token")
      return
    }
    guard case .refused(let slot, let epoch) = cache.find("a", for: .process(.user(1001))) else {
      Issue.record("it is not refused")
      return
    }
    guard case .found(let found) = cache.find("a", for: .process(.user(1000))) else {
      Issue.record("it is not found")
      return
    }
    #expect(found.rule == "use" && cache.stillHolds(found) && cache.stillHolds(slot, epoch: epoch))
    parts.inForce.configure(Policy(instance: .system, owner: 990, rules: []))
    #expect(!cache.stillHolds(found) && !cache.stillHolds(slot, epoch: epoch))
    guard case .refused = cache.find("a", for: .process(.user(1000))),
      case .found(let again) = cache.find("a", for: .process(.root))
    else {
      Issue.record("it is not found")
      return
    }
    cache.set(account("a"), entry("a", parts))
    #expect(!cache.stillHolds(again))
    cache.set(account("a"), nil, exists: false)
    guard case .none = cache.find("a", for: .process(.root)) else {
      Issue.record("it is still found")
      return
    }
    #expect(!cache.knows("a"))
  }
}
