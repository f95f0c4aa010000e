import Broker
import Foundation
import Grants
import OAuth

/// The possible faults of a run. A seed draws some; each can be omitted to make a failing seed smaller.
enum Hazard: String, CaseIterable {
  case network, outage, longOutage, refusedClient, oddAnswers, lateAnswers
  case diskFull, diskSlow, diskGone
  case crash, crashAtCommit, restart, reboot, suspend, freeze, clockStep
  case withdrawal, logins, logouts, reloads, rechecks, refusals, dates
  case rateLimit, clockBehind

  /// Drawn from a stream of their own: the rest of a seed's world is as before.
  static let later: [Hazard] = [.rateLimit, .clockBehind]
}

extension World {
  func isAllowed(_ hazard: Hazard) -> Bool { hazards.contains(hazard) }
}

/// Draws the events of a seed's world, and sets their timers.
struct Scenario {
  let world: World
  /// When everything is in order again.
  private var healsAt: Moment = 0

  init(_ world: World) { self.world = world }

  mutating func prepare() {
    let drawn = Hazard.allCases.filter { !Hazard.later.contains($0) && world.plan.chance(0.4) }
    let later = Hazard.later.filter { _ in world.limits.chance(0.25) }
    world.hazards = Set(drawn + later).subtracting(world.options.without)
    healsAt = world.plan.pick([10 * minute, 20 * minute, 40 * minute, hour, 2 * hour])
    if world.plan.chance(0.01) { healsAt = day }
    if world.plan.chance(0.0005) { healsAt = 14 * day }
    world.waitsLong = world.plan.chance(0.3)
    let isQuiet = world.more.chance(0.05)
    if isQuiet { world.hazards = [] }
    if world.options.sabotage == .disk { world.disk.dropsOneIn = 30 }
    let accounts = accountCount()
    makeProviders(accounts)
    if isQuiet {
      for provider in world.providers {
        provider.accessLifetime = 300
        provider.refreshLifetime = nil
      }
    }
    makeAccounts(accounts)
    signIn()
    if isQuiet { quietOutages() } else { faults() }
    machine()
    people()
    programs()
    limitRates()
    startWithClockBehind()
    world.healsAt = healsAt
    world.time.at(healsAt) { [world] in world.heal() }
  }

  private mutating func accountCount() -> Int {
    var count = Int(world.plan.logarithmic(1, 30))
    if world.plan.chance(0.004) {
      count = Int(world.plan.between(300, 400))
      healsAt = min(healsAt, hour)
    }
    return min(count, world.options.accounts ?? count)
  }

  /// The approximate number of refreshes in a run: more seeds find more than longer runs.
  private static let refreshes: Int64 = 150

  // MARK: The world at its begin

  private func makeProviders(_ accounts: Int) {
    // Tokens that have expired on arrival are fetched once a minute.
    let lifetimes: [Int64?] = [nil, 0, 5, 60, 300, 600, 3600, 3600, 3600, 86_400, 7 * 86_400].filter { lifetime in
      let each = lifetime.map { $0 == 0 ? 60 : $0 } ?? day
      return healsAt / second * Int64(accounts) / each <= Self.refreshes
    }
    for index in 0..<Int(world.plan.between(1, 3)) {
      let provider = ModelProvider(index: index)
      provider.rotating = world.plan.pick([
        .never, .keepsOld, .grace(10 * second), .grace(30 * second), .grace(minute), .grace(5 * minute),
        .strict(family: true), .strict(family: true), .strict(family: false),
      ])
      provider.accessLifetime = world.plan.pick(lifetimes)
      if world.plan.chance(0.15) {
        provider.refreshLifetime = world.plan.pick([hour, 8 * hour, day])
        provider.saysRefreshLifetime = world.plan.chance(0.7)
      }
      if world.plan.chance(0.1), let lifetime = provider.accessLifetime { provider.refreshIn = lifetime / 2 }
      provider.rotatesEvery = world.plan.pick([1, 1, 1, 1, 3])
      provider.latency = world.plan.pick([1...20, 20...300, 200...2000])
      provider.givesRefreshTokenOnce = world.plan.chance(0.15)
      provider.isDiscovered = world.plan.chance(0.4)
      if world.isAllowed(.dates), world.plan.chance(0.7) {
        provider.dateOffset = world.plan.pick([0, 0, 30 * second, -10 * minute, day])
      }
      provider.sabotage = world.options.sabotage
      world.providers.append(provider)
    }
  }

