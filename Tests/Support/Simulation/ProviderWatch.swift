import BrokerAPI
import Grants

/// The latest requests to a provider, for the limits of outages and recoveries.
struct ProviderWatch {
  /// When the latest fault or crash concerned it.
  var lastTrouble: Moment = .min / 2
  /// When it last did something else with a request than answer it.
  var lastFault: Moment = .min / 2
  /// When it last asked for a wait.
  var lastWait: Moment = .min / 2
  /// When the first rotation was lost that is not yet made good, by session.
  var lostAt: [Int: Moment] = [:]
  var underWay = 0
  var recheckedAt: Moment = .min / 2
  /// The refresh requests of the last minute.
  private(set) var recent: [Moment] = []
  /// When the broker first met the outage.
  var metOutageAt: Moment?
  /// A complete outage: every request fails.
  var outage: (from: Moment, until: Moment)? {
    didSet { outageFailures = 0 }
  }
  /// Refreshes that were sent into it.
  var outageFailures = 0

  mutating func sent(at now: Moment) {
    recent.append(now)
    if let first = recent.first, first <= now - 2 * minute { recent.removeAll { $0 <= now - minute } }
  }

  func lastMinute(at now: Moment) -> Int { recent.count { $0 > now - minute } }
  func lastSecond(at now: Moment) -> Int { recent.count { $0 > now - second } }
}

extension World {
  /// After this time of an outage, only a few requests a minute are sent.
  static let outageIsOld = 5 * minute
  static let probesEachMinute = 8

  /// The time after an outage until a request may try the provider: ten seconds after the last failed try.
  static let recovery = 12 * second
  static let longestWait = 15 * minute + second
  private static let askedRecovery = 12 * second
  /// The consecutive failures after which the broker considers the provider unavailable.
  private static let knownOutage = 8

  /// A request that waits since the outage delays only its account.
  func checkRecovery(_ provider: ModelProvider, from outage: FaultWindow) {
    let end = outage.until
    // Tokens that have expired on arrival cannot be used.
    guard provider.accessLifetime ?? 3600 >= 60, accounts.count <= 30,
      provider.watch.outageFailures >= Self.knownOutage,
      max(runningSince, resumedAt, steppedAt) < outage.from, isQuiet(provider, since: end)
    else { return }
    for account in accounts where account.provider === provider {
      guard let session = account.session, session.refreshesUnderWay == 0, fate(account, session) == .live,
        let saved = disk.contents.tokens[account.key], saved.expiresAt.map({ $0 <= wall }) ?? false
      else { continue }
      counts.add("recoveries asked for")
      account.askedAt.append(now)
      let timeout = Double(max(Self.askedRecovery, slowest(provider)) / second)
      call(
        TokenGet.self, .init(account: account.name, timeout: timeout), account: account, timeout: timeout,
        hasDeadline: true
      ) { result, _ in
        guard case .failure(let error) = result, error.reason == .temporarilyUnavailable || error.reason == .timedOut,
          self.isQuiet(provider, since: end)
        else { return }
        self.violated(
          .recovery, "\(account.name), asked for \((self.now - end) / second) s after an outage: \(error.message)")
      }
    }
  }

  /// How long a slow provider needs for all of its accounts: one after the probe's answer, then more and more at once.
  private func slowest(_ provider: ModelProvider) -> Moment {
    var (rounds, window, served) = (1, 2, 0)
    while served < accounts.count {
      served += window
      window = min(window * 2, RefreshPolicy().concurrentPerProvider)
      rounds += 1
    }
    // There and back, for metadata and for the token.
    return Moment(rounds + 1) * 2 * Moment(provider.latency.upperBound)
  }

  private func isQuiet(_ provider: ModelProvider, since end: Moment) -> Bool {
    let watch = provider.watch
    return machine?.isServing == true && disk.trouble == nil && !stillness.isNow && stillness.coming == nil
      && max(watch.lastFault, runningSince, resumedAt, steppedAt, disk.lastTrouble, disk.slowUntil) < end
      && watch.lastWait < end - 20 * minute && watch.recheckedAt < end - 20 * minute
  }

  func checkProbes(_ provider: ModelProvider) {
    if let outage = provider.watch.outage, now >= outage.from,
      (provider.watch.metOutageAt ?? .min) < max(outage.from, runningSince)
    {
      provider.watch.metOutageAt = now
    }
    let watch = provider.watch
    // Requests whose intents a slow disk takes together are sent together.
    guard let outage = watch.outage, runningSince < now - 2 * minute, resumedAt < now - 2 * minute,
      steppedAt < now - 2 * minute, watch.recheckedAt < now - 2 * minute, disk.slowUntil < now - 2 * minute
    else { return }
    if now >= outage.from + Self.outageIsOld, now < outage.until, (watch.metOutageAt ?? now) < now - 2 * minute {
      counts.add("probes seen")
      let count = watch.lastMinute(at: now)
      if count > Self.probesEachMinute {
        violated(
          .probes, "\(provider.name), unavailable for \((now - outage.from) / minute) min, got \(count) in a minute")
      }
    }
    if now >= outage.until, now < outage.until + minute, outage.until - outage.from > 2 * Self.outageIsOld {
      let few = accounts.count { $0.provider === provider } / 60
      let most = 2 * max(5, few) + 2 * max(50, few * 6)
      counts.add("recoveries seen")
      if watch.lastSecond(at: now) > most {
        violated(.stampede, "\(provider.name), available again, got \(watch.lastSecond(at: now)) in a second")
      }
    }
  }
}
