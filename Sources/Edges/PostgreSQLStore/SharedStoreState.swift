import Broker
import BrokerAPI
import SQLite

/// The results of the latest sign of life, for `status` and `doctor`.
struct SharedStoreState: Sendable {
  var failure: StoreError?
  var machines: [BrokerStatus.MachineView] = []
  var leases = 0
  var warnings: [String] = []
  /// One for each machine whose clock differs.
  var clockWarnings: [String] = []
  var isDeaf = false
  /// Another process registered this machine's node id.
  var isReplaced = false

  init() {}

  /// Settings of the server that a promise depends on.
  static let facts = Query(
    """
    SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
      (SELECT count(*) FROM pg_stat_replication), (SELECT count(*) FROM grantd.refresh WHERE node IS NOT NULL)
    """)

  static let query = Query(
    """
    SELECT id, name, version, (extract(epoch FROM (clock_timestamp() - seen_at)) * 1000)::int8, ended_at IS NOT NULL,
        clock_offset_ms, schema_known,
        (SELECT count(*) FROM grantd.refresh r WHERE r.node = n.id AND r.run = n.run)
      FROM grantd.node n WHERE seen_at > clock_timestamp() - interval '1 day' ORDER BY name, id LIMIT 64
    """)

  init(_ facts: Answer, _ nodes: Answer, own: String) {
    let row = facts.rows.first ?? []
    func text(_ index: Int) -> String? { index < row.count ? row[index].text : nil }
    if text(0) == "off" { warnings.append("the server has fsync off: a power failure loses tokens") }
    if text(1) == "off" { warnings.append("the server has full_page_writes off: a power failure damages tables") }
    let standbys = row.count > 3 ? row[3].integer ?? 0 : 0
    if standbys > 0, text(2) == "" {
      warnings.append(
        "standbys are asynchronous: a failover may lose the latest tokens, whose accounts then need a login")
    }
    leases = Int(row.count > 4 ? row[4].integer ?? 0 : 0)
    for row in nodes.rows {
      let (name, hasEnded) = (row[1].text ?? "", row[4].integer == 1)
      let (seen, offset) = (row[3].integer ?? 0, row[5].integer)
      machines.append(
        .init(
          node: row[0].text ?? "", name: name, version: row[2].text ?? "",
          state: row[0].text == own
            ? "self" : hasEnded ? "stopped" : .milliseconds(seen) > Self.silence ? "silent" : "running",
          seen_seconds: seen / 1000, clock_offset_seconds: offset.map { Double($0) / 1000 },
          leases: Int(row[7].integer ?? 0)))
      guard !hasEnded, let offset, !Self.tolerance.contains(.milliseconds(offset)) else { continue }
      clockWarnings.append("the clock of \(name) differs from the database's by \(offset / 1000) s")
    }
  }

  /// A machine without a sign of life for this time is silent.
  private static let silence = Duration.seconds(15)
  /// Offsets of clocks beyond these are reported: a login's time is compared between machines.
  private static let tolerance: ClosedRange<Duration> = .seconds(-3)...(.seconds(3))

  var view: BrokerStatus.SharingView {
    var notices = warnings
    if isDeaf { notices.append("no notification arrives: changes of other machines are read each second") }
    if isReplaced { notices.append("another process uses this machine's node id: restart grantd here") }
    return .init(machines: machines, leases: leases, schema: Schema.version, warnings: notices + clockWarnings)
  }
}
