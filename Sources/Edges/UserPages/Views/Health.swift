import BrokerAPI
import HTTPServer
import NIOHTTP1
import Pages
import PlainText

/// How the broker and its providers are.
extension Ask {
  private static let mostProviders = 60
  /// Seconds.
  private static let patience = 20.0

  func health() async -> HTTPReply {
    switch await call(BrokerStatus.self, NoParams()) {
    case .failure(let error):
      guard error.reason == .notPermitted else { return page(.failed("Health", error, section: .health)) }
      return page(
        View(
          title: "Health", section: .health,
          main: Parts.empty(
            "No rule lets you see the broker", "\(words: Parts.sentence(error.nextStep ?? error.message))")))
    case .success(let status):
      let troubles = SystemProblems(status, now: now).html
      let providers = (try? await call(ProviderList.self, NoParams()).get().providers) ?? []
      let times = RefreshTimes((try? await call(BrokerMetrics.self, NoParams()).get().text) ?? "")
      let rows = providers.prefix(Self.mostProviders).map { row($0, status, times) }
      let table: HTML =
        rows.isEmpty
        ? Parts.empty(
          "No providers", "Add an account to add its provider.",
          "<a class=\"button main\" href=\"/add\">Add an account</a>")
        : """
        <div class="scroll" tabindex="0" role="region" aria-label="Providers"><table><caption class="hidden">Providers</caption>
        <thead><tr><th scope="col">Provider</th><th scope="col">State</th><th scope="col">Accounts</th>\
        <th scope="col">Refresh</th><th scope="col">Check</th></tr></thead><tbody>\(Array(rows))</tbody></table></div>

        """
      let count = AccountState.allCases.filter(\.isProblem).reduce(0) { $0 + (status.accounts[$1.rawValue] ?? 0) }
      let good: HTML =
        count > 0
        ? Parts.message(
          "warn", "\(PageText.count(count, "account")) with a problem", nil,
          "<p class=\"step\"><a href=\"/?problems=1\">Show \(count == 1 ? "it" : "them")</a></p>")
        : troubles.isEmpty ? "<div class=\"message good\"><p>Nothing needs your attention.</p></div>\n" : ""
      return page(
        View(
          title: "Health", section: .health,
          lead:
            "<p class=\"lead\">grantd \(status.version), running for \(TimeText.duration(now - status.started_at))</p>",
          main: """
            \(good)\(troubles)<h2>Broker</h2>\(await facts(status))<h2>Providers</h2>\(table)\
            <p class="soft">More checks, of the machine and the service: <code>grantctl doctor</code></p>

            """))
    }
  }

  /// When a method last succeeded, by the audit trail.
  private func latest(_ method: String, _ records: [AuditList.Line]) -> Int64? {
    records.first { $0.method == method && $0.result == "ok" }?.last
  }

  /// The addresses to which a browser returns after a sign-in.
  private func callbackPort(_ status: BrokerStatus.Result) -> String {
    guard status.callback.isEmpty else {
      return "\(status.callback.joined(separator: ", ")), of grantd (pid \(status.pid))"
    }
    let failed = status.listeners?.contains { $0.setting == "callback" && $0.state != "ok" } ?? false
    return failed ? "not available, see above" : "off"
  }

  private func clock(_ status: BrokerStatus.Result) -> String {
    let skews = status.provider_conditions?.compactMap(\.skew_seconds) ?? []
    guard let skew = skews.max(by: { abs($0) < abs($1) }) else { return "not compared with a provider's yet" }
    guard abs(skew) >= SystemProblems.noticedSkew else { return "as the providers'" }
    return "\(TimeText.duration(Int64(exactly: abs(skew).rounded()) ?? .max)) from a provider's"
  }

  private func facts(_ status: BrokerStatus.Result) async -> HTML {
    var facts: [(name: HTML, value: String)] = [
      ("Store", "\(status.store.path), \(status.store.state)"),
      ("Callback port", callbackPort(status)),
      (
        "Settings",
        "\(status.configuration.path ?? "built-in defaults"), read \(TimeText.ago(status.configuration.loaded_at, now: now))"
      ), ("Accounts", status.summary),
    ]
    // A call that is refused would be in the audit trail.
    if status.caller?.access[Access.manage.rawValue]?.contains("*") == true,
      case .success(let trail) = await call(AuditList.self, .init(action: .admin, limit: AuditList.mostRecords))
    {
      let backup = latest(StoreBackup.name, trail.records).map { TimeText.ago($0, now: now) }
      let key = latest(StoreRotateKey.name, trail.records).map { TimeText.duration(now - $0) }
      facts.append(("Last backup", backup ?? "none in the audit trail"))
      facts.append(("Key age", key ?? "no new key in the audit trail"))
    }
    facts.append(("Clock", clock(status)))
    for listener in status.listeners ?? [] {
      facts.append(("Listener", "\(listener.setting): \(listener.address), \(listener.state)"))
    }
    if let files = status.files, !files.isEmpty {
      let stale = files.count { $0.state != "ok" }
      facts.append(("Token files", "\(files.count), \(stale == 0 ? "all up to date" : "\(stale) not up to date")"))
    }
    let rows = facts.map { fact -> HTML in "<div><dt>\(fact.name)</dt><dd><bdi>\(fact.value)</bdi></dd></div>" }
    return "<div class=\"panel\"><dl>\(rows)</dl></div>\n"
  }

  private func row(_ provider: ProviderView, _ status: BrokerStatus.Result, _ times: RefreshTimes) -> HTML {
    let condition = status.provider_conditions?.first { $0.provider == provider.provider }
    let (tone, word): (HTML, HTML) =
      switch provider.state {
      case "ok": ("good", "OK")
      case "recovering": ("neutral", "Recovering")
      case "unreachable": ("warn", "Unreachable")
      case "suspended": ("bad", "Refuses this client")
      default: ("warn", "\(provider.state)")
      }
    let since: HTML = condition?.since.map { "<p>for \(TimeText.duration(now - $0))</p>" } ?? ""
    let error: HTML =
      provider.state == "ok" ? "" : provider.last_error.map { "<p><bdi>\(Parts.sentence($0))</bdi></p>" } ?? ""
    let rate: HTML =
      provider.refreshes_per_second.map { "<p>takes \(Int($0 * 60)) refreshes a minute</p>" } ?? ""
    return """
      <tr><th scope="row" class="long"><bdi>\(provider.display_name)</bdi><p><bdi>\(provider.provider)</bdi></p></th>\
      <td class="long">\(Parts.badge(tone, word))\(since)\(error)\(rate)</td><td>\(provider.accounts)</td><td class="nowrap">\(times.words(of: provider.provider))</td>\
      <td>\(form("/health", [("provider", provider.provider)], "<button aria-label=\"Check \(provider.provider)\">Check</button>"))</td></tr>

      """
  }

  func checkProvider() async -> HTTPReply {
    guard let provider = form["provider"] else { return page(.notFound, status: .badRequest) }
    switch await call(ProviderCheck.self, .init(provider: provider, timeout: Self.patience)) {
    case .failure(let error): return page(.failed("Not checked", error, section: .health), status: .conflict)
    case .success(let result):
      let rows = rows(result.checks.filter { $0.result != .ok } + result.checks.filter { $0.result == .ok })
      return page(
        View(
          title: "Checks of \(provider)", section: .health,
          main: """
            <div class="panel"><ul class="steps">\(rows)</ul></div>
            <p class="controls"><a class="button" href="/health">Health</a></p>

            """, said: "\(provider): \(result.ok ? "all checks passed" : "a check failed")", isStill: true))
    }
  }
}
