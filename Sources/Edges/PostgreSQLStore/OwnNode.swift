import Broker
import FoundationEssentials
import OAuth
import SQLite

/// This machine, as the other machines of the database see it.
struct OwnNode: Sendable {
  /// The machine's, kept in its own SQLite database: 16 hexadecimal digits.
  var id: String
  /// This process's.
  let run: String
  let name: String
  let version: String

  var node: Node { Node(id: id, run: run) }

  /// After this time without a sign, a session that still has a node's lock is dead.
  static let silence = Duration.seconds(12)
  /// How often a running broker gives a sign.
  static let heartbeat = Duration.seconds(5)

  /// Takes the node's lock for as long as the session lasts. False: another session has it.
  func lock(_ session: DatabaseSession, until deadline: Duration) throws -> Bool {
    let answer = try session.ask(
      "SELECT pg_try_advisory_lock(\(Int32(0x6772_6e74)), hashtext($1::text))", [.text(id)], until: deadline)
    return answer.value?.integer == 1
  }

  /// When another run of this node gave its latest sign, as a number that changes.
  func sign(_ session: DatabaseSession, until deadline: Duration) throws -> String? {
    try session.ask(
      "SELECT seen_at::text || run FROM grantd.node WHERE id = $1::text", [.text(id)], until: deadline
    ).value?.text
  }

  /// Whether another run, which gave a sign just now, is registered.
  func isReplaced(_ session: DatabaseSession, until deadline: Duration) throws -> Bool {
    let answer = try session.ask(
      """
      SELECT 1::int8 FROM grantd.node WHERE id = $1::text AND run <> $2::text AND ended_at IS NULL
        AND seen_at > clock_timestamp() - interval '\(Self.silence.components.seconds) s'
      """, [.text(id), .text(run)], until: deadline)
    return !answer.rows.isEmpty
  }

  /// A lease whose run ended. The provider may have a request without an answer in a queue, which comes first.
  private static let freed = """
    node = NULL, run = NULL, until = NULL,
      before_node = CASE WHEN refresh_token_hash IS NULL THEN before_node ELSE node END,
      before_run = CASE WHEN refresh_token_hash IS NULL THEN before_run ELSE run END,
      before_until = CASE WHEN refresh_token_hash IS NULL THEN before_until
        ELSE greatest(before_until, clock_timestamp() + interval '\(Takeover.pause.milliseconds) ms') END
    """

  /// Records this run. What the one before it held is free, and its logins are this one's.
  ///
  /// - Parameter group: the first value of the node's ``CommitGroup/id``.
  /// - Returns: the accounts whose leases ended with the run before.
  func register(_ session: DatabaseSession, group: Data, until deadline: Duration) throws -> [String] {
    let values: [ColumnValue] = [.text(id), .text(run)]
    let answers = try session.run(
      [
        Query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
        Query("SELECT set_config('synchronous_commit', 'on', true)"),
        Query(
          """
          INSERT INTO grantd.node (id, run, name, version, schema_known)
            VALUES ($1::text, $2::text, $3::text, $4::text, $5::int8)
            ON CONFLICT (id) DO UPDATE SET run = excluded.run, name = excluded.name, version = excluded.version,
              schema_known = excluded.schema_known, seen_at = clock_timestamp(), ended_at = NULL,
              started_at = CASE WHEN node.run = excluded.run THEN node.started_at ELSE clock_timestamp() END
          """, values + [.text(name), .text(version), .integer(Int64(Schema.version))]),
        Query(
          """
          INSERT INTO grantd.writer (node, last, applied) VALUES ($1::text, $2::bytea, '')
            ON CONFLICT (node) DO UPDATE SET last = excluded.last, applied = ''
          """, [.text(id), .blob(group)]),
        Query("UPDATE grantd.logins SET run = $2::text WHERE node = $1::text", values),
        Query(
          """
          UPDATE grantd.refresh SET \(Self.freed) WHERE node = $1::text AND run <> $2::text RETURNING account
          """, values),
        Query("COMMIT"),
      ], until: deadline)
    return answers[5].rows.compactMap { $0.first?.text }
  }

  /// Gives back this run's leases except those with the fences, and returns their accounts.
  func release(_ session: DatabaseSession, except fences: [String], until deadline: Duration) throws -> [String] {
    let query = Query(
      """
      UPDATE grantd.refresh SET node = NULL, run = NULL, until = NULL WHERE node = $1::text AND run = $2::text
        AND fence <> ALL (string_to_array($3::text, ' ')::int8[]) RETURNING account
      """, [.text(id), .text(run), .text(fences.joined(separator: " "))])
    return try session.run([query], until: deadline)[0].rows.compactMap { $0.first?.text }
  }

  /// The goodbye: other machines need not wait for the leases of this run.
  func end(_ session: DatabaseSession, until deadline: Duration) throws {
    let values: [ColumnValue] = [.text(id), .text(run)]
    _ = try session.run(
      [
        Query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
        Query(
          "UPDATE grantd.node SET ended_at = clock_timestamp() WHERE id = $1::text AND run = $2::text", values),
        Query(
          "UPDATE grantd.refresh SET \(Self.freed) WHERE node = $1::text AND run = $2::text", values),
        Query("COMMIT"),
      ], until: deadline)
  }
}
