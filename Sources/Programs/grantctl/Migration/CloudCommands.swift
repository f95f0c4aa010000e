import BrokerAPI

/// gcloud: the application default credentials, and the accounts of `gcloud auth login`.
struct Gcloud: ImportSource {
  let name = "gcloud"

  private static let defaultFile = "application_default_credentials.json"
  private static let scopes = ["openid", "email", "https://www.googleapis.com/auth/cloud-platform"]

  func accounts(_ export: [UInt8]?, on terminal: Terminal) async throws(Failure) -> [ImportedAccount] {
    if let export { return try account("gcloud", export).map { [$0] } ?? [] }
    let folder =
      terminal.environment["CLOUDSDK_CONFIG"].flatMap { $0.isEmpty ? nil : $0 }
      ?? "\(terminal.configurationFolder)/gcloud"
    var accounts: [ImportedAccount] = []
    if let bytes = try terminal.importFile("\(folder)/\(Self.defaultFile)"), let found = try account("gcloud", bytes) {
      accounts.append(found)
    }
    for user in (terminal.machine.names("\(folder)/legacy_credentials") ?? []).sorted() {
      guard let bytes = try terminal.importFile("\(folder)/legacy_credentials/\(user)/adc.json"),
        let found = try account(user, bytes)
      else { continue }
      accounts.append(found)
    }
    return accounts
  }

  private func account(_ name: String, _ bytes: [UInt8]) throws(Failure) -> ImportedAccount? {
    guard let json = try? JSON.parse(bytes) else { throw Failure(.failure, "a credential file of gcloud is not JSON") }
    // Service accounts have no user.
    guard json.text("type") == "authorized_user" else { return nil }
    return ImportedAccount(
      name: json.text("account") ?? name, server: .template("google"), clientID: json.text("client_id"),
      clientSecret: json.secret("client_secret"), refreshToken: json.secret("refresh_token"), scopes: Self.scopes)
  }

  func stop(_ account: ImportedAccount) -> [String] {
    [
      "Google's refresh tokens do not rotate, so that gcloud may keep its copy.",
      "Do not run `gcloud auth revoke` or `gcloud auth application-default revoke`: both revoke this grant.",
    ]
  }
}

/// gh: its tokens have no refresh token and do not expire.
struct GitHubCommand: ImportSource {
  let name = "gh"

  func accounts(_ export: [UInt8]?, on terminal: Terminal) async throws(Failure) -> [ImportedAccount] {
    let folder =
      terminal.environment["GH_CONFIG_DIR"].flatMap { $0.isEmpty ? nil : $0 }
      ?? "\(terminal.configurationFolder)/gh"
    var bytes = export
    if bytes == nil { bytes = try terminal.importFile("\(folder)/hosts.yml") }
    guard let bytes else {
      throw Failure(.failure, "gh has no \(folder)/hosts.yml", hints: ["Sign in without gh: `grantctl setup github`"])
    }
    // Hosts are the keys of the first level.
    let hosts = String(decoding: bytes, as: UTF8.self).split(separator: "\n").filter { line in
      line.first.map { !$0.isWhitespace && $0 != "#" } == true && line.trimmed.hasSuffix(":")
    }
    return hosts.map { line in
      ImportedAccount(
        name: String(line.trimmed.dropLast()), server: .template("github"),
        obstacle: "gh's token has no refresh token: sign in with a client of yours, `grantctl setup github`")
    }
  }

  func stop(_ account: ImportedAccount) -> [String] { [] }
}