  private func makeAccounts(_ count: Int) {
    for index in 0..<count {
      let account = ModelAccount(index: index, provider: world.plan.pick(world.providers))
      world.accounts.append(account)
      world.accountsByName[account.key] = account
    }
  }

  /// Most have signed in before, with tokens of any age.
  private func signIn() {
    var changes: [Change] = []
    for account in world.accounts where account.index == 0 || world.plan.chance(0.9) {
      let provider = account.provider
      let session = provider.begin(account: account.index, withRefreshToken: !world.plan.chance(0.04), at: 0)
      let lifetime = provider.accessLifetime.map { $0 * second }
      let age = lifetime.map { world.plan.between(0, $0 + $0 / 4) } ?? 0
      let number = provider.grant(session, sentAt: -age, at: 0, run: 0)
      let issuedAt = world.wall - .milliseconds(age)
      account.session = session
      account.saved = session.refreshTokens.isEmpty ? nil : 0
      account.newestSaved = account.saved ?? -1
      let grant = SavedGrant(
        account: account.key, provider: provider.name, identity: nil, requestedScopes: ["read"],
        grantedScopes: ["read"], refreshToken: session.refreshTokens.isEmpty ? nil : Token(.refresh, session, 0).secret,
        generation: 1, createdAt: issuedAt, loggedInAt: issuedAt)
      let token = SavedToken(
        account: account.key, accessToken: Token(.access, session, number).secret, type: "Bearer", scopes: ["read"],
        generation: 1, issuedAt: issuedAt, expiresAt: lifetime.map { issuedAt + .milliseconds($0) })
      changes += [.putGrant(grant), .putToken(token)]
    }
    world.disk.prepare(changes)
  }

  // MARK: What goes wrong

  private func moment() -> Moment { world.plan.between(0, healsAt) }

  private func times(_ hazard: Hazard, _ most: Int64) -> Int64 {
    let count = world.plan.between(1, most)
    return world.isAllowed(hazard) ? count : 0
  }

  private func faults() {
    for provider in world.providers {
      for _ in 0..<times(.network, 5) {
        let kinds = (0..<world.plan.between(1, 4)).map { _ in
          world.plan.pick(Fault.allCases.filter { $0 != .invalidClient })
        }
        window(provider, world.plan.logarithmic(second, hour), kinds, share: world.plan.pick([0.05, 0.3, 0.7, 1]))
      }
      for (hazard, kind) in [(Hazard.oddAnswers, Fault.odd), (.lateAnswers, .slow)] where times(hazard, 1) > 0 {
        window(provider, healsAt, [kind], share: world.plan.pick([0.05, 0.2, 0.5]))
      }
      for _ in 0..<times(.outage, 2) { outage(provider, world.plan.logarithmic(minute, hour)) }
      if times(.longOutage, 1) > 0, world.plan.chance(0.4) { outage(provider, healsAt / 2) }
      if times(.refusedClient, 1) > 0, world.plan.chance(0.4) {
        window(provider, world.plan.logarithmic(second, hour), [.invalidClient], share: 1)
      }
    }
  }

  private func window(_ provider: ModelProvider, _ length: Moment, _ kinds: [Fault], share: Double) {
    let from = moment()
    provider.faults.append(FaultWindow(from: from, until: min(from + length, healsAt), kinds: kinds, share: share))
  }

  /// Nothing else goes wrong, so that the recovery shows, with requests that are stuck as it begins.
  private func quietOutages() {
    for provider in world.providers {
      let from = world.more.between(minute, 3 * minute)
      let length = world.more.between(6 * minute, healsAt - from - minute)
      let kind = world.more.chance(0.5) ? Fault.silentBefore : world.more.pick(Fault.outages)
      outage(provider, FaultWindow(from: from, until: from + length, kinds: [kind], share: 1))
    }
  }

  private func outage(_ provider: ModelProvider, _ length: Moment) {
    let kind = world.plan.pick(Fault.outages)
    let from = moment()
    outage(
      provider,
      FaultWindow(
        // Some say when they hope to be back.
        from: from, until: min(from + length, healsAt),
        kinds: [world.more.chance(0.1) ? .unavailableWithRetryAfter : kind], share: 1))
  }

