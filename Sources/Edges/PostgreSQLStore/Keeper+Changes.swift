import Broker
import FoundationEssentials
import Grants
import SQLite
import Synchronization

// Changes of other machines, and notifications of this one's, on the queue.
extension Keeper {
  /// Reads the change log from the oldest transaction that was running at the last reading.
  func catchUp(_ session: DatabaseSession) throws {
    let answers = try run(
      session,
      [
        Query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        Query("SELECT pg_snapshot_xmin(pg_current_snapshot())::text"),
        Query(
          """
          SELECT (SELECT system_identifier FROM pg_control_system())::text || ' ' ||
            substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || ' ' || 'grantd.grants'::regclass::oid::text
            || ' ' || (SELECT oid FROM pg_database WHERE datname = current_database())::text,
            substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
          """),
        Query(
          """
          SELECT DISTINCT kind || ' ' || name FROM grantd.change WHERE xact >= $1::text::xid8 AND node <> $2::text
          """, [.text(log.position ?? "18446744073709551615"), .text(node.id)]),
        Query("COMMIT"),
      ])
    let now = clock.uptime()
    log.triedAt = now
    let found = answers[2].value?.text
    if let known = log.identity, found != known { foundCopy() }
    let isLate = log.readAt.map { now - $0 > Self.kept / 2 } ?? false
    // If this query fails, the next reading has the same position and compares all again.
    let all = log.mustCompare || isLate ? try everything(session) : []
    log.mustCompare = false
    log.position = answers[1].value?.text
    log.readAt = now
    if log.identity != found {
      log.identity = found
      onTimeline(answers[2].rows.first?[1].text ?? "")
    }
    yield(all)
    yield(answers[3].rows.compactMap { $0.first?.text })
  }

  /// A line for each row that machines share.
  private func everything(_ session: DatabaseSession) throws -> [String] {
    try run(
      session,
      [
        Query(
          """
          SELECT 'account ' || account FROM grantd.grants UNION ALL SELECT 'login ' || id FROM grantd.logins
            UNION ALL SELECT 'registration ' || provider FROM grantd.registrations UNION ALL SELECT 'revocation *'
          """)
      ])[0].rows.compactMap { $0.first?.text }
  }

  private func yield(_ lines: [String]) {
    for change in ChangesElsewhere.all(lines.compactMap { Report(line: $0) }) { changes.yield(change) }
  }

  func hear() {
    guard let session = connection.session else { return }
    do {
      for payload in try session.listen() {
        let lines = payload.split(separator: "\n").map(String.init)
        guard let from = lines.first, from != node.id else { continue }
        yield(Array(lines.dropFirst()))
      }
    } catch {
      disconnect()
    }
  }

  func notify() {
    let reports = shared.withLock { shared in
      defer { shared.waiting = [] }
      return shared.waiting
    }
    guard !reports.isEmpty else { return }
    // Lost, if there is no connection: the others read the change log.
    guard let session = try? connected() else { return }
    var (queries, payload) = ([Query](), "")
    for line in reports.map(\.line) {
      if payload.utf8.count + line.utf8.count > Self.longestPayload {
        queries.append(notification(payload))
        payload = ""
      }
      payload += "\n\(line)"
    }
    queries.append(notification(payload))
    _ = try? run(session, queries)
    hear()
  }

  private func notification(_ payload: String) -> Query {
    Query("SELECT pg_notify('\(Self.channel)', $1::text)", [.text(node.id + payload)])
  }
}
