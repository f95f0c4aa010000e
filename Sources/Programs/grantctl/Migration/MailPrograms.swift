import BrokerAPI

/// mutt_oauth2.py: the token file, which is usually encrypted with GnuPG.
struct MuttOAuth2: ImportSource {
  let name = "mutt_oauth2"

  func accounts(_ export: [UInt8]?, on terminal: Terminal) async throws(Failure) -> [ImportedAccount] {
    guard let export else {
      throw Failure(
        .usage, "mutt_oauth2.py has no fixed place for its token file",
        hints: ["`gpg --decrypt TOKENFILE | grantctl import --from mutt_oauth2 --file -`"])
    }
    guard let json = try? JSON.parse(export), let registration = json.text("registration") else {
      throw Failure(
        .failure, "that is not a token file of mutt_oauth2.py",
        hints: ["Is it encrypted? `gpg --decrypt TOKENFILE | grantctl import --from mutt_oauth2 --file -`"])
    }
    var account = ImportedAccount(name: json.text("email") ?? registration)
    account.server = ["google": .template("google"), "microsoft": .template("microsoft")][registration]
    account.clientID = json.text("client_id")
    account.clientSecret = json.secret("client_secret")
    account.refreshToken = json.secret("refresh_token")
    account.scopes =
      registration == "google"
      ? ["https://mail.google.com/"]
      : [
        "offline_access", "https://outlook.office.com/IMAP.AccessAsUser.All",
        "https://outlook.office.com/POP.AccessAsUser.All", "https://outlook.office.com/SMTP.Send",
      ]
    return [account]
  }

  func stop(_ account: ImportedAccount) -> [String] {
    [
      "Replace the commands that call mutt_oauth2.py: `grantctl configure neomutt ACCOUNT SERVER`, or mbsync, msmtp",
      "Then delete its token file.",
    ]
  }
}

/// email-oauth2-proxy: `emailproxy.config`. Its refresh tokens are encrypted with the password that the mail client
/// sends, so that only provider and client can be read.
struct EmailOAuth2Proxy: ImportSource {
  let name = "email-oauth2-proxy"

  func accounts(_ export: [UInt8]?, on terminal: Terminal) async throws(Failure) -> [ImportedAccount] {
    let places = ["\(terminal.home)/emailproxy.config", "\(terminal.configurationFolder)/emailproxy.config"]
    var bytes = export
    for path in places where bytes == nil { bytes = try terminal.importFile(path) }
    guard let bytes else {
      throw Failure(
        .usage, "there is no emailproxy.config in \(places.joined(separator: " or "))",
        hints: ["Name it: `grantctl import --from email-oauth2-proxy --file PATH`"])
    }
    return INIText(bytes).sections.filter { $0.name.contains("@") }.map { section in
      var account = ImportedAccount(name: section.name)
      account.server = ImportedAccount.server(authorization: section["permission_url"], token: section["token_url"])
      account.clientID = section["client_id"]
      account.clientSecret = section["client_secret"].map { SecretText($0) }
      account.scopes = (section["oauth2_scope"] ?? "").split(whereSeparator: \.isWhitespace).map(String.init)
      return account
    }
  }

  func stop(_ account: ImportedAccount) -> [String] {
    ["Stop the proxy: `systemctl --user disable --now emailproxy`, or end `emailproxy` where it was started."]
  }
}

/// pizauth: `pizauth.conf`. It keeps refresh tokens in memory only, so that only provider and client can be read.
struct Pizauth: ImportSource {
  let name = "pizauth"

  func accounts(_ export: [UInt8]?, on terminal: Terminal) async throws(Failure) -> [ImportedAccount] {
    let path = "\(terminal.configurationFolder)/pizauth.conf"
    var bytes = export
    if bytes == nil { bytes = try terminal.importFile(path) }
    guard let bytes else {
      throw Failure(.failure, "pizauth has no configuration at \(path)", hints: ["Name its file: --file PATH"])
    }
    return PizauthText(bytes).accounts.map { found in
      var account = ImportedAccount(name: found.name)
      account.server = ImportedAccount.server(authorization: found["auth_uri"], token: found["token_uri"])
      account.clientID = found["client_id"]
      account.clientSecret = found["client_secret"].map { SecretText($0) }
      account.scopes = found.values["scopes"] ?? []
      return account
    }
  }

  func stop(_ account: ImportedAccount) -> [String] {
    ["Stop pizauth: `systemctl --user disable --now pizauth`, or `pizauth shutdown`."]
  }
}

/// The accounts of a `pizauth.conf`: `account "NAME" { key = "text"; scopes = ["a", "b"]; }`.
struct PizauthText {
  struct Account {
    var name: String
    var values: [String: [String]] = [:]

    subscript(name: String) -> String? { values[name]?.first }
  }

  private enum Token: Equatable {
    case word(String)
    case text(String)
    case mark(Character)
  }

  private(set) var accounts: [Account] = []

  init(_ bytes: [UInt8]) {
    var tokens = Self.tokens(Array(String(decoding: bytes, as: UTF8.self)))[...]
    while let token = tokens.popFirst() {
      guard token == .word("account"), case .text(let name)? = tokens.first else { continue }
      tokens.removeFirst()
      guard tokens.popFirst() == .mark("{") else { continue }
      var account = Account(name: name)
      while let next = tokens.popFirst(), next != .mark("}") {
        guard case .word(let key) = next, tokens.first == .mark("=") else { continue }
        tokens.removeFirst()
        account.values[key] = Self.values(&tokens)
      }
      accounts.append(account)
    }
  }

  /// The texts up to the semicolon; of objects, such as `auth_uri_fields`, too.
  private static func values(_ tokens: inout ArraySlice<Token>) -> [String] {
    var values: [String] = []
    while let token = tokens.popFirst(), token != .mark(";") {
      switch token {
      case .text(let text), .word(let text): values.append(text)
      case .mark: break
      }
    }
    return values
  }

  private static func tokens(_ text: [Character]) -> [Token] {
    var tokens: [Token] = []
    var index = 0
    while index < text.count {
      let character = text[index]
      index += 1
      if character == "/", index < text.count, text[index] == "/" {
        while index < text.count, !text[index].isNewline { index += 1 }
      } else if character == "\"" {
        var value = ""
        while index < text.count, text[index] != "\"" {
          if text[index] == "\\", index + 1 < text.count { index += 1 }
          value.append(text[index])
          index += 1
        }
        index += 1
        tokens.append(.text(value))
      } else if character.isLetter || character == "_" || character.isNumber {
        var word = String(character)
        while index < text.count, text[index].isLetter || text[index] == "_" || text[index].isNumber {
          word.append(text[index])
          index += 1
        }
        tokens.append(.word(word))
      } else if !character.isWhitespace {
        tokens.append(.mark(character))
      }
    }
    return tokens
  }
}
