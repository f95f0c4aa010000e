import Broker
import OAuth
import SQLite
import Synchronization

// The machine's sign of life, and its view of the other machines, on the queue.
extension Keeper {
  /// Another offset of the clock, in milliseconds, is written at once.
  private static let clockStep: Int64 = 500

  /// One round trip. The clock's offset is written with the next sign, or at once if it is new.
  func beat(_ session: DatabaseSession) throws {
    let begun = clock.uptime()
    let answers = try run(session, [sign(), SharedStoreState.facts, SharedStoreState.query])
    last.heartbeat = begun
    let row = answers[0].rows.first
    var machines = answers[2]
    if let time = row?.first?.integer {
      let (old, offset) = (clockOffset, clock.now().milliseconds - time)
      clockOffset = offset
      if old.map({ abs($0 - offset) > Self.clockStep }) ?? true {
        machines = try run(session, [sign(), SharedStoreState.query])[1]
      }
    }
    var state = SharedStoreState(answers[1], machines, own: node.id)
    state.isDeaf = connection.isDeaf
    state.isReplaced = row == nil
    let new = state
    shared.withLock { $0.seen = new }
  }

  /// The sign of life, which returns the database's time.
  private func sign() -> Query {
    Query(
      """
      UPDATE grantd.node SET seen_at = clock_timestamp(), clock_offset_ms = coalesce($3::int8, clock_offset_ms)
        WHERE id = $1::text AND run = $2::text RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::int8
      """, [.text(node.id), .text(node.run), clockOffset.map(ColumnValue.integer) ?? .null])
  }
}
