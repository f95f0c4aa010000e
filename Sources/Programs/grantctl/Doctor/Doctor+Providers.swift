import AsyncClient
import BrokerAPI
import PlainText

extension Doctor {
  mutating func examineProviders(only name: String?, on client: SocketClient) async throws(Failure) {
    let views = try await shell.ask(ProviderList.self, NoParams(), on: client).value().providers
    var providers = views.map(\.provider)
    var accounts = try await shell.accounts(.init(), on: client).value().accounts
    if let name {
      let isProvider = providers.contains(name)
      accounts = accounts.filter { isProvider ? $0.provider == name : $0.account == name }
      guard isProvider || !accounts.isEmpty else {
        throw Failure(
          .unknownName, "no provider and no account is called \(name)",
          hints: ["`grantctl provider list` and `grantctl list` print the names."])
      }
      providers = isProvider ? [name] : providers.filter { $0 == accounts.first?.provider }
    }
    if providers.isEmpty, name == nil {
      report.groups[0].items.append(
        .init(
          "providers", .warning, "none is configured",
          hint: "`grantctl setup` adds one, or a [provider.NAME] section and `grantctl reload`."))
    } else if accounts.isEmpty, name == nil {
      report.groups[0].items.append(
        .init("accounts", .skipped, "there are none yet: `\(shell.command("login PROVIDER ACCOUNT"))`"))
    }
    let hosts = Dictionary(views.map { ($0.provider, $0.host ?? $0.provider) }) { first, _ in first }
    let activity = Activity("Asking the providers", on: shell.terminal)
    if !shell.isJSON { activity.begin() }
    let checks = await checked(providers, hosts, activity, on: client)
    activity.end()
    for provider in providers {
      guard let result = checks[provider] else { continue }
      report.groups.append(.init(subject: .provider(provider), items: providerItems(result)))
      for account in accounts where account.provider == provider { append(account, result) }
    }
    for account in accounts where !providers.contains(account.provider) { append(account, nil) }
  }

  private typealias Checked = Result<ProviderCheck.Result, Failure>

  /// Several at once: each may take as long as its provider does.
  private func checked(
    _ providers: [String], _ hosts: [String: String], _ activity: Activity, on client: SocketClient
  ) async -> [String: Checked] {
    let shell = self.shell
    let timeout = shell.settings.timeout ?? Self.checkTimeout
    @Sendable func check(_ provider: String) async -> Checked {
      do throws(Failure) {
        let params = ProviderCheck.Params(provider: provider, timeout: timeout)
        return .success(try await shell.ask(ProviderCheck.self, params, on: client).value())
      } catch {
        return .failure(error)
      }
    }
    return await withTaskGroup(of: (String, Checked).self) { group in
      var waiting = providers[...]
      var results: [String: Checked] = [:]
      func show() {
        let unanswered = providers.filter { results[$0] == nil }.map { hosts[$0] ?? $0 }
        activity.update("Asking \(unanswered.prefix(3).joined(separator: ", "))")
      }
      show()
      for provider in waiting.prefix(Self.checksAtOnce) { group.addTask { (provider, await check(provider)) } }
      waiting = waiting.dropFirst(Self.checksAtOnce)
      for await (provider, result) in group {
        results[provider] = result
        show()
        if let next = waiting.popFirst() { group.addTask { (next, await check(next)) } }
      }
      return results
    }
  }

  private func providerItems(_ result: Checked) -> [DoctorReport.Item] {
    switch result {
    case .success(let result):
      return result.checks.filter { $0.account == nil }.map(DoctorReport.Item.init)
    case .failure(let failure):
      return [.init("check", .failed, failure.message, hint: failure.hints.joined(separator: "\n"))]
    }
  }

  private mutating func append(_ account: AccountView, _ result: Checked?) {
    var items = [state(account)]
    items += (account.reports ?? []).map { report in
      .init(
        "reports", .warning,
        "\(report.words(shell.terminal.users)) reported its token \(TimeText.ago(report.at, now: shell.now)), and waits for the next one",
        hint: "See why a server refuses it there: its scopes, its audience, the clock. Others are served.")
    }
    if case .success(let result) = result {
      // The account's state reports a grant that has ended.
      let isEnded = account.state == .loginRequired
      items += result.checks.filter { $0.account == account.account && !(isEnded && $0.name == .refresh_token) }
        .map(DoctorReport.Item.init)
    }
    report.groups.append(
      .init(subject: .account(account.account, provider: account.provider), items: items))
  }

  private func state(_ account: AccountView) -> DoctorReport.Item {
    var times: [String] = []
    if let at = account.expires_at {
      times.append(
        at > shell.now
          ? "the token ends in \(TimeText.duration(at - shell.now))"
          : "the token ended \(TimeText.ago(at, now: shell.now))")
    }
    if let at = account.next_refresh_at, account.state != .loginRequired {
      times.append("next refresh \(TimeText.until(at, now: shell.now))")
    }
    let text = ([account.state.cell.text] + times).joined(separator: ", ")
    let result: CheckResult =
      switch account.state {
      case .ok, .refreshing: .ok
      case .degraded: .warning
      case .loginRequired, .actionRequired: .failed
      }
    guard result != .ok else { return .init("state", .ok, text) }
    let error = account.last_error
    let why = error.map { ": \($0.message) (\(TimeText.ago($0.at, now: shell.now)))" } ?? ""
    return .init("state", result, text + why, hint: error?.hint ?? "`grantctl show \(account.account)` has more.")
  }
}

extension DoctorReport.Item {
  init(_ check: ProviderCheck.Check) {
    self.init(check.name.rawValue, check.result, check.message, hint: check.hint)
  }
}
