import Broker
import FoundationEssentials
import Grants
import OAuth
import SQLite
import StoreRows

/// A commit or a lease that waits for its transaction.
struct Job: Sendable {
  enum Work: Sendable {
    case commit([Change])
    case lease(RefreshIntent, for: Duration, Takeover)
  }

  let work: Work
  let expecting: [Expectation]
  /// The commit's id.
  let revision: Data
  let answer: CheckedContinuation<Result<Leasing?, StoreError>, Never>

  /// The accounts whose rows of `refresh` are locked first.
  var accounts: [AccountName] {
    let changed: [AccountName] =
      switch work {
      case .commit(let changes): changes.compactMap(Writer.account(of:))
      case .lease(let intent, _, _): [intent.account]
      }
    let expected: [AccountName] = expecting.compactMap { expectation in
      switch expectation {
      case .lease(let lease): lease.account
      case .revision(let account, _): account
      case .login, .revocation, .noRegistration: nil
      }
    }
    return changed + expected
  }

  /// The registrations whose names are locked.
  var registrations: [ProviderName] {
    expecting.compactMap { if case .noRegistration(let name) = $0 { name } else { nil } }
  }

  func expects(_ login: LoginID) -> Bool { expecting.contains(.login(login)) }
}

/// One transaction of several jobs: all statements are sent at once, and flushed once.
struct CommitGroup {
  /// Commits in one transaction.
  static let limit = 64
  /// A statement waits so long for a lock of another session.
  private static let lockTimeout = Duration.seconds(4)

  /// "grnr": the locks of names of registrations.
  private static let names = Int32(0x6772_6e72)

  let id: Data
  private let jobs: [Job]
  private(set) var queries: [Query] = []
  /// For each job the index of its check, and of its first further answer.
  private var places: [(check: Int, lease: Int?)] = []
  /// What other brokers are notified of if the commit's expectations held.
  private var concerned: [Set<Report>] = []
  /// The intents of leases, as they are on disk if the lease was granted.
  private let intents: [AccountName: Intent]

  /// An intent that a lease writes, and the row that was on disk.
  struct Intent {
    let new: RefreshIntent
    let before: [ColumnValue]?
  }

  /// - Parameter previous: the id of the group before it, as the database has it: a transaction that was given up, and
  ///   that the server begins late, finds another one and writes nothing.
  init(
    _ jobs: [Job], by writer: Writer, id: Data, after previous: Data, timeline: String, intents: [AccountName: Intent],
    isKnown: (LoginID) -> Bool
  ) throws {
    self.id = id
    self.jobs = jobs
    self.intents = intents
    queries = [
      Query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
      Query(
        """
        SELECT set_config('synchronous_commit', 'on', true), set_config('grantd.applied', '', true),
          set_config('lock_timeout', '\(Self.lockTimeout.milliseconds)', true), set_config('grantd.next', 'f', true)
        """),
      Query(
        """
        SELECT set_config('grantd.next', CASE WHEN last = $2::bytea THEN 't' ELSE 'f' END, true)
          FROM grantd.writer WHERE node = $1::text FOR UPDATE
        """, [.text(writer.node), .blob(previous)]),
    ]
    lock(Set(jobs.flatMap(\.accounts)).sorted())
    for name in Set(jobs.flatMap(\.registrations)).sorted(by: { $0.rawValue < $1.rawValue }) {
      queries.append(
        Query("SELECT pg_advisory_xact_lock(\(Self.names), hashtext($1::text))", [.text(name.rawValue)]))
    }
    for job in jobs { try add(job, writer, timeline: timeline, isKnown: isKnown) }
    queries.append(
      Query(
        """
        UPDATE grantd.writer SET last = $2::bytea, applied = current_setting('grantd.applied')
          WHERE node = $1::text AND current_setting('grantd.next') = 't'
        """, [.text(writer.node), .blob(id)]))
    queries.append(Query("COMMIT"))
  }

  /// In one order at all brokers, so that no two wait for each other.
  private mutating func lock(_ accounts: [AccountName]) {
    guard !accounts.isEmpty else { return }
    let names = ColumnValue.text(Writer.list(accounts))
    queries.append(
      Query(
        """
        INSERT INTO grantd.refresh (account)
          SELECT name FROM unnest(string_to_array($1::text, ' ')) name ORDER BY name COLLATE "C"
          ON CONFLICT (account) DO NOTHING
        """, [names]))
    queries.append(
      Query(
        """
        SELECT 1 FROM grantd.refresh WHERE account = ANY (string_to_array($1::text, ' '))
          ORDER BY account FOR UPDATE
        """, [names]))
  }

  private mutating func add(
    _ job: Job, _ writer: Writer, timeline: String, isKnown: (LoginID) -> Bool
  ) throws {
    let check = queries.count
    queries.append(writer.check(job.expecting))
    var reports: Set<Report> = []
    switch job.work {
    case .lease(let intent, let duration, let takeover):
      places.append((check, queries.count))
      let intents = intents[intent.account]
      queries += try writer.lease(
        intents?.new ?? intent, before: intents?.before, for: duration, takeover, timeline: timeline)
    case .commit(let changes):
      places.append((check, nil))
      for change in changes {
        queries += try writer.queries(change, revision: job.revision) { isKnown($0) || job.expects($0) }
      }
      reports = Set(changes.compactMap { Report($0) })
      queries += writer.revise(changes, job.revision) + writer.record(reports, job.revision)
    }
    concerned.append(reports)
  }

  // MARK: Answers

  /// Whether the group before it was the one that this process wrote.
  func isNext(_ answers: [Answer]) -> Bool { answers[2].value?.text == "t" }

  /// The answer to each job, and what other brokers are notified of.
  func results(_ answers: [Answer]) -> (results: [Result<Leasing?, StoreError>], told: Set<Report>) {
    var (results, told) = ([Result<Leasing?, StoreError>](), Set<Report>())
    for (index, job) in jobs.enumerated() {
      let place = places[index]
      guard answers[place.check].value?.text == "t" else {
        results.append(.failure(.conflict))
        continue
      }
      told.formUnion(concerned[index])
      guard let lease = place.lease, case .lease(let intent, _, _) = job.work else {
        results.append(.success(nil))
        continue
      }
      if let fence = answers[lease].value?.integer {
        let lease = Lease(account: intent.account, fence: UInt64(bitPattern: fence))
        results.append(.success(.granted(lease, intents[intent.account]?.new ?? intent)))
      } else {
        // No row: the lease is free by now.
        let row = answers[lease + 1].rows.first ?? [.null, .null]
        results.append(
          .success(
            .held(LeaseHolder(name: row[1].text ?? "unknown", remaining: .milliseconds(max(0, row[0].integer ?? 0))))))
      }
    }
    return (results, told)
  }

  /// The answers to a group whose COMMIT was done, although its answer was lost. Leases are not granted: they may have
  /// ended since.
  func settled(_ applied: String) -> (results: [Result<Leasing?, StoreError>], told: Set<Report>) {
    var (results, told) = ([Result<Leasing?, StoreError>](), Set<Report>())
    for (index, mark) in zip(jobs.indices, applied) {
      guard mark == "t" else {
        results.append(.failure(.conflict))
        continue
      }
      told.formUnion(concerned[index])
      if case .lease = jobs[index].work {
        results.append(.success(.held(LeaseHolder(name: "unknown", remaining: .zero))))
      } else {
        results.append(.success(nil))
      }
    }
    return (results, told)
  }
}
