import Broker
import BrokerAPI
import Grants
import OAuth

/// How many requests a provider's token endpoint takes; the others get 429 with `Retry-After` (RFC 6585 §4).
struct RateLimiter {
  /// One more request is allowed each so many milliseconds…
  let interval: Moment
  /// …and so many at once after a pause.
  let burst: Int64
  private var left: Int64
  private var at: Moment = 0

  init(interval: Moment, burst: Int64) {
    (self.interval, self.burst, left) = (interval, burst, burst)
  }

  /// Nil: it takes the request; otherwise the seconds of `Retry-After`.
  mutating func take(at now: Moment) -> Int64? {
    let gained = (now - at) / interval
    left = min(burst, left + gained)
    at = left == burst ? now : at + gained * interval
    guard left > 0 else { return (at + interval - now + second - 1) / second }
    left -= 1
    return nil
  }
}

extension Scenario {
  /// A backlog of all accounts takes no longer.
  private static let backlog = 90 * second

  /// Some providers limit the rate to twice what their accounts need, or more.
  func limitRates() {
    guard world.isAllowed(.rateLimit) else { return }
    for provider in world.providers {
      let accounts = Int64(max(1, world.accounts.count { $0.provider === provider }))
      let lifetime = (provider.accessLifetime ?? 3600) * second
      let intervals: [Moment] = [200, 500, second, 3 * second, 10 * second].filter {
        $0 * accounts <= Self.backlog && $0 * accounts * 4 <= lifetime
      }
      guard !intervals.isEmpty, world.limits.chance(0.8) else { continue }
      provider.limiter = RateLimiter(
        interval: world.limits.pick(intervals), burst: world.limits.pick([1, 1, 2, 5]))
      world.counts.add("providers with a rate limit")
      world.watchStarving(provider)
    }
  }

  /// The machine starts with a clock from before its tokens were issued.
  func startWithClockBehind() {
    guard world.isAllowed(.clockBehind) else { return }
    world.counts.add("starts with a clock behind")
    world.wallOffset = world.limits.pick([-hour, -day, -30 * day, -World.epoch.milliseconds])
    world.steppedAt = world.now
    // Otherwise it is wrong to the end of the faults.
    if world.limits.chance(0.7) {
      world.time.at(world.limits.logarithmic(10 * second, 20 * minute)) { [world] in world.setClockRight() }
    }
  }
}

extension World {
  /// The longest wait of a failing account, and the time of several backlogs.
  private static let longestStarving = 17 * minute

  /// The answer to a request over the limit; nil: the provider takes it.
  func limited(_ exchange: ModelNetwork.Exchange) -> Int64? {
    let provider = exchange.provider
    guard exchange.request.purpose == .token, provider.limiter != nil else { return nil }
    // The provider prefers others for ever.
    let isStarved = options.sabotage == .starving && exchange.refreshToken?.session == 0
    guard let wait = isStarved ? 5 : provider.limiter?.take(at: now) else { return nil }
    counts.add("requests over a rate limit")
    provider.watch.lastWait = now
    provider.watch.lastTrouble = now
    trace.add(now, "\(provider.name) allows no more requests for \(wait) s")
    return wait
  }

  func watchStarving(_ provider: ModelProvider) {
    time.after(minute) { [self] in
      checkStarving(provider)
      watchStarving(provider)
    }
  }

  /// Within the rate that the provider allows, each account gets a new token in time.
  private func checkStarving(_ provider: ModelProvider) {
    guard machine?.isServing == true, disk.trouble == nil, !stillness.isNow, provider.accessLifetime ?? 0 >= 300
    else { return }
    let calmSince = max(
      provider.watch.lastFault, runningSince, resumedAt, steppedAt, max(disk.lastTrouble, disk.slowUntil))
    for account in accounts where account.provider === provider {
      guard let session = account.session, session.refreshesUnderWay == 0, fate(account, session) == .live,
        let grant = disk.contents.grants[account.key], !isOver(grant),
        let saved = disk.contents.tokens[account.key].flatMap({ Token($0.accessToken.exposed) }),
        let end = provider.session(saved)?.accessTokens[saved.number].expiresAt
      else { continue }
      counts.add("accounts looked at within a rate limit")
      if now - max(end, calmSince) > Self.longestStarving {
        violated(
          .starved,
          "\(account.name) has had no token for \((now - end) / second) s, and others of \(provider.name) have")
      }
    }
  }

  private func isOver(_ grant: SavedGrant) -> Bool {
    switch grant.standing {
    case .loginRequired, .misconfigured: true
    case .good, .failing: false
    }
  }

  /// A token never has more time left than its provider gives it, at any time of the clock.
  func checkLifetime(_ expiresIn: Int64?, _ account: ModelAccount) {
    guard let expiresIn, let lifetime = account.provider.accessLifetime else { return }
    counts.add("lifetimes looked at")
    if expiresIn > lifetime {
      violated(
        .lifetime, "\(account.name) was returned a token for \(expiresIn) s; its lifetime is \(lifetime) s")
    }
  }
}
