import BrokerAPI

/// rclone: `rclone.conf`, or the JSON of `rclone config dump`.
struct Rclone: ImportSource {
  let name = "rclone"

  private static let templates = [
    "drive": "google", "google photos": "google", "gphotos": "google",
    "google cloud storage": "google", "onedrive": "microsoft", "dropbox": "dropbox",
  ]
  private static let encrypted = "RCLONE_ENCRYPT_V"

  func accounts(_ export: [UInt8]?, on terminal: Terminal) async throws(Failure) -> [ImportedAccount] {
    let bytes: [UInt8]
    if let export {
      bytes = export
    } else {
      let path =
        terminal.environment["RCLONE_CONFIG"].flatMap { $0.isEmpty ? nil : $0 }
        ?? "\(terminal.configurationFolder)/rclone/rclone.conf"
      guard let found = try terminal.importFile(path) else {
        throw Failure(.failure, "rclone has no configuration at \(path)", hints: ["Name its file: --file PATH"])
      }
      bytes = found
    }
    let text = String(decoding: bytes, as: UTF8.self)
    guard !text.contains(Self.encrypted) else {
      throw Failure(
        .failure, "rclone's configuration is encrypted",
        hints: ["`rclone config dump | grantctl import --from rclone --file -`"])
    }
    if let json = try? JSON.parse(bytes), case .object(let members) = json {
      return members.compactMap { member in
        account(member.name) { key in member.value.text(key) }
      }
    }
    return INIText(bytes).sections.compactMap { section in account(section.name) { section[$0] } }
  }

  private func account(_ name: String, _ value: (String) -> String?) -> ImportedAccount? {
    guard let token = value("token"), let json = try? JSON.parse(Array(token.utf8)) else { return nil }
    let type = value("type") ?? ""
    var account = ImportedAccount(
      name: name, clientID: value("client_id"), clientSecret: value("client_secret").map { SecretText($0) },
      refreshToken: json.secret("refresh_token"))
    account.server =
      ImportedAccount.server(authorization: value("auth_url"), token: value("token_url"))
      ?? Self.templates[type].map { .template($0) }
    account.scopes = scopes(value("scope"), type)
    if account.clientID == nil {
      account.obstacle = "it uses rclone's own client, whose tokens only rclone may refresh: set up a client of yours"
    } else if account.server == nil {
      account.obstacle = "no template describes the provider of rclone's type \(type)"
    }
    return account
  }

  /// The scopes of Google Drive are written without their common beginning.
  private func scopes(_ text: String?, _ type: String) -> [String] {
    let words = (text ?? "").split(whereSeparator: { $0 == "," || $0 == " " }).map(String.init)
    guard type == "drive" else { return words }
    return (words.isEmpty ? ["drive"] : words).map {
      $0.contains("/") ? $0 : "https://www.googleapis.com/auth/\($0)"
    }
  }

  func stop(_ account: ImportedAccount) -> [String] {
    [
      "Stop mounts and jobs of the remote \(account.name): `systemctl --user list-units 'rclone*'`, `pgrep -a rclone`",
      "Then delete its line `token = …` in rclone.conf, or let rclone ask the broker: docs/recipes/rclone-oauth.md.",
    ]
  }
}
