import BrokerAPI
import Grants
import Logging
import OAuth

/// Every account's grant. The one place where a grant changes, so that what is derived from it follows: the replies that
/// the socket serves from memory, and whoever waits for the account.
@BrokerActor
final class Accounts: Piece {
  let runtime: Runtime
  let providers: ProviderDirectory
  let journal: Journal
  /// What the socket's event loop reads.
  nonisolated let cache: TokenCache
  private var grants: [AccountName: Grant] = [:]
  private var index = AccountIndex()
  /// The highest number of any attempt. A grant that takes an account's name goes on from it, so that the answer to a
  /// request of the grant before is not taken for an answer to its own.
  private var attempts: UInt64 = 0
  /// Those that changed and that the refresh engine has not looked at.
  private var touched: Set<AccountName> = []
  /// Where the tokens of declared accounts come from.
  var sources: [AccountName: GrantSource] = [:]
  private(set) var refreshPolicy: RefreshPolicy
  /// When the configuration in force was loaded.
  private(set) var configuredAt: Timestamp
  /// The provider or its condition changed, or an account did: the summary is due.
  private var observer: (@BrokerActor () -> Void)?

  init(
    _ runtime: Runtime, providers: ProviderDirectory, journal: Journal, cache: TokenCache, refreshPolicy: RefreshPolicy
  ) {
    self.runtime = runtime
    self.providers = providers
    self.journal = journal
    self.cache = cache
    self.refreshPolicy = refreshPolicy
    configuredAt = runtime.clock.now
  }

  /// Calls back after each change. The action must not wait.
  func onChange(_ action: @escaping @BrokerActor () -> Void) { observer = action }

  /// A reload brought another policy of refreshes.
  func configure(_ policy: RefreshPolicy) {
    refreshPolicy = policy
    configuredAt = now
    touchAll()
  }

  // MARK: The grants

  subscript(account: AccountName) -> Grant? {
    get { grants[account] }
    set {
      var grant = newValue
      grant?.numbersAttempts(after: attempts)
      grants[account] = grant
      touch(account)
    }
    _modify {
      defer { touch(account) }
      yield &grants[account]
    }
  }

  private func touch(_ account: AccountName) {
    index.update(account, grants[account])
    attempts = max(attempts, grants[account]?.attempts ?? 0)
    touched.insert(account)
  }

  /// The accounts that changed since this was last asked.
  func takeTouched() -> Set<AccountName> {
    defer { touched = [] }
    return touched
  }

  /// When something is due for each of the provider's accounts is another than before.
  func touch(at provider: ProviderName) { touched.formUnion(names(at: provider)) }

  /// When something is due for each account is another than before.
  func touchAll() { touched = Set(grants.keys) }

  var names: [AccountName] { Array(grants.keys) }
  var all: some Collection<Grant> { grants.values }
  var count: Int { grants.count }

  func names(at provider: ProviderName) -> Set<AccountName> { index.byProvider[provider]?.names ?? [] }
  func count(at provider: ProviderName) -> Int { index.byProvider[provider]?.names.count ?? 0 }

  /// Renders the account's token for the socket's fast path, or withdraws it. After each change of a grant.
  func publish(_ account: AccountName) {
    guard let grant = grants[account], let token = grant.token, token.generation != grant.rejectedGeneration else {
      cache.set(account, nil, exists: grants[account] != nil)
      return
    }
    let about = providers[grant.saved.provider]?.provider.about
    cache.set(
      account, TokenCache.Entry(token, grant: grant.saved, about: about, policy: refreshPolicy, at: now, uptime))
  }

  /// After each change: the fast path, the waiters, the scheduler and the summary learn of it.
  func changed(_ account: AccountName) {
    publish(account)
    waiters.wake(.account(account))
    wakeScheduler()
    observer?()
  }

  /// Something that many accounts' states depend on is another: a provider's condition, the store's.
  func conditionChanged() { observer?() }

  /// How many accounts are in each state.
  ///
  /// - Parameter overdue: how many of a provider's accounts are due and rest, as it does not answer.
  func stateCounts(overdue: (ProviderName) -> Int) -> [ProviderName: [AccountState: Int]] {
    index.byProvider.reduce(into: [:]) { counts, entry in
      counts[entry.key] = stateCounts(entry.value, at: entry.key, overdue: overdue)
    }
  }

  private func stateCounts(
    _ members: AccountIndex.Members, at name: ProviderName, overdue: (ProviderName) -> Int
  ) -> [AccountState: Int] {
    var counts: [AccountState: Int] = [:]
    func add(_ kind: AccountIndex.Kind, _ state: AccountState) {
      counts[state, default: 0] += members.counts[kind] ?? 0
    }
    add(.loginRequired, .loginRequired)
    add(.misconfigured, .actionRequired)
    guard let connection = providers[name], connection.suspended == nil else {
      for kind in [AccountIndex.Kind.good, .goodAndBusy, .failing] { add(kind, .actionRequired) }
      return counts
    }
    add(.failing, .degraded)
    add(.goodAndBusy, .refreshing)
    add(.good, .ok)
    guard case .unreachable = connection.condition else { return counts }
    let resting = min(overdue(name), counts[.ok] ?? 0)
    counts[.ok, default: 0] -= resting
    counts[.degraded, default: 0] += resting
    return counts
  }

  // MARK: On disk

