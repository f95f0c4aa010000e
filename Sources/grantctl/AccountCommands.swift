import ArgumentParser
import BrokerAPI

struct ListCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "List the accounts.",
    discussion: """
      Examples:
        grantctl list
        grantctl list --provider google --json
      """)

  @Option(help: "Only accounts at this provider.")
  var provider: String?
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(AccountList.self, .init(provider: provider))
    if shell.isJSON { return shell.say(answer.json) }
    let accounts = try answer.value().accounts
    if accounts.isEmpty { return shell.sayNoAccounts() }
    shell.say(Self.table(accounts, now: shell.now))
  }

  static func table(_ accounts: [AccountView], now: Int64) -> Table {
    let rows = accounts.map { account in
      Table.Row(cells: [
        Cell(account.account), Cell(account.provider), account.state.cell, Cell(account.identity?.bestName ?? "-"),
        Cell(TimeText.expiry(account.expires_at, now: now)),
      ])
    }
    return Table(
      titles: ["ACCOUNT", "PROVIDER", "STATE", "IDENTITY", "EXPIRES IN"], shrinkable: [3, 1, 0], rows: rows)
  }
}

struct ShowCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "show", abstract: "Show all that is known of an account; never a token.",
    discussion: """
      Example:
        grantctl show work
      """)

  @Argument(help: "The account's name.")
  var account: String
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(AccountGet.self, .init(account: account))
    if shell.isJSON { return shell.say(answer.json) }
    shell.say(Self.fields(try answer.value(), shell))
  }

  static func fields(_ account: AccountView, _ shell: Shell) -> Fields {
    func time(_ at: Int64?, _ relation: (Int64, Int64) -> String) -> String? {
      at.map { "\(TimeText.date($0, in: shell.terminal.timeZone)) (\(relation($0, shell.now)))" }
    }
    let inFuture: (Int64, Int64) -> String = {
      $0 > $1 ? "in \(TimeText.duration($0 - $1))" : TimeText.ago($0, now: $1)
    }
    var fields = Fields()
    fields.add("Account", account.account)
    fields.add("Provider", account.provider)
    fields.add("State", account.state.cell.text, account.state.cell.tone)
    fields.add("Name", account.identity?.name)
    fields.add("User name", account.identity?.username)
    fields.add("E-mail", account.identity?.email)
    fields.add("Subject", account.identity?.subject)
    fields.add("Issuer", account.identity?.issuer)
    fields.add("Scopes", account.scopes.joined(separator: " "))
    fields.add("Token", "generation \(account.generation)")
    fields.add("Expires", time(account.expires_at, inFuture))
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
}

struct LogoutCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "logout", abstract: "Revoke an account's tokens and forget the account.",
    discussion: """
      The account is forgotten here whatever the provider answers; a revocation that fails is tried again later.

      Example:
        grantctl logout work
      """)

  @Argument(help: "The account's name.")
  var account: String
  @Flag(help: "Do not revoke at the provider: only forget here.")
  var noRevoke = false
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(AccountLogout.self, .init(account: account, revoke: noRevoke ? false : nil))
    if shell.isJSON { return shell.say(answer.json) }
    var fields = Fields()
    for step in try answer.value().steps {
      let result = Self.words(result: step.result) + (step.message.map { ": \($0)" } ?? "")
      fields.add(Self.words(step: step.step), result, step.result == "refused" ? .bad : .plain)
    }
    shell.say(fields)
    shell.terminal.say("Signed out: \(Cell(account).text)")
  }

  /// A step of a newer broker is said as it came.
  private static func words(step: String) -> String {
    switch step {
    case "revoke_refresh_token": "Revoke the refresh token"
    case "revoke_access_token": "Revoke the access token"
    case "forget": "Forget the account"
    default: step
    }
  }

  private static func words(result: String) -> String {
    switch result {
    case "queued": "not yet, it is tried again by itself"
    case "unsupported": "the provider cannot do that"
    default: result
    }
  }
}
