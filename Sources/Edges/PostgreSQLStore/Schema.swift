import Broker
import FoundationEssentials
import SQLite
import Sealing

/// The tables of the schema `grantd`. A released migration never changes; the next one only adds.
///
/// Rows are those of the SQLite store, with the same codes and seals. `refresh` has one small row for each account: its
/// lock, its lease and its intent.
enum Schema {
  static let version = 3
  /// "grnt": no two brokers migrate at the same time.
  private static let lock = 0x6772_6e74
  private static let migrations = [v1, v2, v3]

  /// Creates or completes the schema, in one transaction.
  static func migrate(_ session: DatabaseSession, at location: String, until deadline: Duration) throws {
    _ = try session.run(
      [
        Query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
        Query("SELECT set_config('synchronous_commit', 'on', true)"),
        Query("SELECT pg_advisory_xact_lock(\(lock))"),
      ], until: deadline)
    do {
      let found = try found(session, at: location, until: deadline)
      for (number, statements) in zip(1..., migrations) where number > found {
        _ = try session.run(statements.map { Query($0) }, until: deadline)
        _ = try session.ask(
          """
          INSERT INTO grantd.meta (name, value) VALUES ('version', $1::bytea)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value
          """, [.blob(Data("\(number)".utf8))], until: deadline)
      }
      _ = try session.ask("COMMIT", until: deadline)
    } catch {
      _ = try? session.ask("ROLLBACK", until: deadline)
      throw error
    }
  }

  /// The version of the schema; 0: it is empty.
  private static func found(_ session: DatabaseSession, at location: String, until deadline: Duration) throws -> Int {
    let encoding = try session.ask("SELECT current_setting('server_encoding')", until: deadline).value?.text
    guard encoding == "UTF8" else {
      throw StoreError.shared(.init(.schema, location, "its encoding is \(encoding ?? "unknown"), not UTF8"))
    }
    let tables = try session.ask(
      """
      SELECT count(*), count(*) FILTER (WHERE c.relname = 'meta')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'grantd' AND c.relkind IN ('r', 'p', 'v', 'S')
      """, until: deadline)
    let counts = tables.rows.first ?? []
    if counts.first?.integer == 0 {
      let isThere = try session.ask("SELECT 1 FROM pg_namespace WHERE nspname = 'grantd'", until: deadline)
      if isThere.rows.isEmpty { _ = try session.ask("CREATE SCHEMA grantd", until: deadline) }
      return 0
    }
    guard counts.last?.integer == 1 else {
      throw StoreError.shared(.init(.schema, location, "the schema grantd has other tables"))
    }
    let value = try session.ask("SELECT value FROM grantd.meta WHERE name = 'version'", until: deadline).value
    guard let data = value?.blob, let found = Int(String(decoding: data, as: UTF8.self)), found > 0 else {
      throw StoreError.shared(.init(.schema, location, "the table grantd.meta has no version"))
    }
    guard found <= version else { throw StoreError.newer(path: location, found: found, known: version) }
    return found
  }

  /// Records the key at the first start, and compares it later.
  static func checkKey(_ session: DatabaseSession, _ key: SealingKey, at location: String, until deadline: Duration)
    throws
  {
    _ = try session.ask(
      "INSERT INTO grantd.meta (name, value) VALUES ($1::text, $2::bytea) ON CONFLICT (name) DO NOTHING",
      [.text(Keyring.noteName), .blob(try Keyring.note(under: key.sealer))], until: deadline)
    let note = try session.ask(
      "SELECT value FROM grantd.meta WHERE name = $1::text", [.text(Keyring.noteName)], until: deadline)
    guard let data = note.value?.blob, case .key? = try? Keyring(key).find(data) else {
      throw StoreError.shared(.init(.key, location, "not the one in \(key.source)"))
    }
  }

  private static let text = #"text COLLATE "C""#

