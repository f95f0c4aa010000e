import BrokerAPI
import Grants
public import OAuth

// What happens by itself. One loop, woken by changes; each sleep is short enough for a wall clock that steps.
extension Broker {
  /// Runs until the task is cancelled.
  public func run() async {
    while !Task.isCancelled, !isDraining {
      // One for each round: cancelling the reader of a stream ends the stream, and an ended one would never let us sleep.
      // A nudge between two rounds is not lost, as each begins with a look at everything.
      let (nudges, nudge) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
      self.nudge = nudge
      let next = tick()
      let pause = min(max(next - now, .zero), Limit.longestSleep)
      await withTaskGroup(of: Void.self) { [surroundings] group in
        group.addTask { await surroundings.sleep(pause) }
        group.addTask { for await _ in nudges { return } }
        await group.next()
        group.cancelAll()
      }
    }
    nudge = nil
  }

  /// Does what is due, and says when to look again.
  func tick() -> Timestamp {
    var next = now + Limit.longestSleep
    for account in Array(grants.keys) {
      guard let moment = grants[account]?.nextMoment(policy: configuration.refresh, at: now) else { continue }
      guard moment <= now else {
        next = min(next, moment)
        continue
      }
      refreshOrEnd(account)
    }
    for login in logins.values where login.isPending {
      if login.saved.expiresAt <= now {
        Task { await expire(login.saved.id) }
      } else {
        next = min(next, login.saved.expiresAt)
      }
    }
    for revocation in revocations.values {
      if revocation.retryAt <= now {
        // Not again before this one has had its answer.
        revocations[revocation.id]?.retryAt = now + .seconds(120)
        Task { await revoke(revocation) }
      } else {
        next = min(next, revocation.retryAt)
      }
    }
    return next
  }

  private func refreshOrEnd(_ account: AccountName) {
    switch grants[account]?.due(at: now, policy: configuration.refresh) {
    case .refresh: startRefresh(account)
    case .ended(let saved):
      Task {
        await saveStanding(of: account, "the end of a token")
        if let grant = grants[account], case .loginRequired(let reason, let failure) = grant.saved.standing {
          report(saved, loginRequired(grant, reason, failure), .loginRequired)
        }
        changed(account)
      }
    case .nothing, nil: break
    }
  }

  var isStopped: Bool { isDraining && drainEnded }

  /// Stops beginning things and waits for those under way: an answer that is lost now could be a grant lost. Callers
  /// that wait for a refresh under way still get its token.
  public func drain(until deadline: Timestamp) async {
    isDraining = true
    nudge?.yield()
    for id in logins.keys { waiting.wake(.login(id)) }
    while refreshesInFlight + exchangesInFlight > 0, now < deadline {
      await surroundings.sleep(.milliseconds(20))
    }
    drainEnded = true
    cache.close()
    waiting.wakeAll()
  }
}
