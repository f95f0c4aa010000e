import ArgumentParser
import AsyncClient
import BrokerAPI
import PlainText

struct StatusCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "status", abstract: "Show the broker, its accounts and problems.",
    usage: "grantctl status [options]",
    discussion: """
      Accounts with a problem come first, each with its error and a hint. More than ten accounts without a problem are \
      one line. Unavailable providers and expiring logins are listed last. `grantctl doctor` checks more.

      Examples:
        $ grantctl status
        grantd 0.1.0, user instance, pid 812, running for 3 h: 1 ok, 1 needs login
        …
        ACCOUNT  STATE           EXPIRES IN  NEXT REFRESH
        work     login required  59 min      -
            Sign in again with `grantctl login google work`.
        play     ok              48 min      in 38 min
        grantctl status --state login_required
        grantctl status --wide --system
      """)

  @Option(help: ArgumentHelp("Only accounts in this state: \(Self.states).", valueName: "state"))
  var state: String?
  @Option(help: ArgumentHelp("Only accounts at this provider.", valueName: "name"))
  var provider: String?
  @Flag(help: "List every account, and shorten no name.")
  var wide = false
  @OptionGroup var options: GlobalOptions

  private static let states = AccountState.allCases.map(\.rawValue).joined(separator: ", ")
  /// More accounts without a problem are one line.
  private static let mostOK = 10

  func validate() throws {
    if let state, AccountState(rawValue: state) == nil {
      throw ValidationError("--state is one of: \(Self.states).")
    }
  }

  func run(in shell: Shell) async throws(Failure) {
    let client = try await connect(shell)
    let answer = try await shell.ask(BrokerStatus.self, NoParams(), on: client)
    if shell.isJSON { return shell.print(answer.json) }
    let status = try answer.value()
    if status.state == "locked" {
      shell.terminal.print(Self.head(status, now: shell.now))
      return shell.terminal.printWhole("  Unlock it: \(shell.command("unlock"))")
    }
    let accounts = try await shell.accounts(.init(), on: client).value().accounts
    var fields = Self.fields(status, shell)
    if let count = await pendingApprovals(status, shell, client) {
      fields.add("  approvals", "\(count) pending: \(shell.command("approve"))", .attention)
    }
    let columns = wide ? nil : shell.terminal.width
    let head = Self.head(status, now: shell.now)
    shell.terminal.print(columns.map { SafeText.wrapped(head, columns: $0) } ?? [head])
    shell.terminal.print(fields.lines(within: columns, colour: shell.terminal.usesColour))
    shell.terminal.print("")
    if accounts.isEmpty { shell.printNoAccounts(providers: status.providers) } else { show(accounts, status, shell) }
    let problems = Problems(status, accounts, shell)
    if !problems.all.isEmpty { shell.print(problems) }
  }

  /// Problems first. Many accounts without a problem are one line, unless they were asked for.
  private func show(_ accounts: [AccountView], _ status: BrokerStatus.Result, _ shell: Shell) {
    var shown = accounts.filter { account in
      (state == nil || account.state.rawValue == state) && (provider == nil || account.provider == provider)
    }
    guard !shown.isEmpty else { return shell.terminal.print("No account matches.") }
    let good = shown.filter { !$0.state.isProblem }
    let isFolded = !wide && state == nil && good.count > Self.mostOK
    if isFolded { shown.removeAll { !$0.state.isProblem } }
    if !shown.isEmpty {
      let table = Self.table(Self.sorted(shown), status, shell)
      shell.terminal.print(table.lines(width: wide ? nil : shell.terminal.width, colour: shell.terminal.usesColour))
    }
    guard isFolded else { return }
    let list = "list" + (provider.map { " --provider \(ShellWord.quoted($0))" } ?? "")
    shell.terminal.printWhole("\(good.count) ok (\(shell.command(list)))")
  }

  static func sorted(_ accounts: [AccountView]) -> [AccountView] {
    accounts.sorted { left, right in
      left.state.isProblem == right.state.isProblem
        ? NaturalOrder.isBefore(left.account, right.account) : left.state.isProblem
    }
  }

  /// Nil: there are none, or the caller may not see them. A call that is refused would be in the audit trail.
  private func pendingApprovals(_ status: BrokerStatus.Result, _ shell: Shell, _ client: SocketClient) async -> Int? {
    guard status.caller?.access[Access.manage.rawValue] != nil,
      let found = try? await shell.ask(ReleaseList.self, .init(), on: client).value(), !found.waiting.isEmpty
    else { return nil }
    return found.waiting.count
  }

  /// With the error of the configuration if that keeps the broker from starting.
  private func connect(_ shell: Shell) async throws(Failure) -> SocketClient {
    do throws(Failure) {
      return try await shell.connect()
    } catch {
      guard error.status == .notRunning else { throw error }
      var failure = error
      for item in await Doctor(shell: shell).configurations(of: shell.choice) where item.result == .failed {
        failure.hints.insert(contentsOf: [item.message] + (item.hint.map { [$0] } ?? []), at: 0)
      }
      throw failure
    }
  }

  static func head(_ status: BrokerStatus.Result, now: Int64) -> String {
    if status.state == "locked" {
      return SafeText.line("grantd \(status.version), \(status.instance) instance, pid \(status.pid), locked")
    }
    let state = status.state == "running" ? "running for" : "\(status.state.replacing("_", with: " ")) after"
    return SafeText.line(
      "grantd \(status.version), \(status.instance) instance, pid \(status.pid), "
        + "\(state) \(TimeText.duration(now - status.started_at)): \(status.summary)")
  }

  static func fields(_ status: BrokerStatus.Result, _ shell: Shell) -> FieldList {
    var fields = FieldList()
    let store = status.store
    let isFine = store.state == "ok"
    fields.add(
      "  store", "\(store.path), \(store.state)\(store.message.map { ": \($0)" } ?? "")",
      isFine ? .plain : store.isWarning ? .attention : .bad)
    for machine in status.sharing?.machines ?? [] {
      fields.add("  machine", machine.line, machine.state == "silent" ? .attention : .plain)
    }
    fields.add("  callback", status.callback.isEmpty ? "off" : status.callback.joined(separator: ", "))
    for listener in status.listeners ?? [] {
      let isServed = listener.state == "ok"
      fields.add(
        "  \(listener.setting)", listener.address + (isServed ? "" : ", \(listener.state)"), isServed ? .plain : .bad)
    }
    if let hold = status.hold {
      let user = hold.uid.map { " by \(shell.terminal.users(UInt32(clamping: $0)))" } ?? ""
      let since = hold.since.map { " for \(TimeText.duration(shell.now - $0))" } ?? ""
      fields.add("  releases", "held\(since)\(user): \(shell.command("unlock"))", .attention)
    }
    let loaded = TimeText.ago(status.configuration.loaded_at, now: shell.now)
    fields.add("  configuration", "\(status.configuration.path ?? "built-in defaults"), read \(loaded)")
    fields.add("  providers", "\(status.providers)")
    if status.pending_logins > 0 {
      fields.add("  logins", "\(status.pending_logins) pending: \(shell.command("login list"))")
    }
    if let rows = status.set_aside {
      fields.add("  set aside", "\(rows.count) row\(rows.count == 1 ? "" : "s") that cannot be read: see below", .bad)
    }
    if let files = status.files {
      let troubled = files.filter { $0.state != "ok" }.count
      fields.add("  token files", "\(files.count)" + (troubled > 0 ? ", \(troubled) not up to date" : ""))
    }
    if let heldBack = status.held_back {
      let counts = heldBack.counts.sorted { $0.key < $1.key }.map { "\($0.key.replacing("_", with: " ")) \($0.value)" }
      let latest = heldBack.latest.map { "; the latest: \(shell.terminal.users.named($0))" } ?? ""
      fields.add("  held back", "\(counts.joined(separator: ", ")) times\(latest)", .attention)
    }
    return fields
  }

  /// The provider's column is there where accounts are at several.
  static func table(_ accounts: [AccountView], _ status: BrokerStatus.Result?, _ shell: Shell) -> TextTable {
    let isMixed = Set(accounts.map(\.provider)).count > 1
    let conditions = status?.provider_conditions ?? []
    let out = Set(conditions.filter { $0.condition == "unreachable" }.map(\.provider))
    let rows = accounts.map { account in
      let names = [Cell(account.account)] + (isMixed ? [Cell(account.provider)] : [])
      return TextTable.Row(
        cells: names + [
          account.state.cell, Cell(TimeText.expiry(account.expires_at, now: shell.now)),
          Cell(TimeText.until(account.next_refresh_at, now: shell.now)),
        ], notes: notes(account, out, shell))
    }
    let names = isMixed ? ["ACCOUNT", "PROVIDER"] : ["ACCOUNT"]
    return TextTable(
      titles: names + ["STATE", "EXPIRES IN", "NEXT REFRESH"], shrinkable: isMixed ? [1, 0] : [0], rows: rows,
      droppable: 2)
  }

  /// An outage is told once, not with each of its accounts.
  private static func notes(_ account: AccountView, _ unreachable: Set<String>, _ shell: Shell) -> [String] {
    guard account.state == .degraded, unreachable.contains(account.provider) else {
      return shell.notes(account.last_error)
    }
    return ["provider \(account.provider) is unreachable: see below"]
  }
}