  private func outage(_ provider: ModelProvider, _ window: FaultWindow) {
    provider.faults.append(window)
    world.time.at(window.from) { [world] in
      world.counts.add("outages")
      world.trace.add(world.now, "\(provider.name) is unavailable until \(Trace.clock(window.until))")
      provider.watch.outage = (window.from, window.until)
    }
    world.time.at(window.until + World.recovery) { [world] in world.checkRecovery(provider, from: window) }
  }

  private func machine() {
    let world = world
    for (hazard, trouble) in [
      (Hazard.diskFull, ModelDisk.Trouble.full), (.diskSlow, .slow), (.diskGone, .gone), (.diskGone, .missing),
    ] {
      for _ in 0..<times(hazard, 2) {
        let from = moment()
        let until = min(from + world.plan.logarithmic(second, hour), healsAt)
        world.time.at(from) { world.setDisk(trouble) }
        world.time.at(until) { world.setDisk(nil) }
        // Users restart a failing service, and machines stop after their disk has recovered.
        let isStopped = world.more.chance(0.5)
        let after = until + world.more.logarithmic(100, 30 * second)
        let stop = world.more.chance(0.5) ? world.more.between(from, until) : after
        if isStopped, world.isAllowed(.restart) { world.time.at(stop) { world.restart() } }
      }
    }
    for _ in 0..<times(.crash, 4) { world.time.at(moment()) { world.crash("killed") } }
    for _ in 0..<times(.restart, 3) { world.time.at(moment()) { world.restart() } }
    for _ in 0..<times(.reboot, 2) { world.time.at(moment()) { world.reboot() } }
    if world.isAllowed(.crashAtCommit) { world.disk.crashesOneIn = world.plan.pick([10, 40, 200]) }
    for _ in 0..<times(.suspend, 3) {
      let length = world.plan.logarithmic(10 * second, 12 * hour)
      world.time.at(moment()) { world.suspend(length) }
    }
    for _ in 0..<times(.freeze, 6) {
      let length = world.plan.logarithmic(second, 6 * hour)
      let jobs = Int(world.plan.between(0, 60))
      let isAfterSending = world.plan.chance(0.7)
      world.time.at(moment()) {
        if isAfterSending { world.stillness.awaited = length } else { world.freeze(length, afterJobs: jobs) }
      }
    }
    for _ in 0..<times(.clockStep, 4) {
      let step = world.plan.pick([
        second, -second, minute, -minute, hour, -hour, day, -day, 365 * day, -365 * day, -World.epoch.milliseconds,
      ])
      world.time.at(moment()) { world.stepClock(step) }
    }
    for _ in 0..<times(.rechecks, 3) { world.time.at(moment()) { world.recheck(.networkUp) } }
    for _ in 0..<times(.reloads, 3) { world.time.at(moment()) { world.reload() } }
  }

  private func people() {
    let world = world
    for _ in 0..<times(.withdrawal, 2) {
      let account = world.plan.pick(world.accounts)
      world.time.at(moment()) { world.withdraw(account) }
    }
    for _ in 0..<times(.logins, 6) {
      let account = world.plan.pick(world.accounts)
      world.time.at(moment()) { world.logIn(account) }
    }
    for _ in 0..<times(.logouts, 3) {
      let account = world.plan.pick(world.accounts)
      world.time.at(moment()) { world.logOut(account) }
    }
  }

  private func programs() {
    let world = world
    let count = world.plan.between(5, 80)
    for _ in 0..<count {
      let account = world.plan.pick(world.accounts)
      let minTTL: Double? = world.plan.pick([nil, nil, nil, 0, 60, 600, 3000, 1e6])
      let timeout: Double? = world.plan.pick([nil, nil, nil, 0, 1, 5, 60, 300])
      let resource: String? = world.plan.pick([nil, nil, nil, nil, "https://a.example", "https://b.example"])
      let at = moment()
      for _ in 0..<world.plan.pick([1, 1, 2, 4]) {
        world.time.at(at) { world.getToken(account, minTTL: minTTL, timeout: timeout, resource: resource) }
      }
    }
  }
}
