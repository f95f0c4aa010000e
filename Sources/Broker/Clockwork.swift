import BrokerAPI
import Grants
import OAuth

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
    watchClock()
    examineStoreIfTime()
    transfers.forgetIdle(at: uptime)
    var next = now + Limit.longestSleep
    var due: [ProviderName: [AccountName]] = [:]
    var accounts: [ProviderName: Int] = [:]
    for (account, grant) in grants {
      accounts[grant.saved.provider, default: 0] += 1
      next = min(next, announceIfDue(account, grant) ?? next)
      guard let moment = grant.nextMoment(policy: configuration.refresh, at: now) else { continue }
      if moment > now {
        next = min(next, moment)
      } else if !grant.saved.isRenewable {
        endIfDue(account)
      } else {
        due[grant.saved.provider, default: []].append(account)
      }
    }
    for name in providers.keys {
      providers[name]?.accounts = accounts[name] ?? 0
      next = min(next, dispatch(name, due: due[name] ?? []) ?? next)
    }
    return min(next, lookAtLogins() ?? next, lookAtRevocations() ?? next)
  }

  private func lookAtLogins() -> Timestamp? {
    forgetOldLogins()
    let pending = logins.values.filter(\.isPending)
    for login in pending where login.saved.expiresAt <= now { Task { await expire(login.saved.id) } }
    return pending.map(\.saved.expiresAt).filter { $0 > now }.min()
  }

  private func lookAtRevocations() -> Timestamp? {
    for revocation in revocations.values where revocation.retryAt <= now {
      // Not again before this one has had its answer.
      revocations[revocation.id]?.retryAt = now + .seconds(120)
      Task { await revoke(revocation) }
    }
    return revocations.values.map(\.retryAt).min()
  }

  /// The last token of a grant without a refresh token has ended.
  private func endIfDue(_ account: AccountName) {
    guard case .ended(let saved) = grants[account]?.due(at: now, policy: configuration.refresh) else { return }
    Task {
      await saveStanding(of: account, "the end of a token")
      if let grant = grants[account], case .loginRequired(let reason, let failure) = grant.saved.standing {
        report(saved, loginRequired(grant, reason, failure), .loginRequired)
      }
      changed(account)
    }
  }

  private func examineStoreIfTime() {
    guard uptime - lastExamined >= Limit.examination else { return }
    lastExamined = uptime
    Task { await examineStore() }
  }

  var isStopped: Bool { isDraining && drainEnded }

  /// Stops beginning things and waits for those under way: an answer that is lost now could be a grant lost. Callers
  /// that wait for a refresh under way still get its token.
  ///
  /// - Parameter deadline: a time since the machine started.
  public func drain(until deadline: Duration) async {
    isDraining = true
    nudge?.yield()
    for id in logins.keys { waiting.wake(.login(id)) }
    wakeReleases()
    for name in providers.keys { wakeWanted(name) }
    while refreshesInFlight + exchangesInFlight > 0, uptime < deadline {
      await surroundings.sleep(.milliseconds(20))
    }
    if !unsaved.isEmpty { await saveUnsaved() }
    drainEnded = true
    cache.close()
    waiting.wakeAll()
  }
}
