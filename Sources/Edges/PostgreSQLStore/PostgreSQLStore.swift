public import Broker
public import BrokerAPI
import FoundationEssentials
public import Grants
public import OAuth
import SQLite
public import SQLiteStore
public import Sealing
import StoreRows
import Synchronization

/// Accounts that several machines share, in PostgreSQL; and this machine's own data, in its SQLite database: declared
/// accounts and small values.
public final class PostgreSQLStore: Store {
  let own: SQLiteStore
  let queue: CommitQueue
  let keeper: Keeper
  let writer: Writer
  /// Memory of the packed accounts.
  let memory = PackedMemory()
  let local: Mutex<LocalRows>
  let found = Mutex<[RowName: SetAsideRow]>([:])
  public let changesElsewhere: AsyncStream<ChangesElsewhere>?
  public let node: Node?
  private let ownNode: OwnNode

  public var location: String { queue.target.location }

  /// What happened as it was opened, for the log.
  public let notices: [String]

  /// The value of the machine's own database that has its node id.
  static let nodeKey = "shared.node"
  /// Changes of other machines that wait to be read by the broker.
  static let changesLimit = 1 << 20

  /// Connects, creates or completes the schema, and registers this machine.
  ///
  /// - Parameters:
  ///   - own: the machine's own database, which is closed with this store.
  ///   - key: the same at every machine.
  ///   - machine: its name, for people.
  public static func open(
    own: SQLiteStore, key: SealingKey, connection: String, password: Secret?, machine: String, version: String,
    system: SystemDependencies
  ) async throws(StoreError) -> PostgreSQLStore {
    let target = try Target(connection, password: password)
    let uptime = system.uptime
    let queue = CommitQueue(target, uptime: uptime, randomBytes: system.randomBytes)
    try await queue.use { session, deadline in
      try Schema.migrate(session, at: target.location, until: deadline)
      try Schema.checkKey(session, key, at: target.location, until: deadline)
    }
    let values = try await own.loadRest().values
    var node = OwnNode(
      id: values[nodeKey] ?? hexadecimal(system.randomBytes(8)),
      run: hexadecimal(system.randomBytes(8)), name: machine, version: version)
    let (changes, continuation) = AsyncStream.makeStream(
      of: ChangesElsewhere.self, bufferingPolicy: .bufferingNewest(changesLimit))
    let keeper = Keeper(
      target, node, SharedStoreClock(now: system.now, uptime: uptime), continuation)
    let known = node.id
    node.id = try await keeper.claim(system.randomBytes)
    let registered = node
    var notices: [String] = []
    if values[nodeKey] != node.id { try await own.commit([.putValue(nodeKey, node.id)]) }
    if known != node.id {
      notices.append(
        "another running grantd has this machine's node id, as after copying a state folder: it gets a new one")
    }
    let writer = Writer(node: node.id, run: node.run, sealer: key.sealer)
    let group = Data(system.randomBytes(8))
    let freed = try await queue.use { session, deadline in
      queue.writer = writer
      queue.groups.confirm(group)
      return try registered.register(session, group: group, until: deadline)
    }
    queue.observers = .init(
      changed: { [weak keeper] in keeper?.notify($0) }, copied: { [weak keeper] in keeper?.foundCopy() })
    keeper.onTimeline = { [weak queue] timeline in queue?.connected(to: timeline) }
    // Before anything is loaded: a change after this is heard of.
    try await keeper.start()
    keeper.notify(Set(freed.map { Report(.account, $0) }))
    let store = PostgreSQLStore(own, queue, keeper, writer, registered, changes, notices)
    try await store.adoptOwn()
    return store
  }

  private init(
    _ own: SQLiteStore, _ queue: CommitQueue, _ keeper: Keeper, _ writer: Writer, _ node: OwnNode,
    _ changes: AsyncStream<ChangesElsewhere>, _ notices: [String]
  ) {
    (self.own, self.queue, self.keeper, self.writer, self.notices) = (own, queue, keeper, writer, notices)
    (self.node, ownNode, changesElsewhere) = (node.node, node, changes)
    local = Mutex(LocalRows())
  }

