extension Sections {
  static let store = Section<Settings.StoreSettings>(
    header: "[store]", meaning: "Where grants are kept, sealed.",
    keys: [
      Key(
        "path", .path, \.path, standard: "`/var/lib/grantd`; for a user `$XDG_STATE_HOME/grantd`", "The state folder."),
      Key(
        "key_file", .path, \.keyFile, standard: "the credential `grantd.key`, else `grantd.key` in the state folder",
        "The file with the key that seals tokens."),
      Key(
        "kind", .word, \.kind, standard: "\"sqlite\"",
        "`\"postgresql\"`: several machines share their accounts in a PostgreSQL database ([fleet](fleet.md)). All of them need the "
          + "same key. Each machine keeps its own data in the state folder."),
      Key(
        "connection", connectionString, \.connection, standard: "none",
        "How to connect to PostgreSQL, in the syntax of libpq: `\"service=grantd\"`, `\"host=db.example.com dbname=grantd\"`. "
          + "`sslmode` is `verify-full`, unless the host is a socket."),
      Key(
        "password_file", .path, \.passwordFile,
        standard: "the credential `grantd.database-password`, else the password file of libpq",
        "The file with the password for PostgreSQL."),
    ])

  private static let connectionString = Form<String>.name.map(
    "a connection string of libpq, such as \"service=grantd\""
  ) { text throws(Unfit) in
    let lower = text.lowercased()
    // libpq parses the string later; a password must not even reach it. `passfile` names a file.
    guard !hasPassword(lower) else {
      throw .because("it must not contain a password", suggestion: "put it into password_file")
    }
    return text
  }

  /// `password=` of a keyword list or of a URI's query, or `user:password@` of a URI (PostgreSQL, "Connection Strings").
  private static func hasPassword(_ text: String) -> Bool {
    if text.split(whereSeparator: { $0.isWhitespace || $0 == "?" || $0 == "&" || $0 == "=" }).contains("password") {
      return true
    }
    guard text.hasPrefix("postgres://") || text.hasPrefix("postgresql://"), let slashes = text.firstRange(of: "//"),
      let at = text.lastIndex(of: "@")
    else { return false }
    return text[slashes.upperBound...].prefix { $0 != "@" }.contains(":") && at > slashes.upperBound
  }
}

extension Loader {
  /// Reads `[store]`, and the password in its file.
  static func checkStore(
    _ store: inout Settings.StoreSettings, _ table: [String: Item], _ sources: Settings.Sources,
    report: inout ConfigurationReport
  ) {
    if let password = SecretReader(title: "[store]", sources: sources).read(
      "password", file: store.passwordFile, credential: nil, table, report: &report)
    {
      store.password = password
    }
    if let place = table["connection"]?.place, store.kind == nil {
      report.problem(
        "[store] has connection, but no kind", at: place, suggestion: "add kind = \"postgresql\"")
    }
    if let place = table["kind"]?.place, store.kind == .postgresql, store.connection == nil {
      report.problem(
        "[store] with kind = \"postgresql\" needs connection", at: place,
        suggestion: "add connection = \"service=grantd\"")
    }
  }
}
