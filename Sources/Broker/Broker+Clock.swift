import BrokerAPI
import Grants
import Logging
import OAuth

// The wall clock may be wrong at boot, and set by a person or by NTP at any time. Between two looks at it the broker
// counts on the clock that nobody sets; where they have moved apart, what this run has stamped moves along.
extension Broker {
  func watchClock() {
    let uptime = uptime
    let wall = surroundings.now()
    let step = wall - (anchor.wall + (uptime - anchor.uptime))
    guard step > Limit.clockStep || step < .zero - Limit.clockStep else {
      anchor = (wall, uptime)
      return
    }
    anchor = (wall, uptime)
    clockStepped(by: step)
  }

  private func clockStepped(by step: Duration) {
    let seconds = step.wholeSeconds
    let message = "this machine's clock was set \(seconds < 0 ? "back" : "forward") by \(abs(seconds)) s"
    logger.notice("\(message)")
    startedAt = startedAt + step
    loadedAt = loadedAt + step
    storeFailingSince = storeFailingSince.map { $0 + step }
    for name in providers.keys { providers[name]?.clockStepped(by: step) }
    for id in logins.keys { logins[id]?.clockStepped(by: step) }
    for account in Array(grants.keys) {
      if grants[account]?.clockStepped(by: step) == true { unsaved.insert(account) }
      grants[account]?.retryNow(at: now)
      publish(account)
    }
    // A wait that is longer than any is from another clock.
    let latest = now + .seconds(60)
    for (id, revocation) in revocations { revocations[id]?.retryAt = min(revocation.retryAt, latest) }
    emit(Event(type: .clockStepped, at: now.seconds, message: message))
    Task { await saveUnsaved() }
    waiting.wakeAccounts()
    nudge?.yield()
    updateSummary()
  }

  /// What a provider's `Date` says of our clock (RFC 9110 §6.6.1).
  func measureSkew(_ response: HTTPResponse, from name: ProviderName, sent: Timestamp) {
    guard let date = response.date else { return }
    let received = now
    guard received >= sent, received - sent < Limit.skewWorthWarning else { return }
    // The header is rounded down, and the answer was dated somewhere between sending and receiving.
    let middle = sent + (received - sent).scaled(by: 0.5)
    let skew = ClockSkew(offset: middle - (date + .milliseconds(500)), at: received)
    providers[name]?.skew = skew
    let size = max(skew.offset, .zero - skew.offset)
    guard size > Limit.skewWorthWarning else {
      providers[name]?.skewWasSaid = false
      return
    }
    guard providers[name]?.skewWasSaid == false else { return }
    providers[name]?.skewWasSaid = true
    logger.warning(
      "this machine's clock is \(size.wholeSeconds) s \(skew.offset > .zero ? "ahead of" : "behind") that of provider \(name)",
      metadata: ["provider": "\(name)", "hint": "Check the clock with timedatectl."])
  }
}

extension Login {
  /// A login of this run keeps the time that it has.
  mutating func clockStepped(by step: Duration) {
    if isOfThisRun {
      saved.startedAt = saved.startedAt + step
      saved.expiresAt = saved.expiresAt + step
    }
    if case .ended(let outcome, let at) = phase { phase = .ended(outcome, at: at + step) }
  }
}
