import Broker
import BrokerAPI
import HTTPServer
import NIOHTTP1
import OAuth
import Pages
import ProviderTemplates

/// The steps of `grantctl setup` up to the sign-in: each is shown as it ends, by an event or, without scripts, by a refresh.
extension Ask {
  /// How often, and how long, a view waits for steps that take no time.
  private static let glances = 6
  private static let glance = Duration.milliseconds(50)
  /// Seconds that the checks of a provider may take.
  private static let patience = 20.0

  /// Registers a client at the issuer, then checks the provider.
  func register(_ issuer: IssuerText, _ candidates: [ProviderRegister.Params]) -> HTTPReply {
    let run = ProviderRun(id: pages.token(), registering: issuer)
    guard begin(run, { await $0.register(run, issuer, candidates) }) else { return tooMany() }
    return .seeOther("/add?run=\(HTML.percentEncoded(run.id))")
  }

  func checked(_ provider: String) async -> HTTPReply {
    if let run = visit.runs.last(where: { $0.shows(provider, at: now) }) { return await shown(run) }
    let run = ProviderRun(id: pages.token(), checking: provider)
    guard begin(run, { await $0.check(run, provider) }) else { return tooMany() }
    return await shown(run)
  }

  func shownRun(_ id: String) async -> HTTPReply {
    guard let run = visit.runs.first(where: { $0.id == id }) else {
      return page(
        View(
          title: "Not found", section: .home,
          main: Parts.message(
            "neutral", "this page adds no such provider now", "Start it again.",
            "<p class=\"controls\"><a class=\"button\" href=\"/add\">Add an account</a></p>")), status: .notFound)
    }
    return await shown(run)
  }

  private func tooMany() -> HTTPReply {
    page(
      View(
        title: "Not added", section: .home,
        main: Parts.message(
          "warn", "\(ProviderRun.most) providers are being checked by this page", "Try again in some seconds."),
        isStill: true), status: .tooManyRequests)
  }

  // MARK: The steps

  /// False: too many run.
  private func begin(_ run: ProviderRun, _ steps: @escaping @Sendable (Ask) async -> Void) -> Bool {
    guard pages.remember(run, in: visit) else { return false }
    Task { [ask = outliving] in await steps(ask) }
    return true
  }

  private func register(_ run: ProviderRun, _ issuer: IssuerText, _ candidates: [ProviderRegister.Params]) async {
    var first: RPCError?
    for params in candidates {
      switch await call(ProviderRegister.self, params) {
      case .success(let added): return await check(run, added.provider)
      case .failure(let error):
        first = first ?? error
        // The same issuer may be written with or without a slash at its end.
        guard [.providerMisconfigured, .providerError].contains(error.reason) else {
          return end(run, .notRegistered(issuer, error))
        }
      }
    }
    if let first { end(run, .notRegistered(issuer, first)) }
  }

  private func check(_ run: ProviderRun, _ provider: String) async {
    begins(run, .checks, provider)
    switch await call(ProviderCheck.self, .init(provider: provider, timeout: Self.patience)) {
    case .failure(let error): end(run, .notChecked(error))
    case .success(let checks):
      guard checks.ok else { return end(run, .checked(checks.checks, nil)) }
      begins(run, .request, provider)
      let probe = await call(LoginProbe.self, .init(provider: provider))
      end(run, .checked(checks.checks, try? probe.get()))
    }
  }

  private func begins(_ run: ProviderRun, _ step: ProviderRun.Step, _ provider: String) {
    run.begins(step, provider: provider)
    pages.changed(visit)
  }

  private func end(_ run: ProviderRun, _ end: ProviderRun.End) {
    run.ends(end, at: pages.system.now().seconds)
    pages.changed(visit)
  }

  // MARK: The views

  private func shown(_ run: ProviderRun) async -> HTTPReply {
    for _ in 0..<Self.glances where !run.hasEnded { await pages.system.sleep(Self.glance) }
    let state = run.state
    switch state.end?.0 {
    case nil: return page(running(run, state))
    case .notRegistered(let issuer, let error)?: return page(await notAdded(issuer, error))
    case .notChecked(let error)?: return page(.failed("Provider \(state.provider ?? "")", error, section: .home))
    case .checked(let checks, let probe)?: return page(result(state.provider ?? "", checks, probe))
    }
  }

  private func running(_ run: ProviderRun, _ state: ProviderRun.State) -> View {
    let name = run.issuer?.host ?? state.provider ?? ""
    let steps = ProviderRun.Step.allCases.filter { $0 != .registration || run.issuer != nil }.map { step -> HTML in
      let (tone, word): (HTML, HTML) =
        step.rawValue < state.step.rawValue
        ? ("good", "OK") : step == state.step ? ("neutral", "Running") : ("", "Waits")
      let (title, text): (HTML, HTML) =
        switch step {
        case .registration: ("Registration", "Reads the metadata of the provider, and registers a client.")
        case .checks: ("Checks", "Compares the answers of the provider with the settings.")
        case .request: ("Sign-in request", "Tries the request without a user.")
        }
      return "<li><span class=\"name\">\(title)</span>\(Parts.badge(tone, word))<p class=\"soft\">\(text)</p></li>\n"
    }
    return View(
      title: run.issuer == nil ? "Check \(name)" : "Add \(name)", section: .home,
      lead: "<p class=\"lead\">A provider that does not answer is given up after some seconds.</p>",
      main: """
        <div class="panel narrow"><ul class="steps">\(steps)</ul>
        <p class="controls"><a class="button" href="/add">Add another account</a></p></div>

        """, said: "Step \(state.step.rawValue + 1)", reload: 1)
  }

  private func result(
    _ provider: String, _ checks: [ProviderCheck.Check], _ probe: LoginProbe.Result?
  ) -> View {
    let found = checks.filter { $0.account == nil && $0.result != .skipped }
    var rows = self.rows(found.filter { $0.result != .ok })
    if let probe { rows.append(row("Sign-in request", probe.result, probe.message, probe.hint)) }
    let passed = found.filter { $0.result == .ok }
    let folded: HTML =
      "<details><summary>\(PageText.count(passed.count, "check")) passed</summary><ul class=\"steps\">\(self.rows(passed))</ul></details>"
    return View(
      title: "Sign in at \(provider)", section: .home,
      main: """
        <div class="panels"><div class="panel"><h2>Sign in</h2>\(start(provider))</div>
        <div class="panel"><h2>Checks</h2><ul class="steps">\(rows)</ul>\(folded)</div></div>

        """, said: "Checked", isStill: true)
  }
}