  private static let v1 = [
    "CREATE TABLE grantd.meta (name \(text) PRIMARY KEY, value bytea NOT NULL)",
    """
    CREATE TABLE grantd.grants (
      account \(text) PRIMARY KEY,
      provider \(text) NOT NULL,
      identity \(text),
      requested_scopes \(text) NOT NULL,
      granted_scopes \(text) NOT NULL,
      resource \(text),
      generation bigint NOT NULL,
      standing \(text) NOT NULL,
      standing_detail \(text),
      created_at bigint NOT NULL,
      logged_in_at bigint NOT NULL,
      refresh_token_expires_at bigint,
      refresh_token_issued_at bigint,
      expiry_announced_at bigint,
      kind \(text) NOT NULL,
      source_fingerprint \(text),
      refresh_token bytea,
      previous_refresh_token bytea,
      id_token bytea,
      extra bytea,
      dpop_key bytea,
      code bytea NOT NULL,
      revision bytea NOT NULL,
      issuer \(text)
    ) WITH (fillfactor = 70)
    """,
    """
    CREATE TABLE grantd.tokens (
      account \(text) NOT NULL REFERENCES grantd.grants (account) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
      scope \(text) NOT NULL,
      resource \(text) NOT NULL,
      type \(text) NOT NULL,
      scopes \(text) NOT NULL,
      generation bigint NOT NULL,
      issued_at bigint NOT NULL,
      expires_at bigint,
      refresh_at bigint,
      access_token bytea NOT NULL,
      reports \(text),
      code bytea NOT NULL,
      PRIMARY KEY (account, scope, resource)
    ) WITH (fillfactor = 70)
    """,
    """
    CREATE TABLE grantd.refresh (
      account \(text) PRIMARY KEY,
      fence bigint NOT NULL DEFAULT 0,
      node \(text),
      run \(text),
      until timestamptz,
      timeline \(text),
      refresh_token_hash \(text),
      sent_at bigint,
      attempts bigint,
      code bytea
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE grantd.logins (
      id \(text) PRIMARY KEY,
      provider \(text) NOT NULL,
      account \(text) NOT NULL,
      redirect_uri \(text) NOT NULL,
      scopes \(text) NOT NULL,
      resource \(text),
      max_age bigint,
      uid bigint NOT NULL,
      started_at bigint NOT NULL,
      expires_at bigint NOT NULL,
      state bytea NOT NULL,
      nonce bytea,
      verifier bytea,
      dpop_key bytea,
      device bytea,
      progress bytea,
      code bytea NOT NULL,
      state_hash \(text) NOT NULL,
      node \(text) NOT NULL,
      run \(text) NOT NULL,
      single \(text) UNIQUE
    )
    """,
    "CREATE INDEX logins_by_state ON grantd.logins (state_hash)",
    """
    CREATE TABLE grantd.revocations (
      id \(text) PRIMARY KEY,
      provider \(text) NOT NULL,
      hint \(text) NOT NULL,
      attempts bigint NOT NULL,
      retry_at bigint NOT NULL,
      expires_at bigint NOT NULL,
      context bytea,
      token bytea NOT NULL,
      code bytea NOT NULL,
      owner \(text) NOT NULL,
      holder \(text),
      until timestamptz
    )
    """,
    """
    CREATE TABLE grantd.registrations (
      provider \(text) PRIMARY KEY,
      issuer \(text) NOT NULL,
      client_id \(text) NOT NULL,
      created_at bigint NOT NULL,
      detail bytea NOT NULL,
      code bytea NOT NULL,
      revision bytea NOT NULL
    )
    """,
    """
    CREATE TABLE grantd.node (
      id \(text) PRIMARY KEY,
      run \(text) NOT NULL,
      name \(text) NOT NULL,
      version \(text) NOT NULL,
      schema_known bigint NOT NULL,
      key_ids \(text),
      started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
      seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
      ended_at timestamptz,
      clock_offset_ms bigint
    ) WITH (fillfactor = 50)
    """,
    // The latest group of commits of each node: a lost answer to COMMIT is settled here.
    """
    CREATE TABLE grantd.writer (
      node \(text) PRIMARY KEY,
      last bytea NOT NULL,
      applied \(text) NOT NULL
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE grantd.change (
      xact xid8 NOT NULL,
      kind \(text) NOT NULL,
      name \(text) NOT NULL,
      commit bytea NOT NULL,
      node \(text) NOT NULL,
      at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
    "CREATE INDEX change_by_xact ON grantd.change (xact)",
    "CREATE SEQUENCE grantd.fence AS bigint CACHE 1",
  ]

  /// When a lease was granted or prolonged, and when its refresh token could first be sent; and commits by their ids.
  private static let v2 = [
    "ALTER TABLE grantd.refresh ADD COLUMN renewed_at timestamptz, ADD COLUMN first_sent_at timestamptz",
    "CREATE INDEX change_by_commit ON grantd.change (commit)",
    "TRUNCATE grantd.change",
  ]

  /// An earlier holder of the lease, and until when its request may be answered.
  private static let v3 = [
    """
    ALTER TABLE grantd.refresh ADD COLUMN before_node \(text), ADD COLUMN before_run \(text),
      ADD COLUMN before_until timestamptz
    """
  ]
}
