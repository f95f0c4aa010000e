import ArgumentParser
import BrokerAPI

struct ExchangeCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "exchange", abstract: "Exchange the token for another one (RFC 8693).",
    usage: "grantctl exchange <account> [options]",
    discussion: """
      Prints only the new token.

      Examples:
        grantctl exchange work --audience reports
        grantctl exchange work --resource https://api.example.com --scope read
        grantctl exchange work --audience reports --actor robot
        grantctl exchange work --audience reports --requested-token-type jwt
      """)

  /// RFC 8693 §3.
  private static let typePrefix = "urn:ietf:params:oauth:token-type:"

  @OptionGroup var named: AccountArgument
  @Option(help: "The provider's name for the target service. Can be repeated.")
  var audience: [String] = []
  @Option(help: "URL of the target service (RFC 8707). Can be repeated.")
  var resource: [String] = []
  @Option(help: "Scope to request. Can be repeated.")
  var scope: [String] = []
  @Option(
    help: ArgumentHelp("The type of token: access_token, jwt, saml2, … or a whole URI.", valueName: "type"))
  var requestedTokenType: String?
  @Option(help: ArgumentHelp("The account that acts for the other.", valueName: "account"))
  var actor: String?
  @OptionGroup var form: HeaderOption
  @OptionGroup var options: GlobalOptions

  func validate() throws { try checkForms(("--as-header", form.asHeader)) }

  func run(in shell: Shell) async throws(Failure) {
    let type = requestedTokenType.map { $0.contains(":") ? $0 : Self.typePrefix + $0 }
    let answer = try await shell.ask(
      TokenExchange.self,
      .init(
        account: named.account, audience: audience.isEmpty ? nil : audience,
        resource: resource.isEmpty ? nil : resource,
        scopes: LoginCommand.scopes(scope), requested_token_type: type, actor: actor, timeout: options.timeout))
    if shell.isJSON { return shell.print(answer.json) }
    let result = try answer.value()
    let token = try TokenCommand.printable(result.access_token)
    // RFC 8693 §2.2.1: no access token, so there is no way to present it.
    if form.asHeader, result.token_type == "N_A" {
      throw Failure(.failure, "the issued token is not an access token: \(result.issued_token_type)")
    }
    shell.terminal.printWhole(form.asHeader ? "Authorization: \(SafeText.line(result.token_type)) \(token)" : token)
  }
}

struct ProofCommand: AccountCommand {
  static let configuration = CommandConfiguration(
    commandName: "proof", abstract: "Create a DPoP proof (RFC 9449).",
    usage: "grantctl proof <account> <method> <url> [options]",
    discussion: """
      For an account whose tokens are bound to a key (RFC 9449). A proof is valid for one request, at once. If the \
      server answers 401 with a DPoP-Nonce header field, repeat the command with --nonce.

      Examples:
        url=https://api.example.com/me
        grantctl proof work GET $url --nonce eyJ7S_zG
        curl -H "$(grantctl token work --as-header)" \\
             -H "$(grantctl proof work GET $url --as-header)" $url
      """)

  @OptionGroup var named: AccountArgument
  @Argument(help: "The request's HTTP method.")
  var method: String
  @Argument(help: "The request's URL.")
  var url: String
  @Option(help: "The nonce that the server asked for.")
  var nonce: String?
  @Option(
    help: ArgumentHelp(
      "File with the token, if not the account's current one; “-”: standard input.",
      valueName: "path"), completion: .file())
  var accessTokenFile: String?
  @OptionGroup var form: HeaderOption
  @OptionGroup var options: GlobalOptions

  func validate() throws { try checkForms(("--as-header", form.asHeader)) }

  func run(in shell: Shell) async throws(Failure) {
    let token = try await shell.secret("access token", from: accessTokenFile)
    let answer = try await shell.ask(
      DPoPProof.self, .init(account: named.account, method: method, url: url, nonce: nonce, access_token: token))
    if shell.isJSON { return shell.print(answer.json) }
    let proof = try TokenCommand.printable(try answer.value().proof)
    shell.terminal.printWhole(form.asHeader ? "DPoP: \(proof)" : proof)
  }
}
