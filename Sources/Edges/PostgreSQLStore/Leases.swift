import Broker
import FoundationEssentials
import Grants
import OAuth
import SQLite
import StoreRows

// Leases, by the clock of the database. The row's lock is held, so each statement sees the latest row.
extension Writer {
  /// The parameters of a statement that name this run, and the refresh token that it sends.
  private struct LeaseParameters {
    var node, run, hash: String
  }

  /// When this run may take the lease. A run that ended sends nothing any more, and a request whose answer was
  /// committed has left no intent.
  private static func freeAt(_ takeover: Takeover, _ own: LeaseParameters) -> String {
    if takeover.isForced { return "'-infinity'::timestamptz" }
    let delayed = "coalesce(r.renewed_at, r.until) + interval '\(Takeover.delay.milliseconds) ms'"
    let pause = "interval '\(Takeover.pause.milliseconds) ms'"
    func isRepeatable(at moment: String) -> String {
      switch takeover.rotation {
      case .none: "true"
      case .grace(let grace):
        "(\(moment) + interval '\(Takeover.sendingTime.milliseconds) ms'"
          + " <= r.first_sent_at + interval '\(grace.milliseconds) ms')"
      case .strict: "false"
      }
    }
    return """
      greatest(
        CASE WHEN r.node IS NULL OR r.until IS NULL OR (r.node = \(own.node) AND r.run = \(own.run))
            THEN '-infinity'::timestamptz
          WHEN NOT EXISTS (SELECT 1 FROM grantd.node n WHERE n.id = r.node AND n.run = r.run AND n.ended_at IS NULL)
            THEN CASE WHEN r.refresh_token_hash IS NULL OR \(isRepeatable(at: "clock_timestamp()"))
              THEN '-infinity'::timestamptz
              ELSE coalesce((SELECT n.ended_at FROM grantd.node n WHERE n.id = r.node AND n.run = r.run) + \(pause),
                '-infinity'::timestamptz) END
          WHEN r.refresh_token_hash IS NULL OR \(isRepeatable(at: "greatest(r.until, clock_timestamp())")) THEN r.until
          ELSE \(delayed) END,
        CASE WHEN r.before_until IS NULL OR r.refresh_token_hash IS DISTINCT FROM \(own.hash)
            OR (r.before_node = \(own.node) AND r.before_run = \(own.run)) OR \(isRepeatable(at: "clock_timestamp()"))
            THEN '-infinity'::timestamptz
          ELSE r.before_until END)
      """
  }

  /// Notes an earlier holder whose request may still be answered. It stays if this run gives the lease back.
  private static func before(_ own: LeaseParameters) -> String {
    let isOwn = "(r.before_node = \(own.node) AND r.before_run = \(own.run))"
    let isKept = "r.refresh_token_hash = \(own.hash)"
    let isTaken = """
      \(isKept) AND r.until IS NOT NULL AND (r.node <> \(own.node) OR r.run <> \(own.run))
        AND EXISTS (SELECT 1 FROM grantd.node n WHERE n.id = r.node AND n.run = r.run AND n.ended_at IS NULL)
      """
    let end = "coalesce(r.renewed_at, r.until) + interval '\(Takeover.delay.milliseconds) ms'"
    return [("before_node", "r.node"), ("before_run", "r.run"), ("before_until", end)]
      .map {
        "\($0) = CASE WHEN \(isTaken) THEN \($1) WHEN \(isKept) AND NOT coalesce(\(isOwn), false) THEN r.\($0) END"
      }
      .joined(separator: ",\n    ")
  }

  /// What is on disk of the account's intent, before it is leased.
  static func intent(_ account: AccountName) -> Query {
    let columns = RefreshIntent.table.columns.joined(separator: ", ")
    return Query(
      "SELECT \(columns) FROM grantd.refresh WHERE account = $1::text AND refresh_token_hash IS NOT NULL",
      [.text(account.rawValue)])
  }

  /// The new intent, which continues the one on disk if that is of the same refresh token.
  func continued(_ intent: RefreshIntent, from before: [ColumnValue]?) -> RefreshIntent {
    guard let before, let old: RefreshIntent = try? PackedColumns(before).value(sealer),
      old.refreshTokenHash == intent.refreshTokenHash
    else { return intent }
    var intent = intent
    intent.sentAt = old.sentAt
    intent.attempts = max(intent.attempts, old.attempts + 1)
    return intent
  }

  /// Two statements: takes a free lease; otherwise returns its holder and the time left.
  ///
  /// - Parameters:
  ///   - intent: as of ``continued(_:from:)``.
  ///   - before: nothing is taken if the intent on disk is another one by now.
  func lease(
    _ intent: RefreshIntent, before: [ColumnValue]?, for duration: Duration, _ takeover: Takeover, timeline: String
  ) throws -> [Query] {
    let own = LeaseParameters(node: "$2::text", run: "$3::text", hash: "$6::text")
    let old = before?.last?.blob.map(ColumnValue.blob) ?? .null
    let taking = Query(
      """
      UPDATE grantd.refresh r SET fence = nextval('grantd.fence'), node = $2::text, run = $3::text,
          until = clock_timestamp() + ($1::int8 * interval '1 ms'), renewed_at = clock_timestamp(), timeline = $4::text,
          \(Self.before(own)),
          first_sent_at = CASE WHEN r.refresh_token_hash = $6::text AND r.first_sent_at IS NOT NULL
            THEN r.first_sent_at ELSE clock_timestamp() END,
          refresh_token_hash = $6::text, sent_at = $7::int8, attempts = $8::int8, code = $9::bytea
        WHERE r.account = $5::text AND \(Table.isAllowed) AND r.code IS NOT DISTINCT FROM $10::bytea
          AND \(Self.freeAt(takeover, own)) <= clock_timestamp()
        RETURNING r.fence
      """,
      [.integer(duration.milliseconds), .text(node), .text(run), .text(timeline)] + (try intent.values(sealer)) + [old])
    let holding = Query(
      """
      SELECT CASE WHEN isfinite(f.free_at) THEN (extract(epoch FROM (f.free_at - clock_timestamp())) * 1000)::int8 END,
          (SELECT name FROM grantd.node n WHERE n.id = f.node)
        FROM (SELECT coalesce(CASE WHEN r.run <> $3::text THEN r.node END, r.before_node) AS node,
            \(Self.freeAt(takeover, LeaseParameters(node: "$2::text", run: "$3::text", hash: "$4::text"))) AS free_at
          FROM grantd.refresh r WHERE r.account = $1::text) f
      """,
      [
        .text(intent.account.rawValue), .text(node), .text(run), .text(intent.refreshTokenHash),
      ])
    return [taking, holding]
  }

  func prolong(_ lease: Lease, for duration: Duration) -> Query {
    Query(
      """
      UPDATE grantd.refresh SET until = clock_timestamp() + ($1::int8 * interval '1 ms'), renewed_at = clock_timestamp()
        WHERE account = $2::text AND fence = $3::int8 AND node = $4::text AND run = $5::text RETURNING 1::int8
      """, [.integer(duration.milliseconds)] + named(lease))
  }

  func release(_ lease: Lease) -> Query {
    Query(
      """
      UPDATE grantd.refresh SET node = NULL, run = NULL, until = NULL
        WHERE account = $1::text AND fence = $2::int8 AND node = $3::text AND run = $4::text RETURNING 1::int8
      """, named(lease))
  }

  private func named(_ lease: Lease) -> [ColumnValue] {
    [.text(lease.account.rawValue), .integer(Int64(bitPattern: lease.fence)), .text(node), .text(run)]
  }
}
