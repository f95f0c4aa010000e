import BrokerAPI
import Grants
import OAuth
import Principals

// Rows on disk that cannot be read, each with the commands that repair, replace or remove it.
extension Views {
  /// The rows that the caller may see, at most ``Limit/setAside`` of accounts and of the rest; nil: none.
  func setAside(for caller: Principal) -> [BrokerStatus.SetAsideView]? {
    var views: [BrokerStatus.SetAsideView] = []
    for account in accounts.unreadable.sorted().prefix(Limit.setAside) {
      let isAllowed = door.authorizer.policy.allows(
        .observe, method: BrokerStatus.name, account: account.rawValue, caller: caller)
      if isAllowed, let view = accounts[account].flatMap(accounts.view(unreadable:)) { views.append(view) }
    }
    if door.authorizer.policy.allows(.manage, account: nil, caller: caller) {
      views += journal.setAside.prefix(Limit.setAside).map(view)
    }
    return views.isEmpty ? nil : views
  }

  func view(_ row: SetAsideRow) -> BrokerStatus.SetAsideView {
    let remove = "`grantctl repair \(row.name) --remove`"
    let message: String
    let hint: String
    switch row.table {
    case "registrations":
      let provider = row.provider?.rawValue ?? "PROVIDER"
      message = "the registration of provider \(provider) cannot be read: \(row.detail)"
      hint = "Register again with `grantctl provider register`, or remove the row with \(remove)."
    case "logins":
      message = "a pending login\(row.account.map { " of account \($0)" } ?? "") cannot be read: \(row.detail)"
      hint = "Start the login again; remove the row with \(remove)."
    case "revocations":
      message =
        "a token that is still to be revoked\(row.provider.map { " at provider \($0)" } ?? "") cannot be read: \(row.detail)"
      hint = "End the grant in the account's settings at the provider, then remove the row with \(remove)."
    case "grants":
      message = "an account whose name cannot be read is on disk: \(row.detail)"
      hint = "Sign in again to the account that is missing, then remove the row with \(remove)."
    default:
      message = row.detail
      hint = "Remove the row with \(remove)."
    }
    return .init(row: "\(row.name)", account: row.account?.rawValue, message: message, hint: hint)
  }

  /// The store, if damage was repaired since its start; nil: none was.
  var repairedView: BrokerStatus.StoreView? {
    let repairs = journal.store.repairs
    guard !repairs.isEmpty else { return nil }
    return .init(
      path: journal.store.location, state: "repaired", message: repairs.joined(separator: "; "),
      hint: "Check the disk: `dmesg`, smartctl. `grantctl list` shows the accounts, `grantctl repair` what is damaged. "
        + "This report ends with a restart.")
  }

  /// The store, if it is older than that of the last run.
  func olderView(_ lost: LostCommits) -> BrokerStatus.StoreView? {
    .init(
      path: journal.store.location, state: "older",
      message: "the database is older than the last one here: \(lost.count) commit\(lost.count == 1 ? "" : "s") are "
        + "missing, the last of \(lost.last.text)",
      hint: "Accounts whose refresh token was renewed since may need a login. If you have the newer state folder, stop "
        + "grantd and put it back. `grantctl list` shows accounts that are missing.",
      since: lost.last.seconds)
  }
}
