import Broker
import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals

// The events of the machine.
extension World {
  func setDisk(_ trouble: ModelDisk.Trouble?) {
    // A removed database does not return.
    guard disk.trouble != .missing, trouble != .missing || machine?.isServing == true else { return }
    trace.add(now, trouble.map { "the disk: \($0.rawValue)" } ?? "the disk is in order")
    if let trouble { counts.add("disk: \(trouble.rawValue)") }
    disk.trouble = trouble
    disk.lastTrouble = now
    guard trouble == .missing, let stateFolder else { return }
    for name in ["grantd.db", "grantd.db-wal", "grantd.db-shm"] {
      try? FileManager.default.removeItem(atPath: "\(stateFolder)/\(name)")
    }
  }

  /// Time passes, and nothing on the machine runs.
  func suspend(_ length: Moment) {
    guard machine != nil, !stillness.isNow else { return }
    counts.add("suspends")
    trace.add(now, "the machine sleeps for \(length / second) s")
    time.leap(length)
    stillness.passed(length)
    resumedAt = now
    trace.add(now, "the machine wakes up")
    network.suspend(0.7)
    if clients.chance(0.5) { recheck(.resumed) }
  }

  /// The broker's process is stopped between two of its steps, and everything else continues.
  func freeze(_ length: Moment, afterJobs jobs: Int) {
    let length = min(length, healsAt - now)
    guard machine != nil, !stillness.isNow, length > 0 else { return }
    stillness.coming = (length, jobs)
    if jobs == 0 { freeze() }
  }

  func freeze() {
    guard let (length, _) = stillness.coming else { return }
    counts.add("freezes")
    trace.add(now, "the process is stopped for \(length / second) s")
    stillness.begins(at: now)
    // Its overdue timers fire when it continues.
    resumedAt = now + length
    let run = run
    time.at(resumedAt) { if run == self.run { self.thaw() } }
  }

  func thaw() {
    guard stillness.isNow else { return }
    trace.add(now, "the process continues")
    stillness.ends(at: now)
    resumedAt = now
  }

  func freeze(after wait: Moment, jobs: Int) {
    guard let length = stillness.awaited else { return }
    stillness.awaited = nil
    time.after(wait) { self.freeze(length, afterJobs: jobs) }
  }

  /// False: the process is stopped, and the action follows when it continues.
  func isRunning(_ action: @escaping () -> Void) -> Bool {
    if stillness.isNow { time.at(resumedAt + 1, action) }
    return !stillness.isNow
  }

  /// An administrator sets the wall clock; no timer changes.
  func stepClock(_ step: Moment) {
    guard wall.milliseconds + step > -day else { return }
    counts.add("clock steps")
    trace.add(now, "the clock is set by \(step / second) s")
    wallOffset += step
    steppedAt = now
  }

  /// The machine restarts, perhaps with a wrong clock that is corrected later.
  func reboot() {
    guard canEnd else { return }
    counts.add("reboots")
    let isWrong = plan.chance(0.6)
    let wrong: Moment = plan.pick([-World.epoch.milliseconds, -hour, hour, -30 * day, 365 * day])
    let wait = plan.logarithmic(5 * second, 2 * minute)
    let setAfter = plan.logarithmic(second, 10 * minute)
    crash("the machine goes down", restartAfter: wait)
    let run = run
    time.after(wait - 1) { [self] in
      guard run == self.run else { return }
      bootedAt = now - 1000
      guard isWrong, isAllowed(.clockStep) else { return }
      counts.add("wrong clocks at boot")
      trace.add(now, "the machine starts with a clock that is off by \(wrong / second) s")
      wallOffset = max(wrong, -World.epoch.milliseconds)
      steppedAt = now
      time.after(setAfter) { self.setClockRight() }
    }
  }

  func setClockRight() {
    guard wallOffset != 0 else { return }
    stepClock(-wallOffset)
  }

  /// As the service does when the machine tells it.
  func recheck(_ cause: RecheckCause) {
    guard isRunning({ self.recheck(cause) }), let machine, machine.isServing else { return }
    counts.add("rechecks")
    for provider in providers { provider.watch.recheckedAt = now }
    Task { await machine.broker.recheck(cause) }
  }

  func reload() {
    guard isRunning({ self.reload() }), let machine, machine.isServing else { return }
    counts.add("reloads")
    trace.add(now, "broker.reload")
    Task { _ = try? await machine.broker.reload() }
  }
}

// The actions of users.
extension World {
  /// At the provider's own site.
  func withdraw(_ account: ModelAccount) {
    guard let session = account.session, session.isAlive else { return }
    counts.add("consents withdrawn")
    trace.add(now, "\(account.name) takes the consent back at \(account.provider.name)")
    session.ended = .withdrawn
  }

  func logIn(_ account: ModelAccount) {
    guard isRunning({ self.logIn(account) }), let machine, machine.isServing else { return }
    call(
      LoginStart.self, .init(provider: account.provider.name.rawValue, account: account.name, destinations: ["manual"]),
      account: account
    ) { result, _ in
      guard case .success(let login) = result, let url = login.destinations.first?.url,
        let items = URLComponents(string: url)?.queryItems,
        let state = items.first(where: { $0.name == "state" })?.value,
        let redirect = login.destinations.first?.redirect_uri
      else { return }
      let code = account.provider.code(for: account.index)
      let callback = "\(redirect)?code=\(code)&state=\(state)"
      self.time.after(self.clients.logarithmic(second, 5 * minute)) { self.callBack(account, callback, tries: 3) }
    }
  }

  private func callBack(_ account: ModelAccount, _ url: String, tries: Int) {
    guard isRunning({ self.callBack(account, url, tries: tries) }) else { return }
    guard let machine, machine.isServing else {
      if tries > 0 { time.after(20 * second) { self.callBack(account, url, tries: tries - 1) } }
      return
    }
    counts.add("callbacks")
    trace.add(now, "\(account.name) comes back from \(account.provider.name)")
    Task { _ = await machine.broker.handleCallback(url: url, from: .user(Client.process.uid)) }
  }

  func logOut(_ account: ModelAccount) {
    guard isRunning({ self.logOut(account) }), machine?.isServing == true, account.session != nil else { return }
    account.logoutsUnderWay += 1
    trace.add(now, "account.logout \(account.name)")
    call(AccountLogout.self, .init(account: account.name), account: account) { _, _ in account.logoutsUnderWay -= 1 }
  }
}

/// When the broker's process did not run, and the total time.
struct Stillness {
  /// A stop that begins after this number of further jobs.
  var coming: (length: Moment, jobs: Int)?
  private var since: Moment?
  /// One that begins soon after the next refresh is sent.
  var awaited: Moment?
  private(set) var began: Moment = .min
  private var before: Moment = 0

  var isNow: Bool { since != nil }

  func length(at now: Moment) -> Moment { before + (since.map { now - $0 } ?? 0) }

  /// The whole machine was.
  mutating func passed(_ length: Moment) { before += length }

  mutating func begins(at now: Moment) {
    coming = nil
    since = now
    began = now
  }

  mutating func ends(at now: Moment) {
    before = length(at: now)
    since = nil
    coming = nil
  }
}
