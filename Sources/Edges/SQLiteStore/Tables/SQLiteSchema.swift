import SQLite

/// The tables in the order of their migrations. A released migration never changes; a new one increases ``version``, and
/// adds or removes a column or a table: ``SchemaHeader`` compares the version with them.
///
/// Times are milliseconds since 1970. Columns of type BLOB are sealed. Scopes are joined by a space.
enum SQLiteSchema {
  /// Says to `file` and to SQLite whose database it is: "grnt".
  static let applicationID = 0x6772_6e74
  /// `user_version` of the databases that this program writes.
  static let version = 7

  /// Each migration is one transaction: an end of the process leaves the version before or after it.
  ///
  /// - Parameter onStep: called before each migration, with its schema version. One may take seconds for each million
  ///   accounts.
  /// - Parameter last: the version to stop at.
  static func migrate(
    _ database: SQLiteConnection, to last: Int = version, onStep: (@Sendable (Int) -> Void)? = nil,
    onWritePoint: (@Sendable (WritePoint) -> Void)? = nil
  ) throws {
    let found = try database.read { try $0.number("PRAGMA user_version") }
    for (version, sql) in zip(1..., migrations) where version > found && version <= last {
      try database.write { db in
        onStep?(version)
        try db.execute(sql)
        if version == 1 { try db.execute("PRAGMA application_id = \(applicationID)") }
        try db.execute("PRAGMA user_version = \(version)")
        onWritePoint?(.migrated(to: version))
      }
    }
  }

  /// Whether nothing was ever committed.
  static func isEmpty(_ db: Database) throws -> Bool {
    // In all versions: a process that ended within the first migrations left the earlier tables.
    try ["grants", "tokens", "refresh_intents", "logins", "revocations", "registrations", "settings"].allSatisfy {
      try !db.hasTable($0) || db.number("SELECT count(*) FROM \($0)") == 0
    }
  }

  private static let migrations = [v1, v2, v3, v4, v5, v6, v7]

  /// The refresh token's age, and whether its end was announced.
  private static let v2 = """
    ALTER TABLE grants ADD COLUMN refresh_token_issued_at INTEGER;
    ALTER TABLE grants ADD COLUMN expiry_announced_at INTEGER;
    """

  /// How a grant was come by, the key that its tokens are bound to, logins on other devices, registered clients.
  private static let v3 = """
    ALTER TABLE grants ADD COLUMN kind TEXT NOT NULL DEFAULT 'authorization_code';
    ALTER TABLE grants ADD COLUMN dpop_key BLOB;
    ALTER TABLE logins ADD COLUMN dpop_key BLOB;
    ALTER TABLE logins ADD COLUMN device BLOB;
    CREATE TABLE registrations (
      provider TEXT NOT NULL PRIMARY KEY,
      issuer TEXT NOT NULL,
      client_id TEXT NOT NULL,
      created_at INTEGER NOT NULL,
      detail BLOB NOT NULL
    ) STRICT;
    """

  /// A login's wait in addition to the user's sign-in, and a revocation's data in addition to the token.
  private static let v4 = """
    ALTER TABLE logins ADD COLUMN progress BLOB;
    ALTER TABLE revocations ADD COLUMN context BLOB;
    """

  /// Which definition of the configuration a declared account's tokens were had by.
  private static let v5 = """
    ALTER TABLE grants ADD COLUMN source_fingerprint TEXT;
    """

  /// Who reported that a resource server refused the token.
  private static let v6 = """
    ALTER TABLE tokens ADD COLUMN reports TEXT;
    """

  /// The authentication code of each row. Rows of before get theirs behind the first answers (``SQLiteStore/bindRows()``):
  /// that takes seconds for each million accounts.
  private static let v7 = ["grants", "tokens", "refresh_intents", "logins", "revocations", "registrations", "settings"]
    .map { "ALTER TABLE \($0) ADD COLUMN code BLOB;" }.joined()

  // A token or an intent may precede its grant within a commit: references are checked at its end.
  private static let v1 = """
    CREATE TABLE meta (
      name TEXT NOT NULL PRIMARY KEY,
      value BLOB NOT NULL
    ) STRICT;
    CREATE TABLE grants (
      account TEXT NOT NULL PRIMARY KEY,
      provider TEXT NOT NULL,
      identity TEXT,
      requested_scopes TEXT NOT NULL,
      granted_scopes TEXT NOT NULL,
      resource TEXT,
      generation INTEGER NOT NULL,
      standing TEXT NOT NULL,
      standing_detail TEXT,
      created_at INTEGER NOT NULL,
      logged_in_at INTEGER NOT NULL,
      refresh_token_expires_at INTEGER,
      refresh_token BLOB,
      previous_refresh_token BLOB,
      id_token BLOB,
      extra BLOB
    ) STRICT;
    CREATE TABLE tokens (
      account TEXT NOT NULL REFERENCES grants (account) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
      scope TEXT NOT NULL,
      resource TEXT NOT NULL,
      type TEXT NOT NULL,
      scopes TEXT NOT NULL,
      generation INTEGER NOT NULL,
      issued_at INTEGER NOT NULL,
      expires_at INTEGER,
      refresh_at INTEGER,
      access_token BLOB NOT NULL,
      PRIMARY KEY (account, scope, resource)
    ) STRICT;
    CREATE TABLE refresh_intents (
      account TEXT NOT NULL PRIMARY KEY
        REFERENCES grants (account) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
      refresh_token_hash TEXT NOT NULL,
      sent_at INTEGER NOT NULL,
      attempts INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE logins (
      id TEXT NOT NULL PRIMARY KEY,
      provider TEXT NOT NULL,
      account TEXT NOT NULL,
      redirect_uri TEXT NOT NULL,
      scopes TEXT NOT NULL,
      resource TEXT,
      max_age INTEGER,
      uid INTEGER NOT NULL,
      started_at INTEGER NOT NULL,
      expires_at INTEGER NOT NULL,
      state BLOB NOT NULL,
      nonce BLOB,
      verifier BLOB
    ) STRICT;
    CREATE TABLE revocations (
      id TEXT NOT NULL PRIMARY KEY,
      provider TEXT NOT NULL,
      hint TEXT NOT NULL,
      attempts INTEGER NOT NULL,
      retry_at INTEGER NOT NULL,
      expires_at INTEGER NOT NULL,
      token BLOB NOT NULL
    ) STRICT;
    CREATE TABLE settings (
      name TEXT NOT NULL PRIMARY KEY,
      value TEXT NOT NULL
    ) STRICT;
    """
}