  /// Takes over what was loaded.
  func takeOver(_ stored: StoredState) {
    let intents = Dictionary(stored.intents.map { ($0.account, $0) }, uniquingKeysWith: { first, _ in first })
    let tokens = Dictionary(grouping: stored.tokens, by: \.account)
    for saved in stored.grants {
      let own = tokens[saved.account] ?? []
      var grant = Grant(
        saved: saved, token: own.first { !$0.key.isNarrowed }, narrowed: own.filter(\.key.isNarrowed),
        intent: intents[saved.account], jitter: surroundings.jitter())
      if let rotation = providers[saved.provider]?.provider.about.rotation { grant.takeUp(rotation: rotation) }
      self[saved.account] = grant
    }
  }

  /// Whether a refresh whose answer never reaches the disk could cost the grant.
  func canLose(_ saved: SavedGrant) -> Bool {
    !saved.kind.needsNobody && providers[saved.provider]?.provider.about.rotation != Rotation.none
  }

  /// Why the account's refresh rests until the store works: its answer may hold a refresh token that cannot be had again.
  func holdsBack(_ grant: Grant) -> StoreError? { canLose(grant.saved) ? journal.failure : nil }

  /// Saves the grant as it is once it has the account's lock; nothing where it is gone by then.
  ///
  /// - Parameter leased: what the account's lease was given for, where this broker has it.
  func saveStanding(of account: AccountName, _ what: String, leased: [Expectation]? = nil) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    guard let grant = grants[account] else { return }
    var changes = [Change.putGrant(grant.saved)] + intentChange(grant, isLeased: leased != nil)
    // A restart must not hand out again what a resource server refused.
    if grant.isTokenRejected { changes.append(.removeToken(account, SavedToken.Key())) }
    do throws(StoreError) {
      try await journal.commitOrKeep(changes, of: account, onDisk: grant.saved.generation, expecting: leased)
    } catch {
      guard error != .conflict else { return }
      logger.warning("not saved yet: \(what)", metadata: ["account": "\(account)"])
    }
  }

  /// Another broker that shares the store changed the account: memory follows the disk.
  func changedElsewhere(_ account: AccountName) async {
    await journal.lock(account)
    defer { journal.unlock(account) }
    await follow(account)
  }

  /// With the account's lock. What this broker has under way for the account is discarded when its answer comes.
  ///
  /// - Parameter replacing: the caller is about to replace or to remove the grant, whatever the answer will be.
  func follow(_ account: AccountName, replacing: Bool = false) async {
    let stored: StoredAccount?
    do throws(StoreError) {
      stored = try await journal.store.read(account)
    } catch {
      return journal.failed(error)
    }
    guard let stored else {
      if grants[account] != nil { self[account] = nil }
      return changed(account)
    }
    let own = grants[account]
    // What is newer here goes to the disk as soon as that takes it, unless another broker wrote since.
    if own != nil, journal.unsaved[account] == .generation(account, stored.grant.generation) { return }
    journal.isSaved(account)
    // Nobody else has rotated the token whose answer this broker waits for: there may be no other answer.
    if !replacing, let own, own.phase != .idle, own.saved.refreshToken == stored.grant.refreshToken { return }
    if own?.saved != stored.grant || own?.intent != stored.intent
      || own?.token != stored.tokens.first(where: { !$0.key.isNarrowed })
    {
      self[account] = Grant(
        saved: stored.grant, token: stored.tokens.first { !$0.key.isNarrowed },
        narrowed: stored.tokens.filter(\.key.isNarrowed), intent: stored.intent, jitter: surroundings.jitter())
    }
    changed(account)
  }

  /// The changes that put all of the account on disk; nil: there is no such account.
  func changes(of account: AccountName) -> [Change]? {
    guard let grant = grants[account] else { return nil }
    var changes = [Change.putGrant(grant.saved), .removeTokens(account)]
    changes += grant.livingTokens.map { .putToken($0) }
    return changes + intentChange(grant, isLeased: false)
  }

  /// Without the account's lease, an intent on disk may be another broker's.
  private func intentChange(_ grant: Grant, isLeased: Bool) -> [Change] {
    guard isLeased || !journal.isShared else { return [] }
    return [grant.intent.map { .putIntent($0) } ?? .removeIntent(grant.saved.account)]
  }

  /// Adds what should be on disk of all accounts.
  func record(in state: inout StoredState) {
    for grant in grants.values {
      state.grants.append(grant.saved)
      state.tokens += grant.livingTokens
      if let intent = grant.intent { state.intents.append(intent) }
    }
  }

  // MARK: The clock

  /// Somebody set the wall clock: what this run has stamped moves along.
  func clockStepped(by step: Duration) {
    configuredAt = configuredAt + step
    for account in names {
      let generation = self[account]?.saved.generation
      if self[account]?.clockStepped(by: step) == true { journal.keep(account, onDisk: generation) }
      self[account]?.retryNow(at: now)
      publish(account)
    }
  }

  // MARK: Telling people

  /// Logs what happened to an account, and tells it as an event.
  func report(_ saved: SavedGrant, _ error: RPCError, _ type: EventType) {
    let metadata: Logger.Metadata = [
      "account": "\(saved.account)", "provider": "\(saved.provider)", "reason": "\(error.reason?.rawValue ?? "")",
      "hint": "\(error.hint ?? "")",
    ]
    logger.warning("\(error.message)", metadata: metadata)
    emit(
      Event(
        type: type, at: now.seconds, account: saved.account.rawValue, provider: saved.provider.rawValue,
        generation: saved.generation, reason: error.reason, message: error.message, hint: error.hint))
  }
}
