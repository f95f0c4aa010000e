import ArgumentParser
import BrokerAPI
import PlainText

struct ListCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "List accounts.",
    usage: "grantctl list [options]",
    discussion: """
      Examples:
        grantctl list
        grantctl list --provider google --json
      """)

  @Option(help: "Only accounts at this provider.")
  var provider: String?
  @Option(help: ArgumentHelp("Only accounts whose names come after this one.", valueName: "account"))
  var after: String?
  @Option(help: ArgumentHelp("Maximum number of accounts, 1 to 10000.", valueName: "number"))
  var limit: Int?
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.accounts(.init(provider: provider, after: after, limit: limit))
    if shell.isJSON { return shell.print(answer.json) }
    let found = try answer.value()
    let accounts = found.accounts
    if accounts.isEmpty, let provider {
      return shell.terminal.print(
        "No accounts at \(Cell(provider).text). Sign in with:",
        command: shell.command("login \(ShellWord.quoted(provider)) ACCOUNT"))
    }
    if accounts.isEmpty {
      let status = try? await shell.ask(BrokerStatus.self, NoParams()).value()
      return shell.printNoAccounts(providers: status?.providers ?? 0)
    }
    shell.print(Self.table(accounts, now: shell.now))
    if let next = found.next { shell.terminal.print("There are more:", command: shell.command("list --after \(next)")) }
  }

  static func table(_ accounts: [AccountView], now: Int64) -> TextTable {
    let rows = accounts.map { account in
      TextTable.Row(cells: [
        Cell(account.account), Cell(account.provider), account.state.cell, Cell(account.identity?.bestName ?? "-"),
        Cell(TimeText.expiry(account.expires_at, now: now)),
      ])
    }
    return TextTable(
      titles: ["ACCOUNT", "PROVIDER", "STATE", "IDENTITY", "EXPIRES IN"], shrinkable: [3, 1, 0], rows: rows,
      droppable: 2)
  }
}

struct ShowCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "show", abstract: "Show an account's details.",
    usage: "grantctl show <account> [options]",
    discussion: """
      Example:
        grantctl show work
      """)

  @OptionGroup var named: AccountArgument
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(AccountGet.self, .init(account: named.account))
    if shell.isJSON { return shell.print(answer.json) }
    shell.print(Self.fields(try answer.value(), shell))
  }

  static func fields(_ account: AccountView, _ shell: Shell) -> FieldList {
    func time(_ at: Int64?, _ relation: (Int64, Int64) -> String) -> String? {
      at.map { "\(TimeText.date($0, in: shell.terminal.timeZone)) (\(relation($0, shell.now)))" }
    }
    let inFuture: (Int64, Int64) -> String = {
      $0 > $1 ? "in \(TimeText.duration($0 - $1))" : TimeText.ago($0, now: $1)
    }
    var fields = FieldList()
    fields.add("Account", account.account)
    fields.add("Provider", account.provider)
    fields.add("State", account.state.cell.text, account.state.cell.tone)
    fields.add("Name", account.identity?.name)
    fields.add("User name", account.identity?.username)
    fields.add("E-mail", account.identity?.email)
    fields.add("Subject", account.identity?.subject)
    fields.add("Issuer", account.identity?.issuer)
    let unverified = account.scopes_unverified == true ? " (as requested: the provider does not return them)" : ""
    fields.add("Scopes", account.scopes.joined(separator: " ") + unverified)
    fields.add(
      "Lost scopes", account.lost_scopes.map { $0.joined(separator: " ") + " (missing since a refresh)" }, .bad)
    fields.add(
      "Required", account.required_scopes.map { $0.isEmpty ? "a new sign-in" : $0.joined(separator: " ") }, .attention)
    fields.add("Grant", account.grant?.replacing("_", with: " "))
    fields.add("Token", "generation \(account.generation)")
    fields.add("Bound to", account.token_binding.map(Self.words(binding:)))
    fields.add("Expires", time(account.expires_at, inFuture))
    for report in account.reports ?? [] {
      let ago = TimeText.ago(report.at, now: shell.now)
      fields.add(
        "Refused for", "\(report.words(shell.terminal.users)), \(ago): it gets the next token, others get this one",
        .attention)
    }
    for token in account.tokens ?? [] {
      let place = token.resource.map { " at \($0)" } ?? ""
      let expiry = time(token.expires_at, inFuture).map { ", expires \($0)" } ?? ""
      fields.add("Narrowed to", token.scopes.joined(separator: " ") + place + expiry)
    }
    fields.add("Next refresh", time(account.next_refresh_at, inFuture))
    fields.add("Last refresh", time(account.last_refresh_at) { TimeText.ago($0, now: $1) })
    let source = account.refresh_expiry_learned == true ? ", as earlier ones ended" : ""
    fields.add(
      "Login good until", time(account.refresh_expires_at, inFuture).map { $0 + source },
      account.refresh_expires_soon == true ? .attention : .plain)
    fields.add("Signed in", time(account.logged_in_at) { TimeText.ago($0, now: $1) })
    if let error = account.last_error {
      fields.add("Last error", "\(error.message) (\(TimeText.ago(error.at, now: shell.now)))", .bad)
      fields.add(
        "Provider said", error.oauth.map { [$0.error, $0.error_description].compactMap { $0 }.joined(separator: ": ") })
      fields.add("What to do", shell.adapted(error.hint))
    }
    return fields
  }

  /// A binding of a newer broker is said as it came.
  private static func words(binding: String) -> String {
    switch binding {
    case "dpop": "a key of the broker's (DPoP): requests need a proof too, by grantctl proof"
    case "mtls": "the client's certificate (mutual TLS)"
    default: binding
    }
  }
}