  /// Looks which accounts are this machine's own; the others, of the time before, move to the shared database unless it
  /// has a newer state of them.
  private func adoptOwn() async throws(StoreError) {
    let state = try await own.load()
    var attended: [StoredAccount] = []
    local.withLock { local in
      local.revocations = Set(state.revocations.map(\.id))
      for account in state.accounts {
        if account.grant.kind.isUnattended {
          local.accounts.insert(account.grant.account)
        } else {
          attended.append(account)
        }
      }
    }
    for account in attended { try await move(account) }
    let logins = state.logins.map { Change.removeLogin($0.id) }
    if !logins.isEmpty { try await own.commit(logins) }
    for registration in state.registrations {
      do throws(StoreError) {
        try await share([.putRegistration(registration)], expecting: [.noRegistration(registration.provider)])
      } catch {
        guard error == .conflict else { throw error }
      }
      try await own.commit([.removeRegistration(registration.provider)])
    }
  }

  private func move(_ account: StoredAccount) async throws(StoreError) {
    let name = account.grant.account
    let stored = try await readShared([name]).first
    let isOlder = stored.map {
      $0.grant.loggedInAt == account.grant.loggedInAt && $0.grant.generation < account.grant.generation
    }
    if isOlder ?? true {
      let intent = account.intent.map { [Change.putIntent($0)] } ?? []
      do throws(StoreError) {
        try await share(
          [.putGrant(account.grant), .removeTokens(name)] + account.tokens.map(Change.putToken) + intent,
          expecting: [.revision(name, stored?.revision)])
      } catch {
        guard error == .conflict else { throw error }
      }
    }
    try await own.commit([.removeGrant(name)])
  }

  // MARK: Commits

  public func commit(_ changes: [Change]) async throws(StoreError) {
    try await commit(changes, expecting: [], as: .random())
  }

  public func commit(
    _ changes: [Change], expecting: [Expectation], as revision: Revision
  ) async throws(StoreError) {
    let division = local.withLock { $0.divide(changes, expecting) }
    if !division.shared.isEmpty || !division.expecting.isEmpty {
      try await share(division.shared, expecting: division.expecting, as: revision)
    }
    if !division.own.isEmpty { try await own.commit(division.own) }
    local.withLock { $0.committed(division.own) }
  }

  private func share(
    _ changes: [Change], expecting: [Expectation], as revision: Revision = .random()
  ) async throws(StoreError) {
    _ = try await queue.add(.commit(changes), expecting: expecting, as: revision)
  }

  public func contains(_ commit: Revision) async throws(StoreError) -> Bool { try await queue.contains(commit) }

  public func lease(
    _ intent: RefreshIntent, for duration: Duration, _ takeover: Takeover, expecting: [Expectation]
  ) async throws(StoreError) -> Leasing {
    guard !isLocal(intent.account) else {
      return try await own.lease(intent, for: duration, takeover, expecting: [])
    }
    return try await queue.add(.lease(intent, for: duration, takeover), expecting: expecting)
      ?? .held(LeaseHolder(name: "unknown", remaining: .zero))
  }

  public func claim(_ revocation: String, for duration: Duration) async throws(StoreError) -> Bool {
    guard !local.withLock({ $0.revocations.contains(revocation) }) else { return true }
    return try await !keeper.ask(writer.claim(revocation, for: duration)).rows.isEmpty
  }

  public func prolong(_ lease: Lease, for duration: Duration) async throws(StoreError) -> Bool {
    guard !isLocal(lease.account) else { return true }
    return try await !keeper.ask(writer.prolong(lease, for: duration)).rows.isEmpty
  }

  public func release(_ lease: Lease) async {
    guard !isLocal(lease.account) else { return }
    queue.held.withLock { if $0[lease.account] == lease { $0[lease.account] = nil } }
    // It ends by itself otherwise.
    guard let answer = try? await keeper.ask(writer.release(lease)), !answer.rows.isEmpty else { return }
    keeper.notify([Report(.account, lease.account.rawValue)])
  }

  func isLocal(_ account: AccountName) -> Bool { local.withLock { $0.accounts.contains(account) } }

  // MARK: The machine's own database

  public func examine() async throws(StoreError) -> [String] {
    let notices = try await own.examine()
    let (queue, node, isOwn) = (queue, ownNode, keeper.hasNode)
    try await queue.use { session, deadline in
      if queue.groups.hasFailed { return try queue.enter(node, isOwn: isOwn, session, until: deadline) }
      _ = try session.ask("SELECT 1", until: deadline)
    }
    return notices + keeper.state.view.warnings
  }

  public var isOtherCopy: Bool { keeper.otherCopy != nil }

  public func keptOverCopy(_ number: Int) { keeper.keptOverCopy(number) }

