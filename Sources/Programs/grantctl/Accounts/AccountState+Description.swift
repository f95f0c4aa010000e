import BrokerAPI
import PlainText

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

extension FieldList {
  /// What each step of a logout, or of the end of a registration, came to. One of a newer broker is said as it came.
  init(_ steps: [AccountLogout.Step], forgotten: String) {
    for step in steps {
      let name =
        switch step.step {
        case "revoke_refresh_token": "Revoke the refresh token"
        case "revoke_access_token": "Revoke the access token"
        case "revoke_session": "Sign out at the provider"
        case "end_session": "End the session"
        case "delete_registration": "Delete the registration"
        case "forget": "Forget the \(forgotten)"
        default: step.step
        }
      let result =
        switch step.result {
        // Only a person's browser can do that.
        case "opened": "in the browser"
        case "queued": "not yet, it is tried again by itself"
        case "unsupported": "the provider cannot do that"
        default: step.result
        }
      add(name, result + (step.message.map { ": \($0)" } ?? ""), step.result == "refused" ? .bad : .plain)
    }
  }
}

extension Shell {
  /// What went wrong with an account and what to do, for the lines below it.
  func notes(_ error: AccountView.LastError?) -> [String] {
    guard let error else { return [] }
    let when = TimeText.ago(error.at, now: now)
    let rule = error.rotation.map { "; the provider's refresh tokens: rotation = \"\($0)\"" } ?? ""
    let end = error.detail.map { "the grant has ended: \($0.replacing("_", with: " "))\(rule)" } ?? ""
    return ["\(error.message) (\(when))", end, adapted(error.hint)].map(terminal.users.named).filter { !$0.isEmpty }
  }

  /// The next steps if there is no account.
  func printNoAccounts(providers: Int) {
    terminal.print("No accounts yet. Step by step:", command: command("setup"))
    guard providers > 0 else { return }
    terminal.print("At a provider that exists:", command: command("login PROVIDER ACCOUNT"))
    terminal.print("The providers:", command: command("provider list"))
  }
}
