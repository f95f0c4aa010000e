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
    case lease(RefreshIntent, for: Duration)
  }

  let work: Work
  let expecting: [Expectation]
  /// The commit's id: 8 random bytes.
  let revision: Data
  let answer: CheckedContinuation<Result<Leasing?, StoreError>, Never>

  /// The accounts whose rows of `refresh` are locked first.
  var accounts: [AccountName] {
    let changed: [AccountName] =
      switch work {
      case .commit(let changes): changes.compactMap(Writer.account(of:))
      case .lease(let intent, _): [intent.account]
      }
    let expected: [AccountName] = expecting.compactMap { expectation in
      switch expectation {
      case .lease(let lease): lease.account
      case .generation(let account, _): account
      case .login: nil
      }
    }
    return changed + expected
  }
}

/// One transaction of several jobs: all statements are sent at once, and flushed once.
struct CommitGroup {
  /// Commits in one transaction.
  static let limit = 64
  /// A statement waits so long for a lock of another session.
  private static let lockTimeout = Duration.seconds(4)

  let id: Data
  private let jobs: [Job]
  private(set) var queries: [Query] = []
  /// For each job the index of its check, and of its first further answer.
  private var places: [(check: Int, lease: Int?)] = []
  /// The accounts that other brokers are notified of if the commit's expectations held.
  private var concerned: [[AccountName]] = []
  /// The indices of statements that return accounts, of removed logins.
  private var removals: [[Int]] = []

  /// - Parameter previous: the id of the group before it, as the database has it: a transaction that was given up, and
  ///   that the server begins late, finds another one and writes nothing.
  init(
    _ jobs: [Job], by writer: Writer, id: Data, after previous: Data, timeline: String, isKnown: (LoginID) -> Bool
  ) throws {
    self.id = id
    self.jobs = jobs
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
    // A list as one text: no account's name has a space.
    let names = ColumnValue.text(accounts.map(\.rawValue).joined(separator: " "))
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
    var (told, removed) = ([AccountName](), [Int]())
    switch job.work {
    case .lease(let intent, let duration):
      places.append((check, queries.count))
      queries += try writer.lease(intent, for: duration, timeline: timeline)
    case .commit(let changes):
      places.append((check, nil))
      for change in changes {
        if case .removeLogin = change { removed.append(queries.count) }
        queries += try writer.queries(change, revision: job.revision, isKnown: isKnown)
        if case .putLogin(let login) = change { told.append(login.account) }
      }
      let accounts = Set(changes.compactMap(Writer.account(of:))).sorted()
      for account in accounts { queries += writer.told("account", account, job.revision) }
      told += accounts
    }
    concerned.append(told)
    removals.append(removed)
  }

  // MARK: Answers

  /// Whether the group before it was the one that this process wrote.
  func isNext(_ answers: [Answer]) -> Bool { answers[2].value?.text == "t" }

  /// The answer to each job, and the accounts that other brokers are notified of.
  func results(_ answers: [Answer]) -> (results: [Result<Leasing?, StoreError>], told: Set<AccountName>) {
    var (results, told) = ([Result<Leasing?, StoreError>](), Set<AccountName>())
    for (index, job) in jobs.enumerated() {
      let place = places[index]
      guard answers[place.check].value?.text == "t" else {
        results.append(.failure(.conflict))
        continue
      }
      told.formUnion(concerned[index])
      for place in removals[index] {
        for row in answers[place].rows { if let name = row.first?.text.flatMap(AccountName.init) { told.insert(name) } }
      }
      guard let lease = place.lease, case .lease(let intent, _) = job.work else {
        results.append(.success(nil))
        continue
      }
      if let fence = answers[lease].value?.integer {
        results.append(.success(.granted(Lease(account: intent.account, fence: UInt64(bitPattern: fence)))))
      } else {
        let left = answers[lease + 1].value?.integer ?? 0
        results.append(.success(.held(for: .milliseconds(max(0, left)))))
      }
    }
    return (results, told)
  }

  /// The answers to a group whose COMMIT was done, although its answer was lost. Leases are not granted: they may have
  /// ended since.
  func settled(_ applied: String) -> (results: [Result<Leasing?, StoreError>], told: Set<AccountName>) {
    var (results, told) = ([Result<Leasing?, StoreError>](), Set<AccountName>())
    for (index, mark) in zip(jobs.indices, applied) {
      guard mark == "t" else {
        results.append(.failure(.conflict))
        continue
      }
      told.formUnion(concerned[index])
      if case .lease = jobs[index].work {
        results.append(.success(.held(for: .zero)))
      } else {
        results.append(.success(nil))
      }
    }
    return (results, told)
  }
}
