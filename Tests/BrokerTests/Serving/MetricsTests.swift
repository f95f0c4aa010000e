import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct MetricsTests {
  private func scrape(_ rig: Rig) async throws -> OpenMetricsText {
    let result = try await rig.call(BrokerMetrics.self, NoParams())
    #expect(result.content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8")
    return try OpenMetricsText(result.text)
  }

  @Test("the answer is valid OpenMetrics, even before any event")
  func grammar() async throws {
    let empty = try await scrape(try await Rig(configuration: .plain([])))
    #expect(empty.value("grantd_build_info", ["version": "0", "instance": "system"]) == 1)
    #expect(empty.value("grantd_store_ok") == 1)
    #expect(empty.value("process_start_time_seconds") == Double(ManualClock.start.milliseconds) / 1000)
    let store = MemoryStore()
    try await store.signIn("work")
    let metrics = try await scrape(try await Rig(store: store))
    #expect(metrics.family("grantd_refresh_duration_seconds")?.unit == "seconds")
    #expect(metrics.family("grantd_provider_condition")?.type == "stateset")
  }

  @Test("accounts are counted by provider and state, and never named")
  func accounts() async throws {
    let store = MemoryStore()
    try await store.signIn("secret-name-1")
    try await store.signIn("secret-name-2")
    try await store.signIn(
      "secret-name-3", standing: .loginRequired(.refused, FailureRecord(message: "no", at: ManualClock.start)))
    let rig = try await Rig(
      store: store, configuration: .plain([OAuthProvider(.plain()), OAuthProvider(.plain("other"))]))
    let metrics = try await scrape(rig)
    #expect(metrics.value("grantd_accounts", ["provider": "example", "state": "ok"]) == 2)
    #expect(metrics.value("grantd_accounts", ["provider": "example", "state": "login_required"]) == 1)
    #expect(metrics.value("grantd_accounts", ["provider": "other", "state": "ok"]) == 0)
    let text = await rig.broker.metricsText()
    for secret in ["secret-name", "-a1", "-r1"] { #expect(!text.contains(secret)) }
  }

  @Test("refreshes are counted by their outcome, with how long they took")
  func refreshes() async throws {
    let rig = try await Rig(store: .expired("work"))
    _ = try await rig.token("work")
    #expect(
      await eventually {
        let metrics = try? await scrape(rig)
        return metrics?.value("grantd_refreshes_total", ["provider": "example", "outcome": "success"]) == 1
          && metrics?.value("grantd_refresh_duration_seconds_count", ["provider": "example"]) == 1
      })
    let metrics = try await scrape(rig)
    #expect((metrics.value("grantd_store_commits_total") ?? 0) >= 2)
    #expect(metrics.value("grantd_store_failed_commits_total") == 0)
  }

  @Test("requests are counted by method and result, cached ones among them, and unknown methods under one name")
  func requests() async throws {
    let store = MemoryStore()
    try await store.signIn("work")
    let rig = try await Rig(store: store)
    for _ in 1...3 { #expect(rig.cached("work") != nil) }
    #expect(rig.cached("nobody") == nil)
    #expect(rig.cached("work", as: .user(5)) == nil)
    _ = try await rig.token("work")
    _ = try? await rig.call(TokenGet.self, .init(account: "nobody"))
    _ = try? await rig.call(TokenGet.self, .init(account: "work"), as: .user(5))
    for name in ["a.b", "c\"d{}\n", String(repeating: "x", count: 500)] {
      _ = await rig.router.respond(
        to: RPCRequest(method: name, params: nil, isNotification: false), session: FakeSession(.root))
    }
    let metrics = try await scrape(rig)
    #expect(metrics.value("grantd_cached_tokens_served_total") == 3)
    #expect(metrics.value("grantd_requests_total", ["method": "token.get", "result": "ok"]) == 4)
    #expect(metrics.value("grantd_requests_total", ["method": "token.get", "result": "unknown_account"]) == 1)
    #expect(metrics.value("grantd_requests_total", ["method": "token.get", "result": "not_permitted"]) == 1)
    #expect(metrics.value("grantd_requests_total", ["method": "unknown", "result": "method_not_found"]) == 3)
    #expect(metrics.family("grantd_requests")?.samples.count == 4)
  }

  @Test("a subscriber that is too slow for its events is counted")
  func dropped() async throws {
    let rig = try await Rig()
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(), on: session)
    #expect(try await scrape(rig).value("grantd_event_subscriptions") == 1)
    session.close()
    await rig.broker.runtime.events.emit(Event(type: .configurationReloaded, at: 1))
    await rig.broker.runtime.events.emit(Event(type: .configurationReloaded, at: 1))
    let metrics = try await scrape(rig)
    #expect((metrics.value("grantd_events_dropped_total") ?? 9) <= 1)
    #expect(metrics.value("grantd_event_subscriptions") == 0)
  }

  @Test("other parts of the daemon add their metrics")
  func around() async throws {
    var edges = Broker.Edges()
    edges.metrics = {
      var family = MetricFamily(.gauge, "outside", "Has \"quotes\",\na line and a \\.")
      family.add(1.5, ["label": "a \"b\"\\\nc"])
      return [family]
    }
    let metrics = try await scrape(try await Rig(edges: edges))
    #expect(metrics.family("outside")?.help == "Has \"quotes\",\na line and a \\.")
    #expect(metrics.value("outside", ["label": "a \"b\"\\\nc"]) == 1.5)
  }

  @Test("a caller needs to be allowed to observe")
  func access() async throws {
    let rules = [Rule(name: "r", uid: 5, gid: nil, accounts: ["*"], access: [.observe])]
    let rig = try await Rig(configuration: .plain(rules: rules))
    _ = try await rig.call(BrokerMetrics.self, NoParams(), as: .user(5))
    #expect(await rig.reason { try await rig.call(BrokerMetrics.self, NoParams(), as: .user(6)) } == .notPermitted)
  }

  @Test("a histogram counts each time in one bucket, and those below zero as none")
  func histogram() throws {
    var histogram = Histogram(bounds: [.milliseconds(500), .seconds(1)])
    for time in [Duration.milliseconds(500), .milliseconds(501), .seconds(1), .seconds(9), .seconds(-5)] {
      histogram.observe(time)
    }
    var family = MetricFamily(.histogram, "a_seconds", unit: "seconds", "Times.")
    family.add(histogram)
    let metrics = try OpenMetricsText(OpenMetrics.text([family]))
    #expect(
      metrics.family("a_seconds")?.samples.map(\.value) == [2, 4, 5, 5, 11.001])
    for bounds in [Metrics.refreshBuckets, Metrics.commitBuckets] {
      var family = MetricFamily(.histogram, "a", "Times.")
      family.add(Histogram(bounds: bounds))
      _ = try OpenMetricsText(OpenMetrics.text([family]))
    }
  }

  @Test(
    "the reader of this test is strict",
    arguments: [
      "", "# TYPE a gauge\n# HELP a b\na 1\n", "# TYPE a gauge\n# HELP a b\na 1\n# EOF", "a 1\n# EOF\n",
      "# TYPE a counter\n# HELP a b\na 1\n# EOF\n", "# TYPE a gauge\n# HELP a b\na{b=\"c} 1\n# EOF\n",
      "# TYPE a gauge\n# HELP a b\na 1\na 2\n# EOF\n", "# TYPE a gauge\n# UNIT a seconds\n# HELP a b\na 1\n# EOF\n",
      "# TYPE a gauge\n# HELP a \"b\n# EOF\n", "# TYPE a gauge\n# HELP a b\na one\n# EOF\n",
      "# TYPE a gauge\n# HELP a b\n\n# EOF\n", "# TYPE a gauge\n# HELP a b\na{b=\"c\",b=\"d\"} 1\n# EOF\n",
      "# TYPE a gauge\n# HELP a b\na 1\n# TYPE b gauge\n# HELP b b\nb 1\n# TYPE a gauge\n# EOF\n",
      "# TYPE a histogram\n# HELP a b\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 1\na_count 1\na_sum 1\n# EOF\n",
      "# TYPE a histogram\n# HELP a b\na_bucket{le=\"+Inf\"} 2\na_count 1\na_sum 1\n# EOF\n",
    ])
  func strict(_ text: String) {
    #expect(throws: OpenMetricsText.Bad.self) { try OpenMetricsText(text) }
  }
}