  public func otherCopy() async throws(StoreError) -> AccountsOfCopy? {
    // Before the read: if that finds a further copy, the comparison is repeated.
    guard let number = keeper.otherCopy else { return nil }
    let rows = try await queue.read([
      Query(
        """
        SELECT 'account', account, NULL::int8 FROM grantd.grants
          UNION ALL SELECT kind, name, (extract(epoch FROM max(at)) * 1000)::int8 FROM grantd.change c
            WHERE kind = 'account' AND NOT EXISTS (SELECT 1 FROM grantd.grants g WHERE g.account = c.name)
              OR kind = 'registration' AND NOT EXISTS (SELECT 1 FROM grantd.registrations r WHERE r.provider = c.name)
              OR kind = 'revocation' AND NOT EXISTS (SELECT 1 FROM grantd.revocations r WHERE r.id = c.name)
            GROUP BY kind, name
        """)
    ])[0].rows
    var copy = AccountsOfCopy(number: number, names: [], removed: [:])
    for row in rows {
      guard let kind = row[0].text, let name = row[1].text else { continue }
      let time = row[2].integer.map(Timestamp.init(milliseconds:))
      switch Report.Kind(rawValue: kind) {
      case .registration: if let name = ProviderName(rawValue: name) { copy.removedRegistrations[name] = time }
      case .revocation: copy.removedRevocations.insert(name)
      case .account:
        guard let name = AccountName(rawValue: name) else { continue }
        if let time { copy.removed[name] = time } else { copy.names.insert(name) }
      case .login, nil: break
      }
    }
    return copy
  }

  public var repairs: [String] { own.repairs }

  public func verify() async throws(StoreError) { try await own.verify() }

  /// Only the machine's own database is written again; the shared one has other owners.
  public func rebuild(from state: StoredState, accounts: [any PackedAccount]) async throws(StoreError) {
    var rest = StoredState()
    let names = local.withLock { $0 }
    rest.values = state.values
    rest.setAside = state.setAside
    rest.values[Self.nodeKey] = writer.node
    rest.revocations = state.revocations.filter { names.revocations.contains($0.id) }
    for account in state.accounts where names.accounts.contains(account.grant.account) { rest.add(account) }
    try await own.rebuild(from: rest, accounts: accounts.filter { names.accounts.contains($0.account) })
  }

  public var sharing: BrokerStatus.SharingView? { keeper.state.view }

  public func close() async {
    // First: other machines are notified of the last commits, and may take the leases.
    await keeper.close()
    await queue.close()
    await own.close()
  }
}

/// What is in the machine's own database.
struct LocalRows: Sendable {
  var accounts: Set<AccountName> = []
  var revocations: Set<String> = []

  struct Division {
    var own: [Change] = []
    var shared: [Change] = []
    var expecting: [Expectation] = []
  }

  /// Divides the changes by database. A revocation follows the accounts of its commit.
  mutating func divide(_ changes: [Change], _ expectations: [Expectation]) -> Division {
    var division = Division()
    for case .putGrant(let grant) in changes where grant.kind.isUnattended { accounts.insert(grant.account) }
    let concerned = changes.compactMap(Writer.account(of:))
    let isOwn = !concerned.isEmpty && concerned.allSatisfy(accounts.contains)
    for change in changes {
      switch change {
      case .putValue: division.own.append(change)
      case .putRevocation(let revocation) where isOwn || revocations.contains(revocation.id):
        revocations.insert(revocation.id)
        division.own.append(change)
      case .removeRevocation(let id) where revocations.contains(id): division.own.append(change)
      case .putGrant(let grant) where accounts.contains(grant.account) && !grant.kind.isUnattended:
        // A login took the name of a declared account.
        accounts.remove(grant.account)
        division.own.append(.removeGrant(grant.account))
        division.shared.append(change)
      default:
        let isLocal = Writer.account(of: change).map(accounts.contains) ?? false
        if isLocal { division.own.append(change) } else { division.shared.append(change) }
      }
    }
    division.expecting = expectations.filter { expectation in
      switch expectation {
      case .lease(let lease): !accounts.contains(lease.account)
      case .revision(let account, _): !accounts.contains(account)
      case .revocation(let id): !revocations.contains(id)
      case .login, .noRegistration: true
      }
    }
    return division
  }

  mutating func committed(_ changes: [Change]) {
    for change in changes {
      switch change {
      case .removeGrant(let account): accounts.remove(account)
      case .removeRevocation(let id): revocations.remove(id)
      default: break
      }
    }
  }
}
