import Broker
import SQLite

/// What the latest sign of life found, for `status` and `doctor`.
struct SharedStoreState: Sendable {
  var failure: StoreError?
  var machines: [SharedStoreView.Machine] = []
  var leases = 0
  var warnings: [String] = []
  var clockOffset: Duration?
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
    machines = nodes.rows.map { row in
      SharedStoreView.Machine(
        id: row[0].text ?? "", name: row[1].text ?? "", version: row[2].text ?? "",
        seen: .milliseconds(row[3].integer ?? 0), hasEnded: row[4].integer == 1, isOwn: row[0].text == own,
        clockOffset: row[5].integer.map { .milliseconds($0) }, leases: Int(row[7].integer ?? 0))
    }
  }

  /// Clocks this far apart are reported: a login's time is compared between machines.
  private static let tolerance = Duration.seconds(3)

  var view: SharedStoreView {
    var notices = warnings
    if isDeaf { notices.append("no notification arrives: changes of other machines are read each second") }
    if isReplaced { notices.append("another process uses this machine's node id: restart grantd here") }
    for machine in machines {
      guard !machine.hasEnded, let offset = machine.clockOffset, abs(offset) > Self.tolerance else { continue }
      notices.append("the clock of \(machine.name) differs from the database's by \(offset.components.seconds) s")
    }
    return SharedStoreView(machines: machines, leases: leases, schema: Schema.version, warnings: notices)
  }

  private func abs(_ duration: Duration) -> Duration { duration < .zero ? .zero - duration : duration }
}
