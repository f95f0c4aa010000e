import Broker
import FoundationEssentials
import Grants
import OAuth
import SQLite
import StoreRows

// Leases, by the clock of the database. The row's lock is held, so each statement sees the latest row.
extension Writer {
  /// When another broker may take the lease. A run that ended sends nothing any more, and a request whose answer was
  /// committed has left no intent.
  private static func freeAt(_ takeover: Takeover) -> String {
    if takeover.isForced { return "'-infinity'::timestamptz" }
    let delayed = "coalesce(r.renewed_at, r.until) + interval '\(Takeover.delay.milliseconds) ms'"
    let rule =
      switch takeover.rotation {
      case .none: "r.until"
      case .grace(let grace):
        "CASE WHEN greatest(r.until, clock_timestamp()) <= r.first_sent_at + interval '\(grace.milliseconds) ms'"
          + " THEN r.until ELSE \(delayed) END"
      case .strict: delayed
      }
    return """
      CASE WHEN r.node IS NULL OR r.until IS NULL THEN '-infinity'::timestamptz
        WHEN NOT EXISTS (SELECT 1 FROM grantd.node n WHERE n.id = r.node AND n.run = r.run AND n.ended_at IS NULL)
          THEN '-infinity'::timestamptz
        WHEN r.refresh_token_hash IS NULL THEN r.until
        ELSE \(rule) END
      """
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
    let freeAt = Self.freeAt(takeover)
    let old = before?.last?.blob.map(ColumnValue.blob) ?? .null
    let taking = Query(
      """
      UPDATE grantd.refresh r SET fence = nextval('grantd.fence'), node = $2::text, run = $3::text,
          until = clock_timestamp() + ($1::int8 * interval '1 ms'), renewed_at = clock_timestamp(), timeline = $4::text,
          first_sent_at = CASE WHEN r.refresh_token_hash = $6::text AND r.first_sent_at IS NOT NULL
            THEN r.first_sent_at ELSE clock_timestamp() END,
          refresh_token_hash = $6::text, sent_at = $7::int8, attempts = $8::int8, code = $9::bytea
        WHERE r.account = $5::text AND \(Table.isAllowed) AND r.code IS NOT DISTINCT FROM $10::bytea
          AND ((r.node = $2::text AND r.run = $3::text) OR (\(freeAt)) <= clock_timestamp())
        RETURNING r.fence
      """,
      [.integer(duration.milliseconds), .text(node), .text(run), .text(timeline)] + (try intent.values(sealer)) + [old])
    let holding = Query(
      """
      SELECT CASE WHEN isfinite(f.free_at) THEN (extract(epoch FROM (f.free_at - clock_timestamp())) * 1000)::int8 END,
          (SELECT name FROM grantd.node n WHERE n.id = f.node)
        FROM (SELECT r.node, \(freeAt) AS free_at FROM grantd.refresh r WHERE r.account = $1::text) f
      """, [.text(intent.account.rawValue)])
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
