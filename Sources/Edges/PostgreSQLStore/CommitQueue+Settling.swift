import Broker
import FoundationEssentials
import Grants
import SQLite
import Synchronization

// Whether a transaction without an answer was done, and the node's state in a database that may be another copy.
extension CommitQueue {
  /// Whether the transaction whose answer was lost was done. The row's lock waits for one that is being done, and one that
  /// begins later finds another group before it.
  func settle(_ group: CommitGroup, _ writer: Writer) throws -> String? {
    let answers = try fence(writer, try connected(), [])
    guard let row = answers[2].rows.first, row[0].blob == group.id else { return nil }
    return row[1].text
  }

  /// Makes transactions without an answer void: a transaction that begins later finds another group before it.
  private func fence(_ writer: Writer, _ session: DatabaseSession, _ questions: [Query]) throws -> [Answer] {
    let fence = Data(randomBytes(8))
    let known = [groups.latest] + groups.unconfirmed
    let places = known.indices.map { "$\($0 + 3)::bytea" }.joined(separator: ", ")
    // Its own COMMIT may be without an answer, too.
    groups.sends(fence)
    let answers = try send(
      fence, session,
      [
        Query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
        Query("SELECT set_config('lock_timeout', '4000', true), set_config('synchronous_commit', 'on', true)"),
        Query("SELECT last, applied FROM grantd.writer WHERE node = $1::text FOR UPDATE", [.text(writer.node)]),
        Query(
          """
          UPDATE grantd.writer SET last = $2::bytea
            WHERE node = $1::text AND last IN (\(places))
          """, [.text(writer.node), .blob(fence)] + known.map(ColumnValue.blob)),
      ] + questions + [Query("COMMIT")])
    let found = answers[2].value?.blob
    // Neither the latest group nor one without an answer: this is another copy, and so are its other answers.
    guard let found, known.contains(found) else {
      groups.withdraw(fence)
      throw otherCopy
    }
    groups.confirm(fence)
    return answers
  }

  /// - Parameter value: the value that the transaction writes. If it is refused, the value is not in the database.
  private func send(_ value: Data, _ session: DatabaseSession, _ queries: [Query]) throws -> [Answer] {
    do {
      return try session.run(queries, until: uptime() + Self.patience)
    } catch {
      if !error.isUnknown { groups.withdraw(value) }
      throw error
    }
  }

  /// Whether the commit is in the database. If not, it never will be.
  func contains(_ commit: Revision) async throws(StoreError) -> Bool {
    try await use { session, _ in
      guard let writer = self.writer else { throw StoreError.closed }
      let question = Query("SELECT 1::int8 FROM grantd.change WHERE commit = $1::bytea LIMIT 1", [.blob(commit.data)])
      return try !self.fence(writer, session, [question])[4].rows.isEmpty
    }
  }

  /// After a failure: registers the node again, with the first of the groups that follow.
  ///
  /// The row decides whether another process has the node's id: its lock may be left to an earlier session of this process
  /// or machine, which the server still believes to be connected.
  ///
  /// - Parameter isOwn: the lock excludes another process.
  func enter(_ node: OwnNode, isOwn: Bool, _ session: DatabaseSession, until deadline: Duration) throws {
    if try !isOwn && node.isReplaced(session, until: deadline) {
      throw StoreError.shared(.init(.sharedNode, target.location, "another process uses this machine's node id"))
    }
    let found = try session.run([Self.latest(of: node.id)], until: deadline)[0].value?.blob
    if groups.findsOther(found) { observers.copied() }
    let group = Data(randomBytes(8))
    groups.sends(group)
    var freed: [String]
    do {
      freed = try node.register(session, group: group, until: deadline)
    } catch {
      if let failure = error as? SessionFailure, !failure.isUnknown { groups.withdraw(group) }
      throw error
    }
    // Even if the answer to an earlier registration in the copy was lost.
    if groups.isInCopy {
      // A dump has leases that were given back since.
      let kept = held.withLock { $0.values.map { String(Int64(bitPattern: $0.fence)) } }
      freed += try node.release(session, except: kept, until: deadline)
    }
    groups.confirm(group)
    groups.entered()
    observers.changed(Set(freed.map { Report(.account, $0) }))
  }
}