struct LogoutCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "logout", abstract: "Revoke an account's tokens and remove it.",
    usage: "grantctl logout <account> [options]",
    discussion: """
      The account is removed here even if the provider does not answer; a failed revocation is retried later. \
      A pending login of the same account continues: `grantctl login cancel ID` ends it. \
      With --end-session it also prints the URL that signs the user out at the provider, if the provider has one.

      Examples:
        grantctl logout work
        grantctl logout work --end-session --open
        grantctl logout paper --extent EVERYWHERE
      """)

  @OptionGroup var named: AccountArgument
  @Flag(help: "Do not revoke the tokens at the provider.")
  var noRevoke = false
  @Flag(help: "Print the URL that ends the session at the provider, too.")
  var endSession = false
  @Flag(help: "With --end-session: open the URL in the browser.")
  var open = false
  @Option(
    help: ArgumentHelp(
      "Extent of the sign-out at the provider: THIS_DEVICE, EVERYWHERE, …",
      valueName: "extent"))
  var extent: String?
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard endSession || !open else { throw ValidationError("--open goes with --end-session.") }
    guard extent == nil || !noRevoke else { throw ValidationError("--extent cannot be combined with --no-revoke.") }
  }

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(
      AccountLogout.self,
      .init(account: named.account, revoke: noRevoke ? false : nil, end_session: endSession ? true : nil, where: extent)
    )
    let purpose = "end the session at the provider"
    if shell.isJSON {
      shell.print(answer.json)
      // The address is in the answer: without --open there is no more to say.
      if open, let url = answer.json["end_session_url"]?.string, !(await shell.openBrowser(url, to: purpose)) {
        shell.show(url, to: purpose)
      }
      return try checkRevoked(try answer.value())
    }
    let result = try answer.value()
    shell.print(FieldList(result.steps, forgotten: "account"))
    shell.terminal.print("Signed out: \(Cell(named.account).text)")
    if let url = result.end_session_url {
      let isOpen = open ? await shell.openBrowser(url, to: purpose) : false
      if !isOpen { shell.show(url, to: purpose) }
    }
    try checkRevoked(result)
  }

  /// The account is removed in any case, but tokens that may still be valid are a failure.
  private func checkRevoked(_ result: AccountLogout.Result) throws(Failure) {
    let failed = result.steps.filter { $0.step.hasPrefix("revoke_") && ["refused", "unsupported"].contains($0.result) }
    guard !noRevoke, !failed.isEmpty else { return }
    throw Failure(
      .failure, "the account is removed, but the provider did not revoke its tokens",
      hints: ["End the grant at the provider, in the account's security settings there."])
  }
}
