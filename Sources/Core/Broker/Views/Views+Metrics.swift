import BrokerAPI
import Grants
import OAuth

// The numbers of the broker. Per provider, never per account: accounts are many, and their names are people's own.
extension Views {
  /// Everything that is counted, as OpenMetrics 1.0 text.
  nonisolated func metricsText() async -> String {
    let (own, others) = await metricFamilies()
    // Beside the broker: neither the others nor the writing hold it up.
    return OpenMetrics.text(own + others())
  }

  private func metricFamilies() -> ([MetricFamily], @Sendable () -> [MetricFamily]) {
    (
      processFamilies() + accountFamilies() + refreshFamilies() + providerFamilies() + storeFamilies()
        + requestFamilies() + remainingFamilies(), measures.edges.metrics
    )
  }

  private func processFamilies() -> [MetricFamily] {
    var build = MetricFamily(.info, "grantd_build", "The version of the broker.")
    build.add(1, ["version": identity.version, "instance": door.authorizer.policy.instance.rawValue])
    var start = MetricFamily(
      .gauge, "process_start_time_seconds", unit: "seconds", "When the broker started, since 1970.")
    start.add(Double(startedAt.milliseconds) / 1000)
    return [build, start]
  }

  private func accountFamilies() -> [MetricFamily] {
    var states = MetricFamily(.gauge, "grantd_accounts", "Accounts by provider and state.")
    var ends = MetricFamily(
      .gauge, "grantd_refresh_token_remaining_seconds", unit: "seconds",
      "Until the first refresh token of the provider ends, where that is known.")
    var counts = accounts.stateCounts(overdue: engine.restingCount)
    for name in providers.names where counts[name] == nil { counts[name] = [:] }
    for (name, counts) in counts.sorted(by: { $0.key < $1.key }) {
      for state in AccountState.allCases {
        states.add(counts[state, default: 0], ["provider": name.rawValue, "state": state.rawValue])
      }
      if let end = engine.firstRefreshTokenEnd(at: name) { ends.add(end - now, ["provider": name.rawValue]) }
    }
    return [states, ends]
  }

  private func refreshFamilies() -> [MetricFamily] {
    var refreshes = MetricFamily(.counter, "grantd_refreshes", "Refreshes that ended, by outcome.")
    var durations = MetricFamily(
      .histogram, "grantd_refresh_duration_seconds", unit: "seconds",
      "From the begin of a refresh until it ended, its commit included.")
    var logins = MetricFamily(.counter, "grantd_logins", "Logins that ended, by outcome.")
    var outages = MetricFamily(
      .counter, "grantd_provider_outages", "How often a provider stopped to answer.")
    var lost = MetricFamily(
      .counter, "grantd_lost_grants", "Grants that ended, so that the user must sign in again, by reason.")
    for name in Set(providers.names).union(measures.providers.keys).sorted() {
      let counted = measures.providers[name] ?? Metrics.Provider()
      for outcome in RefreshOutcome.allCases {
        refreshes.add(
          counted.refreshes[outcome, default: 0], ["provider": name.rawValue, "outcome": outcome.rawValue])
      }
      durations.add(counted.refreshDuration, ["provider": name.rawValue])
      logins.add(counted.loginsCompleted, ["provider": name.rawValue, "outcome": "completed"])
      logins.add(counted.loginsFailed, ["provider": name.rawValue, "outcome": "failed"])
      outages.add(counted.unreachable, ["provider": name.rawValue])
      for reason in LoginReason.allCases {
        lost.add(counted.ended[reason, default: 0], ["provider": name.rawValue, "reason": reason.rawValue])
      }
    }
    return [refreshes, durations, logins, outages, lost]
  }

  private func providerFamilies() -> [MetricFamily] {
    var inFlight = MetricFamily(.gauge, "grantd_provider_refreshes_in_flight", "Refreshes under way.")
    var queued = MetricFamily(
      .gauge, "grantd_provider_refreshes_queued", "Refreshes that callers wait for and that have not begun.")
    var condition = MetricFamily(.stateset, "grantd_provider_condition", "Whether the provider can be asked.")
    var skew = MetricFamily(
      .gauge, "grantd_provider_clock_skew_seconds", unit: "seconds",
      "How far this machine's clock is ahead of the provider's, where that is known.")
    for connection in providers.sorted {
      let name = connection.provider.name
      inFlight.add(connection.gate.inFlight, ["provider": name.rawValue])
      queued.add(engine.wantedCount(at: name), ["provider": name.rawValue])
      condition.add(
        state: connection.condition.word, of: ProviderCondition.words, ["provider": name.rawValue])
      if let offset = connection.observed.skew?.offset { skew.add(offset, ["provider": name.rawValue]) }
    }
    return [inFlight, queued, condition, skew]
  }

  private func storeFamilies() -> [MetricFamily] {
    var ok = MetricFamily(.gauge, "grantd_store_ok", "1 while the state can be written, 0 while it cannot.")
    ok.add(journal.failure == nil ? 1 : 0)
    var commits = MetricFamily(.counter, "grantd_store_commits", "Changes of the state that are on disk.")
    commits.add(measures.commits)
    var failed = MetricFamily(
      .counter, "grantd_store_failed_commits", "Changes of the state that could not be written.")
    failed.add(measures.failedCommits)
    var durations = MetricFamily(
      .histogram, "grantd_store_commit_duration_seconds", unit: "seconds",
      "From a change to its being on disk, or to its failure.")
    durations.add(measures.commitDuration)
    return [ok, commits, failed, durations]
  }

  private func requestFamilies() -> [MetricFamily] {
    let served = accounts.cache.served
    var cached = MetricFamily(
      .counter, "grantd_cached_tokens_served", "Requests for a token that were answered from memory at once.")
    cached.add(served)
    var counts = door.requests.all
    if served > 0 { counts[.init(method: TokenGet.name, result: RequestTally.ok), default: 0] += served }
    var answered = MetricFamily(
      .counter, "grantd_requests",
      "Requests on the socket, by method and result: ok, or the reason of the error. Tokens from memory are among them."
    )
    for (key, count) in counts.sorted(by: { $0.key < $1.key }) {
      answered.add(count, ["method": key.method, "result": key.result])
    }
    return [answered, cached]
  }

  private func remainingFamilies() -> [MetricFamily] {
    var pending = MetricFamily(.gauge, "grantd_pending_logins", "Logins that wait for the user.")
    pending.add(logins.unendedCount)
    var revoking = MetricFamily(
      .gauge, "grantd_pending_revocations", "Revocations waiting to be sent.")
    revoking.add(revocations.count)
    var subscribed = MetricFamily(.gauge, "grantd_event_subscriptions", "Connections that events are sent to.")
    subscribed.add(runtime.events.count)
    var dropped = MetricFamily(
      .counter, "grantd_events_dropped", "Events that a connection was too slow to take, and which ended it.")
    dropped.add(measures.eventsDropped)
    return [pending, revoking, subscribed, dropped]
  }
}

extension ProviderCondition {
  /// Every ``word``.
  static let words = ["ok", "recovering", "unreachable", "suspended"]

  /// As metrics name it.
  var word: String {
    switch self {
    case .ok: "ok"
    case .recovering: "recovering"
    case .unreachable: "unreachable"
    case .suspended: "suspended"
    }
  }
}

extension BrokerMetrics: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    .init(text: await broker.reports.views.metricsText(), content_type: OpenMetrics.contentType)
  }
}
