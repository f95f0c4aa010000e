import BrokerAPI

/// oidc-agent: its account files are encrypted; `oidc-gen --print NAME` writes one as JSON.
struct OIDCAgent: ImportSource {
  let name = "oidc-agent"

  private static let others: Set<String> = [
    "issuer.config", "oidc-agent.config", "mytoken.config", "pubclients.config",
  ]

  func accounts(_ export: [UInt8]?, on terminal: Terminal) async throws(Failure) -> [ImportedAccount] {
    guard let export else { throw needsExport(terminal) }
    guard let json = try? JSON.parse(export), json["refresh_token"] != nil || json["issuer_url"] != nil else {
      throw Failure(
        .failure, "that is not an account of oidc-agent", hints: ["It is the output of `oidc-gen --print NAME`."])
    }
    var account = ImportedAccount(name: json.text("name") ?? "oidc-agent")
    // Newer versions have an object with the issuer's URL.
    let issuer = json.text("issuer_url") ?? json["issuer"]?.text("issuer") ?? json["issuer"]?.text("url")
    account.server = issuer.map { .issuer($0) }
    account.clientID = json.text("client_id")
    account.clientSecret = json.secret("client_secret")
    account.refreshToken = json.secret("refresh_token")
    account.scopes = (json.text("scope") ?? "").split(separator: " ").map(String.init)
    return [account]
  }

  private func needsExport(_ terminal: Terminal) -> Failure {
    let folders = [
      terminal.environment["OIDC_CONFIG_DIR"], "\(terminal.configurationFolder)/oidc-agent",
      "\(terminal.home)/.oidc-agent",
    ].compactMap(\.self)
    let names = folders.lazy.compactMap { terminal.machine.names($0) }.first ?? []
    let accounts = names.filter { !Self.others.contains($0) && !$0.hasPrefix(".") && !$0.hasSuffix(".config") }.sorted()
    guard !accounts.isEmpty else {
      return Failure(.failure, "oidc-agent has no account files in \(folders.joined(separator: " or "))")
    }
    return Failure(
      .usage, "oidc-agent encrypts its accounts, and asks for their password: \(accounts.joined(separator: ", "))",
      hints: accounts.map { "`oidc-gen --print \(ShellWord.quoted($0)) | grantctl import --from oidc-agent --file -`" })
  }

  func stop(_ account: ImportedAccount) -> [String] {
    let name = ShellWord.quoted(account.name)
    return [
      "Remove the account from the running agent: `oidc-add --remove \(name)`",
      "Do not delete it with `oidc-gen --delete`, which revokes the refresh token: move its file away.",
    ]
  }
}
