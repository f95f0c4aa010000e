public import BrokerAPI
public import Grants
public import Logging
import OAuth
import Synchronization

/// The shell around the grants: holds their state, drives their refreshes and logins, and answers the socket. Nothing is
/// read from its state before an `await` and written after it without being read again.
public actor Broker {
  let store: any Store
  let transport: any Transport
  let surroundings: Surroundings
  let identity: BrokerIdentity
  let logger: Logger
  /// What the socket's event loop reads.
  public nonisolated let cache: TokenCache
  let registrar: (any Registrar)?
  let vault: (any Vault)?
  let readConfiguration: @Sendable () async throws(RPCError) -> BrokerConfiguration

  var configuration: BrokerConfiguration
  var loadedAt: Timestamp
  var startedAt: Timestamp
  var providers: [ProviderName: ProviderLine] = [:]
  var grants: [AccountName: Grant] = [:]
  /// How many provider lines there were.
  var lines: UInt64 = 0
  var registrations: [ProviderName: SavedRegistration] = [:]
  /// How declared accounts' tokens are had.
  var sources: [AccountName: GrantSource] = [:]
  var logins: [LoginID: Login] = [:]
  var revocations: [String: PendingRevocation] = [:]
  /// Logout tokens that were taken, and until when since the machine started they are remembered.
  var logoutTokens: [String: Duration] = [:]
  /// Sessions whose end a person was sent to, the latest last.
  var endings: [SessionEnding] = []
  var values: [String: String] = [:]
  var waiting = Waiting()
  /// Releases that wait for a person, and the connections that they came by.
  var releases = Releases()
  /// Backups on their way.
  var transfers = Transfers()
  /// The connections that backups go over.
  var sessionsTransferring: [ObjectIdentifier: any Session] = [:]
  var sessionsAsking: [ObjectIdentifier: (session: any Session, ids: Set<String>)] = [:]
  var measures = Measures()
  nonisolated let requests = RequestTally()
  nonisolated let rates: CallerRates
  /// What was done and refused, and for whom.
  public nonisolated let trail: AuditTrail
  /// What units may load, for the loop that serves them.
  nonisolated let offered: Mutex<UnitCredentials>
  /// Who waits for an account's turn to write; absent: it is free.
  var turns: [AccountName: [CheckedContinuation<Void, Never>]] = [:]
  var subscriptions: [UInt64: Subscription] = [:]
  var eventActions: [@Sendable (Event) -> Void] = []
  var nextSubscription: UInt64 = 0
  var storeFailure: StoreError?
  var storeFailingSince: Timestamp?
  /// The store is being tried, and mended where it can be.
  var isMending = false
  /// The database is being written anew: nothing else is committed.
  var isRebuilding = false
  /// Commits under way, by the time since the machine started at which they began.
  var commits: [UInt64: Duration] = [:]
  var nextCommit: UInt64 = 0
  /// Accounts that are newer in memory than on disk, since the store failed.
  var unsaved: Set<AccountName> = []
  var lastExamined: Duration
  /// The wall clock, as of some time since the machine started: between two looks at it no time steps.
  var anchor: (wall: Timestamp, uptime: Duration)
  var refreshesInFlight = 0
  var exchangesInFlight = 0
  /// How many reloads began, and the latest that is in force.
  var reloads = 0
  var appliedReload = 0
  var isDraining = false
  var drainEnded = false
  var callbackAddresses: [String] = []
  var callbackPort: Int?
  var fixedCallbackPorts: Set<Int> = []
  var summary = ""
  var summaryIsDue = false
  var summaryChanged: (@Sendable (String) -> Void)?
  /// Wakes the clockwork.
  var nudge: AsyncStream<Void>.Continuation?

  public init(
    store: any Store, transport: any Transport, surroundings: Surroundings, identity: BrokerIdentity,
    configuration: BrokerConfiguration, logger: Logger, registrar: (any Registrar)? = nil,
    auditStore: (any AuditStore)? = nil, vault: (any Vault)? = nil,
    readConfiguration: @escaping @Sendable () async throws(RPCError) -> BrokerConfiguration
  ) {
    self.store = store
    self.transport = transport
    self.surroundings = surroundings
    self.identity = identity
    self.configuration = configuration
    self.logger = logger
    self.registrar = registrar
    self.vault = vault
    self.readConfiguration = readConfiguration
    anchor = (surroundings.now(), surroundings.uptime())
    lastExamined = anchor.uptime
    startedAt = anchor.wall
    loadedAt = anchor.wall
    trail = AuditTrail(store: auditStore, logger: logger, now: surroundings.now, uptime: surroundings.uptime)
    trail.configure(configuration.audit)
    offered = Mutex(configuration.credentials)
    rates = CallerRates(uptime: surroundings.uptime)
    rates.configure(configuration.callerLimits)
    cache = TokenCache(policy: configuration.policy, trail: trail, uptime: surroundings.uptime)
    cache.configure(policy: configuration.policy, refresh: configuration.refresh)
    for provider in configuration.providers { providers[provider.name] = ProviderLine(provider, id: 0) }
  }

  func nextLine() -> UInt64 {
    lines += 1
    return lines
  }

  /// The wall clock as it was when it was last looked at, and the time since: see ``watchClock()``.
  var now: Timestamp { anchor.wall + (surroundings.uptime() - anchor.uptime) }
  var uptime: Duration { surroundings.uptime() }

  /// Takes over what is on disk. Once, before anything else.
  public func start() async throws(StoreError) {
    let stored = try await store.load()
    await beginTrail()
    auditStart()
    let intents = Dictionary(stored.intents.map { ($0.account, $0) }, uniquingKeysWith: { first, _ in first })
    let tokens = Dictionary(grouping: stored.tokens, by: \.account)
    for saved in stored.grants {
      let own = tokens[saved.account] ?? []
      grants[saved.account] = Grant(
        saved: saved, token: own.first { !$0.key.isNarrowed }, narrowed: own.filter(\.key.isNarrowed),
        intent: intents[saved.account], jitter: surroundings.jitter())
    }
    for login in stored.logins { logins[login.id] = Login(saved: login, phase: .pending) }
    for login in stored.logins where login.device != nil { startPolling(login.id) }
    for revocation in stored.revocations { revocations[revocation.id] = revocation }
    values = stored.values
    registrations = Dictionary(
      stored.registrations.map { ($0.provider, $0) }, uniquingKeysWith: { first, _ in first })
    for provider in allProviders(configuration.providers) where providers[provider.name] == nil {
      providers[provider.name] = newLine(provider)
    }
    for (account, grant) in grants {
      guard let rotation = providers[grant.saved.provider]?.provider.about.rotation else { continue }
      grants[account]?.takeUp(rotation: rotation)
    }
    for name in providers.keys { providers[name]?.learned = learnedLifetime(of: name) }
    await takeDeclared()
    for account in grants.keys { publish(account) }
    summarize()
  }

  /// The port that the callback endpoint had before, so that pending logins survive a restart.
  public var previousCallbackPort: Int? { values["callback.port"].flatMap { Int($0) } }

  /// The callback endpoint listens: on its own port, if it could be had, and on those that providers fix.
  public func callbackListens(port: Int?, others: Set<Int>, addresses: [String]) async {
    callbackPort = port
    fixedCallbackPorts = others
    callbackAddresses = addresses
    guard let port, values["callback.port"] != String(port) else { return }
    values["callback.port"] = String(port)
    await commitOrWarn([.putValue("callback.port", String(port))], "the callback port")
  }

  /// `12 ok, 1 needs login`.
  public var currentSummary: String {
    if summaryIsDue { summarize() }
    return summary
  }

  /// Calls back with `12 ok, 1 needs login`, now and whenever it changes.
  public func onSummary(_ action: @escaping @Sendable (String) -> Void) {
    summaryChanged = action
    action(currentSummary)
  }

  // MARK: State that others see

  /// Renders the account's token for the socket's fast path, or withdraws it. After each change of a grant.
  func publish(_ account: AccountName) {
    guard let grant = grants[account], let token = grant.token, token.generation != grant.rejectedGeneration else {
      cache.set(account, nil, exists: grants[account] != nil)
      return
    }
    let about = providers[grant.saved.provider]?.provider.about
    cache.set(
      account,
      TokenCache.Entry(token, grant: grant.saved, about: about, policy: configuration.refresh, at: now, uptime))
  }

  /// After each change: the fast path, the waiters, the clockwork and the summary learn of it.
  func changed(_ account: AccountName) {
    publish(account)
    waiting.wake(.account(account))
    nudge?.yield()
    updateSummary()
  }

  /// Once for all changes of a turn: it looks at every account.
  func updateSummary() {
    guard !summaryIsDue else { return }
    summaryIsDue = true
    Task { summarize() }
  }

  func summarize() {
    summaryIsDue = false
    let counts = stateCounts()
    var parts: [String] = []
    func add(_ count: Int, _ text: String) { if count > 0 { parts.append("\(count) \(text)") } }
    add(counts[.ok, default: 0] + counts[.refreshing, default: 0], "ok")
    add(counts[.degraded, default: 0], "degraded")
    let logins = counts[.loginRequired, default: 0]
    add(logins, logins == 1 ? "needs login" : "need login")
    let actions = counts[.actionRequired, default: 0]
    add(actions, actions == 1 ? "needs an admin" : "need an admin")
    var text = parts.isEmpty ? "no accounts yet" : parts.joined(separator: ", ")
    if storeFailure != nil { text += "; the state cannot be written" }
    guard text != summary else { return }
    summary = text
    summaryChanged?(text)
  }

  func stateCounts() -> [AccountState: Int] {
    grants.values.reduce(into: [:]) { $0[state(of: $1), default: 0] += 1 }
  }

  // MARK: Waiting

  /// Returns when the key moves or the deadline passes, which is a time since the machine started: nobody can set that.
  /// The caller looks again.
  func wait(for key: Waiting.Key, until deadline: Duration) async {
    let ticket = waiting.ticket()
    guard deadline > uptime, waiting.count < Limit.waiters else { return }
    let timer = Task { [surroundings] in
      await surroundings.sleep(deadline - surroundings.uptime())
      waiting.wake(ticket, of: key)
    }
    await withCheckedContinuation { waiting.add($0, ticket: ticket, for: key) }
    timer.cancel()
  }
}
