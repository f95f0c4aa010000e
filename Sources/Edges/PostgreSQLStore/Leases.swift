import Broker
import FoundationEssentials
import Grants
import OAuth
import SQLite
import StoreRows

// Leases, by the clock of the database. The row's lock is held, so each statement sees the latest row.
extension Writer {
  /// After a lease ended whose request has no answer, its holder may still be reading it: a provider that rotates strictly
  /// takes a second use of the token for theft.
  static let takeover = Duration.seconds(600)

  /// The end of the time in which only the holder may send. A run that ended sends nothing any more.
  private static let freeAt = """
    CASE WHEN r.node IS NULL OR r.until IS NULL THEN '-infinity'::timestamptz
      WHEN NOT EXISTS (SELECT 1 FROM grantd.node n WHERE n.id = r.node AND n.run = r.run AND n.ended_at IS NULL)
        THEN '-infinity'::timestamptz
      WHEN r.refresh_token_hash IS NULL THEN r.until
      ELSE greatest(r.until, r.until - ($1::int8 * interval '1 ms') + ($2::int8 * interval '1 ms')) END
    """

  /// Two statements: takes the lease where it is free, and says how long it is held otherwise.
  func lease(_ intent: RefreshIntent, for duration: Duration, timeline: String) throws -> [Query] {
    let times: [ColumnValue] = [.integer(duration.milliseconds), .integer(Self.takeover.milliseconds)]
    let taking = Query(
      """
      UPDATE grantd.refresh r SET fence = nextval('grantd.fence'), node = $3::text, run = $4::text,
          until = clock_timestamp() + ($1::int8 * interval '1 ms'), timeline = $5::text,
          refresh_token_hash = $7::text, sent_at = $8::int8, attempts = $9::int8, code = $10::bytea
        WHERE r.account = $6::text AND \(Table.isAllowed)
          AND ((r.node = $3::text AND r.run = $4::text) OR (\(Self.freeAt)) <= clock_timestamp())
        RETURNING r.fence
      """, times + [.text(node), .text(run), .text(timeline)] + (try intent.values(sealer)))
    let holding = Query(
      """
      SELECT (extract(epoch FROM ((\(Self.freeAt)) - clock_timestamp())) * 1000)::int8
        FROM grantd.refresh r WHERE r.account = $3::text AND r.node IS NOT NULL AND (\(Self.freeAt)) <> '-infinity'
      """, times + [.text(intent.account.rawValue)])
    return [taking, holding]
  }

  func prolong(_ lease: Lease, for duration: Duration) -> Query {
    Query(
      """
      UPDATE grantd.refresh SET until = clock_timestamp() + ($1::int8 * interval '1 ms')
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
