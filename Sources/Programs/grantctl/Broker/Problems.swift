import BrokerAPI
import PlainText

/// Problems beside the accounts' own errors: providers, the store, the clock, logins that end soon.
struct Problems {
  struct Problem: Equatable {
    var what: Cell
    /// More of it, and what to do.
    var notes: [String]
  }

  /// Seconds: a clock that is off by less is good.
  private static let noticedSkew = 5.0
  private static let indent = "    "

  private(set) var all: [Problem] = []

  init() {}

  init(_ status: BrokerStatus.Result, _ accounts: [AccountView], _ shell: Shell) {
    for condition in status.provider_conditions ?? [] { add(condition, shell) }
    add(skews: status.provider_conditions ?? [])
    if let clock = status.clock { all.append(.init(what: Cell(clock.message, .bad), notes: [clock.hint])) }
    add(status.store, shell)
    for warning in status.sharing?.warnings ?? [] {
      all.append(.init(what: Cell("shared database", .attention), notes: [warning]))
    }
    for row in status.set_aside ?? [] { add(row, shell) }
    for file in status.files ?? [] { add(file, shell) }
    for listener in status.listeners ?? [] { add(listener) }
    for account in accounts { add(account, shell) }
    let users = shell.terminal.users
    for index in all.indices {
      all[index].what = Cell(users.named(all[index].what.text), all[index].what.tone)
      all[index].notes = all[index].notes.map(users.named)
    }
  }

  private mutating func add(_ listener: BrokerStatus.ListenerView) {
    guard listener.state != "ok" else { return }
    let message = listener.message ?? "\(listener.setting) is not served"
    all.append(.init(what: Cell(message, .bad), notes: listener.hint.map { [$0] } ?? []))
  }

  private mutating func add(_ condition: BrokerStatus.ConditionView, _ shell: Shell) {
    let since = condition.since.map { " for \(TimeText.duration(shell.now - $0))" } ?? ""
    let retry = condition.retry_at.map { ", asked again \(TimeText.until($0, now: shell.now))" } ?? ""
    let error = condition.last_error.map { [$0] } ?? []
    let name = "provider \(condition.provider)"
    let doctor = "More: `\(shell.command("doctor \(condition.provider)"))`"
    switch condition.condition {
    case "ok": break
    case "unreachable":
      all.append(.init(what: Cell("\(name): unreachable\(since)\(retry)", .attention), notes: error + [doctor]))
    case "recovering":
      all.append(
        .init(what: Cell("\(name): answers again; refreshes begin one after the other", .attention), notes: []))
    case "suspended":
      all.append(.init(what: Cell("\(name): refuses this client\(since)\(retry)", .bad), notes: error + [doctor]))
    // A condition that only a newer broker reports.
    default: all.append(.init(what: Cell("\(name): \(condition.condition)\(since)\(retry)", .attention), notes: error))
    }
    guard condition.odd_answers?.contains(where: { $0.contains("access_token_lifetime") }) == true else { return }
    all.append(
      .init(
        what: Cell("\(name): does not state how long its access tokens live", .attention),
        notes: ["They are refreshed within an hour. Set access_token_lifetime in the section of the provider."]))
  }

  /// One line for all: it is this machine's clock, or several providers' would have to be wrong.
  private mutating func add(skews conditions: [BrokerStatus.ConditionView]) {
    let off = conditions.filter { abs($0.skew_seconds ?? 0) >= Self.noticedSkew }
    guard let worst = off.max(by: { abs($0.skew_seconds ?? 0) < abs($1.skew_seconds ?? 0) }),
      let skew = worst.skew_seconds
    else { return }
    let side = skew > 0 ? "ahead of" : "behind"
    let others = off.count > 1 ? " (and \(off.count - 1) other\(off.count > 2 ? "s" : "")'s)" : ""
    // Whole seconds; a hostile number must not trap.
    let seconds = Int64(exactly: abs(skew).rounded(.down)) ?? .max
    all.append(
      .init(
        what: Cell(
          "clock: this machine's is \(TimeText.duration(seconds)) \(side) that of provider \(worst.provider)\(others)",
          .attention),
        notes: ["Check timedatectl: is it synchronized? ID tokens are refused where the clocks are far apart."]))
  }

  private mutating func add(_ store: BrokerStatus.StoreView, _ shell: Shell) {
    guard store.state != "ok" else { return }
    let since = store.since.map { " for \(TimeText.duration(shell.now - $0))" } ?? ""
    let held = store.held_back.flatMap { $0 > 0 ? "; \($0) refresh\($0 == 1 ? " is" : "es are") held back" : nil } ?? ""
    let hint = store.hint.map { [shell.adapted($0)] } ?? []
    all.append(
      .init(
        what: Cell("store: \(store.state)\(since)\(held)", store.isWarning ? .attention : .bad),
        notes: (store.message.map { [$0] } ?? []) + hint))
  }

