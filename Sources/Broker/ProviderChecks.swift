import BrokerAPI
import Grants
import OAuth

/// `provider.check` for all who ask: one check at a time for a provider, and none soon after another. Whoever comes
/// meanwhile shares its result.
actor ProviderChecks {
  /// A result is handed out again for so long: providers are not asked as often as anybody likes.
  static let pause = Duration.seconds(5)
  static let mostWaiters = 256
  /// How often a caller looks again, if the settings change under the checks.
  private static let rounds = 4

  private let broker: Broker
  private let surroundings: Surroundings
  /// Bounded by the providers that are configured.
  private var runs: [ProviderName: Run] = [:]
  private var waiters: [ProviderName: [UInt64: CheckedContinuation<Void, Never>]] = [:]
  private var tickets: UInt64 = 0

  private enum Run {
    case underWay
    case ended(Broker.Checked, at: Duration)
  }

  init(_ broker: Broker) {
    self.broker = broker
    surroundings = broker.surroundings
  }

  func check(_ params: ProviderCheck.Params, caller: Caller) async throws(RPCError) -> ProviderCheck.Result {
    let deadline = surroundings.uptime() + (try Timeouts.duration(params.timeout))
    let name = try await broker.configured(params.provider)
    for _ in 0..<Self.rounds {
      if let checked = fresh(name), await broker.isCurrent(checked, of: name) {
        return await broker.view(checked, of: name, for: caller)
      }
      begin(name)
      while case .underWay = runs[name] {
        guard surroundings.uptime() < deadline else {
          throw RPCError(.timedOut, "the check of provider \(name) did not end in time")
        }
        guard waiters.values.reduce(0, { $0 + $1.count }) < Self.mostWaiters else {
          throw RPCError(.overloaded, "too many requests wait for checks")
        }
        await wait(for: name, until: deadline)
      }
    }
    _ = try await broker.configured(params.provider)
    throw RPCError(.temporarilyUnavailable, "the configuration changes while it is checked", retryAfter: 5)
  }

  private func fresh(_ name: ProviderName) -> Broker.Checked? {
    guard case .ended(let checked, let at) = runs[name], surroundings.uptime() - at < Self.pause else { return nil }
    return checked
  }

  private func begin(_ name: ProviderName) {
    if case .underWay = runs[name] { return }
    runs[name] = .underWay
    Task {
      let checked = await broker.examine(name)
      runs[name] = checked.map { .ended($0, at: surroundings.uptime()) }
      for waiter in (waiters.removeValue(forKey: name) ?? [:]).values { waiter.resume() }
    }
  }

  private func wait(for name: ProviderName, until deadline: Duration) async {
    tickets += 1
    let ticket = tickets
    let timer = Task { [surroundings] in
      await surroundings.sleep(deadline - surroundings.uptime())
      wake(ticket, of: name)
    }
    await withCheckedContinuation { waiters[name, default: [:]][ticket] = $0 }
    timer.cancel()
  }

  private func wake(_ ticket: UInt64, of name: ProviderName) {
    waiters[name]?.removeValue(forKey: ticket)?.resume()
  }
}

extension Broker {
  /// The name, if such a provider is configured.
  func configured(_ text: String) throws(RPCError) -> ProviderName {
    let name = try providerName(text)
    guard providers[name] != nil else { throw unknownProvider(text) }
    return name
  }

  /// Without the accounts that the caller may not see.
  func view(_ checked: Checked, of name: ProviderName, for caller: Caller) -> ProviderCheck.Result {
    let seen = checked.checks.filter { check in
      check.account.map {
        configuration.policy.allows(.observe, method: ProviderCheck.name, account: $0, caller: caller)
      } ?? true
    }
    return .init(provider: name.rawValue, checked_at: checked.at.seconds, checks: seen)
  }
}
