import BrokerAPI
import Grants
import OAuth
import Principals

/// `provider.check` for all callers: one check at a time per provider, with a minimum interval. Concurrent callers
/// share its result.
@BrokerActor
final class ProviderChecks: Piece {
  /// How long a result is returned again: this limits requests to the provider.
  static let pause = Duration.seconds(5)
  static let mostWaiters = 256
  /// How often a caller looks again, if the settings change under the checks.
  private static let rounds = 4

  let runtime: Runtime
  private let examiner: ProviderExaminer
  private let providers: ProviderDirectory
  private let engine: RefreshEngine
  /// Bounded by the providers that are configured.
  private var runs: [ProviderName: Run] = [:]
  private var waiting = 0

  private enum Run {
    case underWay
    case ended(ProviderExaminer.Checked, at: Duration)
  }

  init(_ runtime: Runtime, examiner: ProviderExaminer, providers: ProviderDirectory, engine: RefreshEngine) {
    self.runtime = runtime
    self.examiner = examiner
    self.providers = providers
    self.engine = engine
  }

  func check(_ params: ProviderCheck.Params, caller: Principal) async throws(RPCError) -> ProviderCheck.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    let name = try providers.configured(params.provider)
    for _ in 0..<Self.rounds {
      if let checked = fresh(name), examiner.isCurrent(checked, of: name) {
        return examiner.view(checked, of: name, for: caller)
      }
      begin(name)
      while case .underWay = runs[name] {
        guard uptime < deadline else {
          throw RPCError(.timedOut, "the check of provider \(name) did not end in time")
        }
        guard waiting < Self.mostWaiters else {
          throw RPCError(.overloaded, "too many requests wait for checks")
        }
        waiting += 1
        await wait(for: .check(name), until: deadline)
        waiting -= 1
      }
    }
    _ = try providers.configured(params.provider)
    throw RPCError(.temporarilyUnavailable, "the configuration changes while it is checked", retryAfter: 5)
  }

  private func fresh(_ name: ProviderName) -> ProviderExaminer.Checked? {
    guard case .ended(let checked, let at) = runs[name], uptime - at < Self.pause else { return nil }
    return checked
  }

  private func begin(_ name: ProviderName) {
    if case .underWay = runs[name] { return }
    runs[name] = .underWay
    Task {
      let checked = await examiner.examine(name)
      if let checked, checked.isAnswered, examiner.isCurrent(checked, of: name) { engine.answers(checked.connection) }
      runs[name] = checked.map { .ended($0, at: uptime) }
      waiters.wake(.check(name))
    }
  }
}

extension ProviderExaminer {
  /// Without the accounts that the caller may not see.
  func view(_ checked: Checked, of name: ProviderName, for caller: Principal) -> ProviderCheck.Result {
    let seen = checked.checks.filter { check in
      check.account.map {
        authorizer.policy.allows(.observe, method: ProviderCheck.name, account: $0, caller: caller)
      } ?? true
    }
    return .init(provider: name.rawValue, checked_at: checked.at.seconds, checks: seen)
  }
}

extension ProviderCheck: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.upkeep.checks.check(call.params, caller: call.caller)
  }
}