  mutating func add(_ row: BrokerStatus.SetAsideView, _ shell: Shell) {
    all.append(.init(what: Cell("row \(row.row) cannot be read", .bad), notes: [row.message, shell.adapted(row.hint)]))
  }

  private mutating func add(_ file: BrokerStatus.FileView, _ shell: Shell) {
    if file.isRestored(at: shell.now) {
      all.append(
        .init(
          what: Cell(file.restoration(shell.now), .attention), notes: [BrokerStatus.FileView.restorationHint]))
    }
    guard file.state != "ok" else { return }
    let since = file.since.map { " for \(TimeText.duration(shell.now - $0))" } ?? ""
    all.append(
      .init(
        what: Cell("token file \(file.path): \(file.state)\(since)", file.state == "stale" ? .attention : .bad),
        notes: [file.message, file.hint.map(shell.adapted)].compactMap(\.self)))
  }

  private mutating func add(_ account: AccountView, _ shell: Shell) {
    if let reports = account.reports, let latest = reports.max(by: { $0.at < $1.at }) {
      let others = reports.count > 1 ? " and \(reports.count - 1) more" : ""
      all.append(
        .init(
          what: Cell(
            "account \(account.account): its token was refused for \(latest.words(shell.terminal.users))\(others)",
            .attention),
          notes: ["They wait for the next one. More: `\(shell.command("show \(account.account)"))`"]))
    }
    if let lost = account.lost_scopes {
      all.append(
        .init(
          what: Cell("account \(account.account): lost the scopes \(lost.joined(separator: " ")) at a refresh", .bad),
          notes: ["More: `\(shell.command("doctor \(account.account)"))`"]))
    }
    if let required = account.required_scopes {
      let what = required.isEmpty ? "a new sign-in" : "the scope \(required.joined(separator: " "))"
      all.append(
        .init(
          what: Cell("account \(account.account): requests need \(what)", .attention),
          notes: ["`\(shell.command("login \(account.provider) \(account.account)"))`"]))
    }
    guard account.state != .loginRequired, account.refresh_expires_soon == true, let end = account.refresh_expires_at
    else { return }
    let login = "`\(shell.command("login \(account.provider) \(account.account)"))`"
    let when = end > shell.now ? "ends in \(TimeText.duration(end - shell.now))" : "should have ended"
    let source = account.refresh_expiry_learned == true ? ", as earlier ones did" : ""
    all.append(
      .init(what: Cell("account \(account.account): its login \(when)\(source)", .attention), notes: ["\(login)"]))
  }

  func lines(width: Int?, colour: Bool) -> [String] {
    let columns = max(24, (width ?? 80) - Self.indent.count)
    return all.flatMap { problem -> [String] in
      let first = SafeText.wrapped(problem.what.text, columns: max(24, width ?? 80))
      let notes = problem.notes.map(SafeText.line).flatMap { SafeText.wrapped($0, columns: columns) }
      return first.map { Cell($0, problem.what.tone).padded(to: 0, colour: colour) } + notes.map { Self.indent + $0 }
    }
  }
}

extension AccountView.Report {
  /// The caller, for people.
  func words(_ users: UserNames) -> String {
    let place = (user_unit ?? unit).map { " (\($0))" } ?? ""
    return (UInt32(exactly: uid).map { users($0) } ?? "uid \(uid)") + place
  }
}

extension Shell {
  func print(_ problems: Problems) {
    terminal.print("")
    terminal.print(problems.lines(width: terminal.width, colour: terminal.usesColour))
  }
}

extension BrokerStatus.FileView {
  static let restorationHint = "Find that program, or give it a path of its own: one file has one writer."

  /// Another program changed the file within the last hour.
  func isRestored(at now: Int64) -> Bool { restored_at.map { now - $0 < 3600 } ?? false }

  func restoration(_ now: Int64) -> String {
    let times = restored ?? 0
    let count = times == 1 ? "once" : "\(times) times"
    return "token file \(path): another program changed or deleted it \(count), last "
      + "\(restored_at.map { TimeText.ago($0, now: now) } ?? ""); it is written again each time"
  }
}

extension BrokerStatus.StoreView {
  /// Not `ok`, and no account is affected now.
  var isWarning: Bool { state == "slow" || state == "repaired" }
}
