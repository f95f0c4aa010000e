import ArgumentParser
import AsyncClient
import BrokerAPI

struct TokenCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "token", abstract: "Print an access token that is valid now.",
    usage: "grantctl token <account> [options]",
    discussion: """
      The bare token is all that goes to standard output. It is refreshed first where it has to be. Of a provider \
      that gives a session in place of a token, it is the session's ID.

      Examples:
        curl -H "Authorization: Bearer $(grantctl token work)" \\
          https://api.example.com/me
        grantctl token work --header | curl -H @- https://api.example.com/me
        curl --cookie "$(grantctl token paper --cookie)" https://news.example.com/
      """)

  @OptionGroup var named: AccountArgument
  @Option(help: ArgumentHelp("The token must be valid for so long; default 30.", valueName: "seconds"))
  var minTtl: Double?
  @Option(help: "The token must have this scope; may be repeated.")
  var scope: [String] = []
  @Option(help: "The resource that the token is for (RFC 8707).")
  var resource: String?
  @OptionGroup var form: HeaderOption
  @Flag(help: "Print the cookie of a session instead: “name=value”.")
  var cookie = false
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if let minTtl, !(minTtl >= 0) { throw ValidationError("--min-ttl is 0 or more seconds.") }
    try checkForms(("--header", form.header), ("--cookie", cookie))
  }

  var params: TokenGet.Params {
    let scopes = LoginCommand.words(scope)
    return .init(
      account: named.account, scopes: scopes.isEmpty ? nil : scopes, resource: resource, min_ttl: minTtl,
      timeout: options.timeout)
  }

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(TokenGet.self, params)
    if shell.isJSON { return shell.say(answer.json) }
    shell.terminal.say(try text(try answer.value()))
  }

  func text(_ result: TokenGet.Result) throws(Failure) -> String {
    if let session = result.session_id {
      guard form.header || cookie else { return try Self.printable(session) }
      guard let pair = result.cookie else {
        throw Failure(.failure, "the session has no cookie", hints: ["With --json all that is known of it is shown."])
      }
      return (form.header ? "Cookie: " : "") + (try Self.printable(pair))
    }
    guard !cookie else {
      throw Failure(
        .failure, "account \(named.account) has a token, and no session",
        hints: ["Leave out --cookie: `grantctl token \(ShellWord.quoted(named.account))`"])
    }
    let token = try Self.printable(result.access_token ?? "")
    return form.header ? "Authorization: \(SafeText.line(result.token_type ?? "Bearer")) \(token)" : token
  }

  /// RFC 6749 appendix A.12: 1*VSCHAR. Anything else could end a header or a line early.
  static func printable(_ token: String) throws(Failure) -> String {
    guard !token.isEmpty, token.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
      throw Failure(.failure, "the token has characters that no token may have", hints: ["With --json it is shown."])
    }
    return token
  }
}

struct RefreshCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "refresh", abstract: "Get a new token from the provider now.",
    usage: "grantctl refresh <account> [options]",
    discussion: """
      For a token that a server refuses although it should be valid; the broker refreshes by itself otherwise. The old \
      one is handed out until the new one is there. Who may manage the account gets it tried at once; others wait as \
      long as the last failure, or the provider, asked for, and have a budget.

      Where the answer to an earlier request is late, it is awaited for five minutes if the provider takes each refresh \
      token once: it may hold the only one. --now asks at once. The provider may take that for a second use, and end the \
      grant.

      Example:
        grantctl refresh work
      """)

  @Flag(help: "Do not wait for an overdue response. The provider may revoke the grant.") var now = false
  @OptionGroup var named: AccountArgument
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let client = try await shell.connect()
    let before = try await shell.ask(AccountGet.self, .init(account: named.account), on: client).value()
    guard before.renewable != false else {
      throw Failure(
        .failure, "provider \(Cell(before.provider).text) gives nothing to refresh it with: the token was kept",
        hints: [
          "If a server refuses it, sign in again: "
            + shell.command("login \(ShellWord.quoted(before.provider)) \(ShellWord.quoted(named.account))")
        ])
    }
    if now {
      shell.terminal.note("warning: where the answer to an earlier request is still awaited, this may end the grant")
    }
    let answer = try await shell.ask(
      AccountRefresh.self, .init(account: named.account, timeout: options.timeout, now: now ? true : nil), on: client
    ).json
    if shell.isJSON { return shell.say(answer) }
    let refreshed = try Answer<AccountRefresh>(json: answer).value().refreshed
    let after = try await shell.ask(AccountGet.self, .init(account: named.account), on: client).value()
    let expiry = after.expires_at.map { at in
      "expires in \(TimeText.expiry(at, now: shell.now)) (\(TimeText.date(at, in: shell.terminal.timeZone)))"
    }
    let what = refreshed ? "Refreshed" : "A newer token was there already"
    shell.terminal.say("\(what): \(Cell(named.account).text), \(expiry ?? "its expiry is not known")")
  }
}
