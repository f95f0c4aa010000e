import BrokerAPI

extension AccountState {
  var cell: Cell {
    switch self {
    case .ok: Cell("ok", .good)
    case .refreshing: Cell("refreshing", .attention)
    case .degraded: Cell("degraded", .attention)
    case .loginRequired: Cell("login required", .bad)
    case .actionRequired: Cell("action required", .bad)
    }
  }
}

extension AccountView.Identity {
  /// The name that a person knows best.
  var bestName: String { email ?? username ?? name ?? subject }
}

extension Shell {
  /// What went wrong with an account and what to do, for the lines below it.
  func notes(_ error: AccountView.LastError?) -> [String] {
    guard let error else { return [] }
    let when = TimeText.ago(error.at, now: now)
    return ["\(error.message) (\(when))", adapted(error.hint)].filter { !$0.isEmpty }
  }

  /// What to do where there is no account.
  func sayNoAccounts() {
    terminal.say("No accounts yet. Sign in with: \(command("login PROVIDER ACCOUNT"))")
    terminal.say("The providers: \(command("providers"))")
  }
}
