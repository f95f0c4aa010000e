public import BrokerAPI
import Grants
public import Principals

// The broker's part of a reload, which the ``Reloader`` runs.
extension Broker {
  /// Reads the configuration again; an invalid one changes nothing.
  ///
  /// - Parameter caller: nil: a signal.
  public func reload(for caller: Principal? = nil) async throws(RPCError) -> BrokerReload.Result {
    try await upkeep.reloading.reloader.reload(self, for: caller)
  }

  /// The configuration is invalid, or a listener's new port is not available.
  public func reloadFailed(_ error: RPCError, for caller: Principal?) { door.audit.reloadFailed(for: caller, error) }

  /// Work before a reload, interleaved with other work; it changes nothing.
  public func prepare(_ new: BrokerConfiguration) async {
    await upkeep.declared.prepare(new.accounts, at: new.providers)
  }

  /// Applies a configuration that was read and checked, without a wait: a permission that was taken away must not last
  /// as long as a slow disk or listener.
  ///
  /// - Returns: warnings for the administrator.
  public func enforce(_ new: BrokerConfiguration, for caller: Principal?) -> [String] {
    upkeep.reloading.configure(new, for: caller)
    let before = Set(providers.names)
    clients.registrations.configure(new.providers, declared: new.accounts)
    providers.configure(
      new.providers + clients.registrations.registered, refreshesAtOnce: new.refresh.concurrentPerProvider)
    if accounts.configure(new.refresh) { engine.rescheduleAll(accounts.names) }
    upkeep.declared.configure(new.accounts)
    accounts.cache.configure(new.refresh)
    door.authorizer.configure(new.policy, new.callerLimits)
    tokens.credentials.configure(new.credentials)
    tokens.files.configure(new.files)
    tokens.approvals.policyChanged()
    upkeep.backups.policyChanged()
    accounts.serveAnew()
    accounts.retryFailing()
    runtime.waiters.wakeAccounts()
    runtime.lifecycle.wakeScheduler()
    runtime.summary.changed()
    return before.subtracting(providers.names).sorted().compactMap(removal)
  }

  /// A warning if accounts of a removed provider remain.
  private func removal(of provider: ProviderName) -> String? {
    let count = accounts.count(at: provider)
    guard count > 0 else { return nil }
    let named = accounts.names(at: provider).after(nil, most: Limit.namedAccounts).map(\.rawValue)
    let rest = count > named.count ? " and \(count - named.count) more" : ""
    return "provider \(provider) is no longer configured, but accounts use it: "
      + "\(named.joined(separator: ", "))\(rest). "
      + "They get no tokens until it is back; `grantctl logout ACCOUNT` removes an account"
  }

  /// The parts that depend on the edges, or have to be written. The last step of a reload.
  public func finishReload(_ new: BrokerConfiguration, _ edges: ReloadedEdges) async -> BrokerReload.Result {
    clients.addresses.configure(publicOrigin: edges.publicOrigin)
    clients.resources.configure(clientMetadata: new.clientMetadata)
    tokens.calls.stepUp = new.stepUp
    await upkeep.declared.apply()
    return upkeep.reloading.finish(new, edges)
  }
}
