import BrokerAPI
import Grants
import Logging
import OAuth

// Logins on another device (RFC 8628): the provider is asked again and again until the person has confirmed the code. The
// login is on disk, so that a restart goes on asking.
extension Logins {
  func startPolling(_ id: LoginID) {
    Task { await poll(id) }
  }

  private func poll(_ id: LoginID) async {
    var failures = 0
    var wait = table[id]?.saved.device?.interval ?? .zero
    while let end = table[id]?.saved.expiresAt {
      // However long a provider wants to be left alone: nobody waits beyond the login's own time.
      await surroundings.sleep(min(wait, max(end - now, .zero)))
      guard let login = table[id], login.isPending, let device = login.saved.device, !isDraining else { return }
      // The clockwork ends it.
      guard login.saved.expiresAt > now else { return }
      switch await ask(device, login.saved) {
      case .again(let answered):
        failures = 0
        wait = answered
      case .silence(let asked):
        failures += 1
        wait = max(asked, DevicePoll.afterSilence(interval: device.interval, failures: failures))
      case .ended: return
      }
    }
  }

  private enum Polled {
    case again(Duration)
    /// No answer that says anything but how long to wait at least.
    case silence(Duration)
    case ended
  }

  private func ask(_ device: DeviceLogin, _ login: SavedLogin) async -> Polled {
    guard let provider = providers[login.provider]?.provider else {
      await end(login.id, .failed(providerError(gone(login.provider), provider: login.provider)))
      return .ended
    }
    // A restart waits for an answer that may hold the tokens.
    exchangesInFlight += 1
    defer { exchangesInFlight -= 1 }
    guard case .success(let metadata) = await providers.metadata(of: login.provider) else { return .silence(.zero) }
    guard table[login.id]?.isPending == true, !isDraining else { return .ended }
    let sentAt = now
    switch await providers.converse(provider.poll(device, login: login, metadata: metadata), with: provider.name) {
    case .failure(let failure) where failure.isOfProvider: return .silence(failure.retryAfter ?? .zero)
    case .failure(let failure): await end(login.id, .failed(providerError(failure, provider: provider.name)))
    case .success(.pending(let wait)): return .again(wait)
    case .success(.slowDown(let interval)):
      await keep(interval, of: login.id)
      return .again(interval)
    case .success(.backOff(let wait)): return .silence(wait)
    case .success(.denied(let oauth)):
      let error = RPCError(.loginDenied, CallbackError.denied(oauth).description, oauth: OAuthDetail(oauth))
      await end(login.id, .failed(error))
    case .success(.expired):
      await end(
        login.id, .failed(RPCError(.loginExpired, "nobody confirmed the code in time, or the provider forgot it")))
    case .success(.issued(let issued)): await take(issued, login, provider, sentAt: sentAt)
    }
    return .ended
  }

  private func take(_ issued: Issued, _ login: SavedLogin, _ provider: any Provider, sentAt: Timestamp) async {
    // It was cancelled, or completed in a browser, while the answer was on its way.
    guard table[login.id]?.isPending == true else {
      let tokens = issued.tokens
      if let token = tokens.refreshToken {
        await revocations.queue([(token, "refresh_token")], provider: provider.name)
      }
      return
    }
    table[login.id]?.phase = .exchanging
    if let error = await adopt(issued, login, provider, sentAt: sentAt, kind: .deviceCode) {
      await end(login.id, .failed(error))
    } else {
      await end(login.id, .completed(login.account))
    }
  }

  /// `slow_down` counts for good, over a restart too (RFC 8628 §3.5).
  private func keep(_ interval: Duration, of id: LoginID) async {
    guard let known = table[id]?.saved.device?.interval, interval > known else { return }
    table[id]?.saved.device?.interval = interval
    guard let saved = table[id]?.saved, table[id]?.isPending == true else { return }
    await journal.commitOrWarn([.putLogin(saved)], "the interval of a login on another device")
    logger.info(
      "provider \(saved.provider) wants to be asked every \(interval.wholeSeconds) s for the login of \(saved.account)",
      metadata: ["provider": "\(saved.provider)", "account": "\(saved.account)"])
  }
}
