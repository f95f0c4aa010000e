import BrokerAPI
import Grants
import Logging
import OAuth

// Logins on another device (RFC 8628): the provider is polled until the user has confirmed the code. The login is on
// disk, so a restart continues the polling.
extension Logins {
  func startPolling(_ id: LoginID) {
    Task { await poll(id) }
  }

  private func poll(_ id: LoginID) async {
    var failures = 0
    var wait = table[id]?.saved.device?.interval ?? .zero
    while let end = table[id]?.saved.expiresAt {
      // Regardless of the provider's interval, no login waits beyond its own end.
      await system.sleep(min(wait, max(end - now, .zero)))
      guard let login = table[id], login.endedAt == nil, let device = login.saved.device, !isDraining else { return }
      // The clockwork ends it.
      guard login.saved.expiresAt > now else { return }
      // A callback is being processed. If it fails, the login continues.
      guard login.isPending else {
        wait = device.interval
        continue
      }
      guard let next = await pollOnce(device, login.saved, failures: &failures) else { return }
      wait = next
    }
  }

  /// How long to wait before the next poll; nil: the login is over. `failures`: how many in a row had no answer.
  private func pollOnce(_ device: DeviceLogin, _ login: SavedLogin, failures: inout Int) async -> Duration? {
    guard providers[login.provider] != nil else {
      await endPolling(of: login, providers.error(gone(login.provider), at: login.provider))
      return nil
    }
    func afterSilence(_ asked: Duration = .zero) -> Duration {
      failures += 1
      return max(asked, DevicePoll.afterSilence(interval: device.interval, failures: failures))
    }
    // A restart waits for an answer that may hold the tokens.
    table.exchangesInFlight += 1
    defer { table.exchangesInFlight -= 1 }
    let target: ProviderEndpoints
    switch await providers.endpoints(of: login.provider) {
    case .success(let known): target = known
    case .failure(let failure):
      table[login.id]?.lastPollFailure = failure.message
      return afterSilence()
    }
    guard table[login.id]?.isPending == true, !isDraining else { return device.interval }
    if let error = moved(login) {
      await fail(login.id, error)
      return nil
    }
    let provider = target.provider
    let sentAt = uptime
    let step = provider.poll(device, login: login, metadata: target.metadata)
    switch await target.connection.converse(step, for: .exchanges) {
    case .failure(let failure) where failure.isOfProvider:
      table[login.id]?.lastPollFailure = failure.message
      return afterSilence(failure.retryAfter ?? .zero)
    case .success(.backOff(let wait, let message)):
      table[login.id]?.lastPollFailure = message
      return afterSilence(wait)
    case .success(.pending(let wait)):
      failures = 0
      table[login.id]?.lastPollFailure = nil
      return wait
    case .success(.slowDown(let interval)):
      failures = 0
      table[login.id]?.lastPollFailure = nil
      await saveInterval(interval, of: login.id)
      return interval
    case .failure(let failure) where await registrations.hasOtherAuthentication(after: failure, at: provider.name):
      return device.interval
    case .failure(let failure): await endPolling(of: login, providers.error(failure, at: provider.name))
    case .success(.denied(let oauth)):
      let error = RPCError(.loginDenied, CallbackError.denied(oauth).description, oauth: OAuthDetail(oauth))
      await endPolling(of: login, error)
    case .success(.expired):
      let error = RPCError(
        .loginExpired, "the code was not confirmed in time, or the provider forgot it\(pollFailure(of: login.id))")
      await endPolling(of: login, error)
    case .success(.issued(let issued)): await adoptPolled(issued, login, provider, sentAt: sentAt)
    }
    return nil
  }

  /// The failure of the last poll, for the error of a login that was not completed in time.
  func pollFailure(of id: LoginID) -> String {
    table[id]?.lastPollFailure.map { "; the last request to the provider failed: \($0)" } ?? ""
  }

  /// The device code is no longer valid. That ends a login without another way; one with a redirect URI continues to
  /// wait for the browser until its own expiry, which the provider does not concern.
  private func endPolling(of login: SavedLogin, _ error: RPCError) async {
    guard !login.redirectURI.isEmpty else { return await failIfPending(login.id, error) }
    guard table[login.id]?.saved.device != nil else { return }
    // A restart does not ask again.
    table[login.id]?.saved.device = nil
    logger.notice(
      "the code of the login of \(login.account) on another device ended: \(error.message); a browser can complete it",
      metadata: ["account": "\(login.account)", "provider": "\(login.provider)"])
    await saveIfPending(login.id, "the end of a device code")
  }

  private func adoptPolled(_ issued: Issued, _ login: SavedLogin, _ provider: any Provider, sentAt: Duration) async {
    // It was cancelled, or completed in a browser, while the answer was on its way.
    switch table[login.id]?.phase {
    case .pending: break
    // The tokens may be of the grant that the browser brings, and a revocation could end it.
    case .exchanging, .unsaved, .completed, .codeIssued: return
    case .failed, nil: return await revokeUnlessShared(issued, login, provider, sentAt: sentAt, kind: .deviceCode)
    }
    table[login.id]?.phase = .exchanging
    await adoptOrFail(issued, login, provider, sentAt: sentAt, kind: .deviceCode)
  }

  /// `slow_down` counts for good, over a restart too (RFC 8628 §3.5).
  private func saveInterval(_ interval: Duration, of id: LoginID) async {
    guard let known = table[id]?.saved.device?.interval, interval > known else { return }
    table[id]?.saved.device?.interval = interval
    guard let saved = table[id]?.saved else { return }
    await saveIfPending(id, "the interval of a login on another device")
    logger.info(
      "provider \(saved.provider) wants to be asked every \(interval.wholeSeconds) s for the login of \(saved.account)",
      metadata: ["provider": "\(saved.provider)", "account": "\(saved.account)"])
  }
}
