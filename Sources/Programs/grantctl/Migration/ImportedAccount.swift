import BrokerAPI

/// An account of another program.
struct ImportedAccount: Sendable {
  /// The server that issued its tokens.
  enum Server: Sendable, Equatable {
    case issuer(String)
    /// A template of `config/providers.d`.
    case template(String)
    case endpoints(authorization: String, token: String)
  }

  /// As the program calls it.
  var name: String
  /// Nil: the program does not name it.
  var server: Server?
  var clientID: String?
  var clientSecret: SecretText?
  var refreshToken: SecretText?
  var scopes: [String] = []
  /// Why it cannot be imported; nil: it can.
  var obstacle: String?

  /// A server of a token endpoint that a template describes.
  static func server(authorization: String?, token: String?) -> Server? {
    guard let token else { return nil }
    let known = [
      ("oauth2.googleapis.com/", "google"), ("accounts.google.com/", "google"), ("www.googleapis.com/", "google"),
      ("login.microsoftonline.com/", "microsoft"), ("api.dropboxapi.com/", "dropbox"), ("api.dropbox.com/", "dropbox"),
    ]
    if let template = known.first(where: { token.hasPrefix("https://\($0.0)") }) { return .template(template.1) }
    return authorization.map { .endpoints(authorization: $0, token: token) }
  }
}

/// A program whose accounts can be imported.
protocol ImportSource: Sendable {
  /// As in `--from`.
  var name: String { get }
  /// The accounts in its own files, or in an export of it.
  ///
  /// - Parameter export: the content of `--file`; nil: the program's own files.
  func accounts(_ export: [UInt8]?, on terminal: Terminal) async throws(Failure) -> [ImportedAccount]
  /// How to stop the program, so that two programs do not refresh one grant.
  func stop(_ account: ImportedAccount) -> [String]
}

enum ImportSources {
  static let all: [any ImportSource] = [
    OIDCAgent(), Pizauth(), Rclone(), MuttOAuth2(), EmailOAuth2Proxy(), Gcloud(), GitHubCommand(),
  ]

  static var names: String { all.map(\.name).joined(separator: ", ") }

  /// The programs that have files of accounts in the user's home.
  static func present(on terminal: Terminal) -> [String] {
    let folder = terminal.configurationFolder
    let places = [
      ("oidc-agent", ["\(folder)/oidc-agent", "\(terminal.home)/.oidc-agent"]),
      ("pizauth", ["\(folder)/pizauth.conf"]), ("rclone", ["\(folder)/rclone/rclone.conf"]),
      ("email-oauth2-proxy", ["\(terminal.home)/emailproxy.config", "\(folder)/emailproxy.config"]),
      ("gcloud", ["\(folder)/gcloud/application_default_credentials.json"]),
    ]
    return places.filter { $0.1.contains(where: terminal.files.exists) }.map(\.0)
  }

  static func named(_ name: String) -> (any ImportSource)? { all.first { $0.name == name } }
}

extension Terminal {
  /// Longest file of another program, in bytes.
  private static let longestImport = 4 << 20

  var home: String { environment["HOME"] ?? "" }

  /// The path as a shell abbreviates it, with `~` for the home folder.
  func short(_ path: String) -> String {
    home.count > 1 && path.hasPrefix(home + "/") ? "~" + path.dropFirst(home.count) : path
  }

  /// Nil: there is no such file.
  func importFile(_ path: String) throws(Failure) -> [UInt8]? {
    guard files.exists(path) else { return nil }
    switch files.bytes(path, Self.longestImport) {
    case .bytes(let bytes, _): return bytes
    case .unreadable(let reason): throw Failure(.failure, "\(path) cannot be read: \(reason)")
    }
  }
}

extension JSON {
  /// The text of a member, unless it is empty.
  func text(_ name: String) -> String? { self[name]?.string.flatMap { $0.isEmpty ? nil : $0 } }
  func secret(_ name: String) -> SecretText? { text(name).map { SecretText($0) } }
}
