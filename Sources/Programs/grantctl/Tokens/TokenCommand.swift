import ArgumentParser
import AsyncClient
import BrokerAPI
import PlainText

struct TokenCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "token", abstract: "Print a valid access token.",
    usage: "grantctl token <account> [options]",
    discussion: """
      Prints only the token, refreshed first if necessary. For providers that use sessions, prints the session ID.

      Examples:
        $ grantctl token work
        ya29.a0AfH6SMBx8
        curl -H "Authorization: Bearer $(grantctl token work)" \\
          https://api.example.com/me
        grantctl token work --as-header | curl -H @- https://api.example.com/me
        curl --cookie "$(grantctl token paper --cookie)" https://news.example.com/
        grantctl token work --id-token
      """)

  @OptionGroup var named: AccountArgument
  @Option(
    help: ArgumentHelp(
      "Minimum remaining lifetime, at most that of a new token: 60, 10m. Default: 30.", valueName: "time"),
    transform: TimeSpan.seconds)
  var minTtl: Double?
  @Option(help: "Required scope. Can be repeated.")
  var scope: [String] = []
  @Option(help: "The resource that the token is for (RFC 8707).")
  var resource: String?
  @Option(help: "The audience that the token is for, if the provider takes one.")
  var audience: String?
  @Flag(help: "Print the ID token instead: it proves the user to its audience.")
  var idToken = false
  @OptionGroup var form: HeaderOption
  @Flag(help: "Print the cookie of a session instead: “name=value”.")
  var cookie = false
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if let minTtl, !(minTtl >= 0) { throw ValidationError("--min-ttl is 0 or more.") }
    try checkForms(("--as-header", form.asHeader), ("--cookie", cookie))
    if idToken, cookie || !scope.isEmpty || resource != nil {
      throw ValidationError("An ID token has no scopes, resource or cookie: leave out these options with --id-token.")
    }
  }

  var params: TokenGet.Params {
    .init(
      account: named.account, kind: idToken ? .idToken : nil, scopes: LoginCommand.scopes(scope),
      resource: resource, audience: audience, min_ttl: minTtl, timeout: options.timeout)
  }

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(TokenGet.self, params)
    if shell.isJSON { return shell.print(answer.json) }
    shell.terminal.printWhole(try text(try answer.value()))
  }

  func text(_ result: TokenGet.Result) throws(Failure) -> String {
    if let session = result.session_id {
      guard form.asHeader || cookie else { return try Self.printable(session) }
      guard let pair = result.cookie else {
        throw Failure(.failure, "the session has no cookie", hints: ["--json prints the whole session."])
      }
      return (form.asHeader ? "Cookie: " : "") + (try Self.printable(pair))
    }
    guard !cookie else {
      throw Failure(
        .failure, "account \(named.account) has a token, and no session",
        hints: ["Leave out --cookie: `grantctl token \(ShellWord.quoted(named.account))`"])
    }
    let token = try Self.printable(result.id_token ?? result.access_token ?? "")
    return form.asHeader ? "Authorization: \(SafeText.line(result.token_type ?? "Bearer")) \(token)" : token
  }

  /// RFC 6749 appendix A.12: 1*VSCHAR. Anything else could end a header or a line early.
  static func printable(_ token: String) throws(Failure) -> String {
    guard !token.isEmpty, token.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
      throw Failure(.failure, "the token has characters that no token may have", hints: ["With --json it is shown."])
    }
    return token
  }
}

struct RefreshCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "refresh", abstract: "Refresh an account's token now.",
    usage: "grantctl refresh <account> [options]",
    discussion: """
      Use it if a server refuses a token that should be valid; otherwise the broker refreshes by itself. Callers get the \
      old token until the refresh succeeds. With `manage` access the refresh starts at once; otherwise after the retry \
      delay, and it is rate limited.

      If a refresh response is overdue and the provider rotates refresh tokens, grantd waits five minutes for it: it may \
      contain the only valid one. --now sends a new request; the provider may treat it as token reuse and revoke the \
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
          "If a server refuses it, sign in again with "
            + "`grantctl login \(ShellWord.quoted(before.provider)) \(ShellWord.quoted(named.account))`."
        ])
    }
    if now {
      shell.terminal.note("warning: where the answer to an earlier request is still awaited, this may end the grant")
    }
    let answer = try await shell.ask(
      AccountRefresh.self, .init(account: named.account, timeout: options.timeout, now: now ? true : nil), on: client
    ).json
    if shell.isJSON { return shell.print(answer) }
    let refreshed = try MethodResult<AccountRefresh>(json: answer).value().refreshed
    let after = try await shell.ask(AccountGet.self, .init(account: named.account), on: client).value()
    let expiry = after.expires_at.map { at in
      "expires in \(TimeText.expiry(at, now: shell.now)) (\(TimeText.date(at, in: shell.terminal.timeZone)))"
    }
    let what = refreshed ? "Refreshed" : "A newer token already existed"
    shell.terminal.print("\(what): \(Cell(named.account).text), \(expiry ?? "its expiry is not known")")
  }
}
