public import BrokerAPI
public import Grants

/// The broker's stored state: owned by one process, or shared by several brokers.
///
/// Brokers that share a store lease an account before its refresh, state the expected data with a commit, and are
/// notified of other brokers' changes. In a store with one owner each lease is granted and each expectation holds: the
/// default implementations.
public protocol Store: Sendable {
  /// The whole state.
  func load() async throws(StoreError) -> StoredState

  /// All but the accounts, at start.
  func loadRest() async throws(StoreError) -> StoredState

  /// The readable columns of an account whose row is damaged, with its revision; nil: there is no row.
  func remains(of account: AccountName) async throws(StoreError) -> StoredAccount?

  /// The next accounts in order of their names, at start: at most this number after this one; nil: from the first.
  /// Empty: no more.
  func accounts(after account: AccountName?, most: Int) async throws(StoreError) -> [any PackedAccount]

  /// How many there are.
  func countAccounts() async throws(StoreError) -> Int

  /// Commits of earlier runs that the database lacks; nil: none known.
  var lostCommits: LostCommits? { get }

  /// Why no commit can succeed since the start, such as a disk that was mounted read-only; nil: commits can succeed.
  var writesFail: StoreError? { get }

  /// Damage that was repaired since the store was opened, a sentence without a full stop for each.
  var repairs: [String] { get }

  /// The rows that could not be read since the store was opened, without those of accounts that were returned.
  var setAside: [SetAsideRow] { get }

  /// The readable part of an account whose row is set aside; nil: none, or without its refresh token.
  func salvage(_ account: AccountName) async throws(StoreError) -> SavedGrant?

  /// Removes a row that still cannot be read. False: it can be, or is not there.
  func discard(_ row: RowName) async throws(StoreError) -> Bool

  /// An account in the form of ``accounts(after:most:)``, for memory.
  func pack(_ account: StoredAccount) -> any PackedAccount

  /// Reads all stored data and verifies it. It may take long, and delays no commit.
  func verify() async throws(StoreError)

  /// All or nothing, and on disk when it returns. Commits of many callers may share one transaction.
  func commit(_ changes: [Change]) async throws(StoreError)

  /// The same, if every expectation holds as the transaction begins.
  ///
  /// - Parameter revision: names the commit. It becomes the revision of each account whose grant or tokens the commit changes,
  ///   but not of one whose intent alone it changes. The commit and its name are on disk together.
  /// - Throws: `.conflict` if an expectation does not hold: nothing was changed. `.unknown` if the answer was lost:
  ///   ``contains(_:)`` tells whether the commit is on disk.
  func commit(_ changes: [Change], expecting: [Expectation], as revision: Revision) async throws(StoreError)

  /// Whether the commit of this name is on disk. False: it is not, and will not be. A commit whose connection is lost may
  /// still be under way: the store waits for its end, or ends it, before it returns false.
  func contains(_ commit: Revision) async throws(StoreError) -> Bool

  /// This broker, as one of the brokers that share the store; nil: the store has one owner.
  var node: Node? { get }

  /// Leases the account's refresh to this broker, with the note that its refresh token is about to be sent, in one
  /// transaction. No other broker gets the lease before it is given back or `takeover` lets it, by the store's own clock:
  /// the caller counts from when it asked. The holder itself gets it again. Each grant has a higher fence.
  ///
  /// If the intent on disk is of the same refresh token, the new intent continues it: its `sentAt` stays, and
  /// `attempts` is one more than on disk unless the caller counts higher.
  ///
  /// - Throws: `.conflict` if an expectation does not hold.
  func lease(
    _ intent: RefreshIntent, for duration: Duration, _ takeover: Takeover, expecting: [Expectation]
  ) async throws(StoreError) -> Leasing

  /// Prolongs a lease from now on, even one that has ended and that no other broker took: its fence and holder are
  /// still the latest.
  ///
  /// - Returns: false if it no longer belongs to this broker: taken by another, or released.
  func prolong(_ lease: Lease, for duration: Duration) async throws(StoreError) -> Bool

  /// Gives a lease back. Nothing happens where another broker has taken it.
  func release(_ lease: Lease) async

  /// What is on disk of these accounts now, in any order. Names without an account are left out.
  func read(_ accounts: [AccountName]) async throws(StoreError) -> [StoredAccount]

  /// Pending logins of any broker; none if only this broker can begin logins, as memory has all of them.
  func logins(_ wanted: LoginSearch) async throws(StoreError) -> [SavedLogin]

  /// The revocations on disk, of all brokers.
  func revocations() async throws(StoreError) -> [PendingRevocation]

  /// Claims a revocation for this broker, which is about to send it, or extends its claim.
  ///
  /// - Returns: false if it is not on disk any more, or another broker's claim has not ended.
  func claim(_ revocation: String, for duration: Duration) async throws(StoreError) -> Bool

  /// The registrations on disk, of all brokers.
  func registrations() async throws(StoreError) -> [SavedRegistration]

  /// The changes that other brokers make, from before the first ``load()`` or ``loadRest()`` on; nil: the store has one
  /// owner. A report may come late or never. Ends with ``close()``.
  var changesElsewhere: AsyncStream<ChangesElsewhere>? { get }

  /// The machines that share the store; nil: it has one owner.
  var sharing: BrokerStatus.SharingView? { get }

  /// Whether the database still exists and is the opened one; writes nothing. Data written into a removed database file
  /// are lost at the next start.
  ///
  /// - Returns: other faults, repaired or for an administrator: for the log.
  func examine() async throws(StoreError) -> [String]

  /// Whether the database is another copy than before, such as a restored dump, and ``keptOverCopy()`` was not called: it may
  /// lack what this broker wrote. True before anything is read from the copy.
  var isOtherCopy: Bool { get }

  /// While ``isOtherCopy``: the accounts of the copy. Nil: it is the same database.
  func otherCopy() async throws(StoreError) -> AccountsOfCopy?

  /// Memory has kept what the copy lacks. If the store has found no further copy since, it then reports all accounts as
  /// changed elsewhere.
  ///
  /// - Parameter number: of ``AccountsOfCopy``.
  func keptOverCopy(_ number: Int)

  /// The database is damaged or missing: moves the rest aside and writes a new one, which is on disk on return.
  /// Concurrent commits go to the new one. After a failure nothing has changed and it can be repeated.
  ///
  /// - Parameter accounts: the accounts that `state` lacks.
  func rebuild(from state: StoredState, accounts: [any PackedAccount]) async throws(StoreError)

  /// Its location, for messages.
  var location: String { get }

  /// Ends after committed data are on disk. Later commits fail.
  func close() async
}

extension Store {
  public func loadRest() async throws(StoreError) -> StoredState {
    var state = try await load()
    (state.grants, state.tokens, state.intents) = ([], [], [])
    return state
  }

  public func accounts(after account: AccountName?, most: Int) async throws(StoreError) -> [any PackedAccount] {
    let state = try await load()
    return state.accounts.filter { one in account.map { one.grant.account > $0 } ?? true }.prefix(most).map(pack)
  }

  public func rebuild(from state: StoredState) async throws(StoreError) {
    try await rebuild(from: state, accounts: [])
  }

  public func countAccounts() async throws(StoreError) -> Int { try await load().grants.count }

  public func remains(of account: AccountName) async throws(StoreError) -> StoredAccount? { nil }

  public var lostCommits: LostCommits? { nil }
  public var writesFail: StoreError? { nil }
  public var repairs: [String] { [] }
  public var setAside: [SetAsideRow] { [] }
  public func salvage(_ account: AccountName) async throws(StoreError) -> SavedGrant? { nil }
  public func discard(_ row: RowName) async throws(StoreError) -> Bool { false }

  public func pack(_ account: StoredAccount) -> any PackedAccount { UnpackedAccount(account) }

  public func verify() async throws(StoreError) {}

  public func commit(
    _ changes: [Change], expecting: [Expectation], as revision: Revision
  ) async throws(StoreError) {
    try await commit(changes)
  }

  public func contains(_ commit: Revision) async throws(StoreError) -> Bool { false }

  public var node: Node? { nil }

  public func lease(
    _ intent: RefreshIntent, for duration: Duration, _ takeover: Takeover, expecting: [Expectation]
  ) async throws(StoreError) -> Leasing {
    try await commit([.putIntent(intent)])
    return .granted(Lease(account: intent.account, fence: 0), intent)
  }

  public func prolong(_ lease: Lease, for duration: Duration) async throws(StoreError) -> Bool { true }

  public func release(_ lease: Lease) async {}

  public func read(_ accounts: [AccountName]) async throws(StoreError) -> [StoredAccount] {
    let names = Set(accounts)
    return try await load().accounts.filter { names.contains($0.grant.account) }
  }

  public func logins(_ wanted: LoginSearch) async throws(StoreError) -> [SavedLogin] { [] }

  public func revocations() async throws(StoreError) -> [PendingRevocation] { try await loadRest().revocations }

  public func claim(_ revocation: String, for duration: Duration) async throws(StoreError) -> Bool { true }

  public func registrations() async throws(StoreError) -> [SavedRegistration] { try await loadRest().registrations }

  public var isOtherCopy: Bool { false }

  public func otherCopy() async throws(StoreError) -> AccountsOfCopy? { nil }

  public func keptOverCopy(_ number: Int) {}

  public var changesElsewhere: AsyncStream<ChangesElsewhere>? { nil }

  public var sharing: BrokerStatus.SharingView? { nil }

  public func read(_ account: AccountName) async throws(StoreError) -> StoredAccount? {
    try await read([account]).first
  }
}

/// All that is on disk of one account.
public struct StoredAccount: Sendable, Equatable {
  public var grant: SavedGrant
  public var tokens: [SavedToken]
  public var intent: RefreshIntent?
  /// What is wrong with rows of tokens and of the intent that were left out, each without a full stop. A refresh
  /// replaces them.
  public var leftOut: [String]
  /// The last commit that wrote the grant; nil in a store with one owner.
  public var revision: Revision?
  /// Who issued the account's tokens, and to which client (``TokenIssuer``), as its writer knew; nil: unknown.
  public var issuer: String?

  public init(grant: SavedGrant, tokens: [SavedToken], intent: RefreshIntent?, leftOut: [String] = []) {
    self.grant = grant
    self.tokens = tokens
    self.intent = intent
    self.leftOut = leftOut
  }
}

extension Grant {
  init(_ stored: StoredAccount, jitter: Double) {
    self.init(
      saved: stored.grant, token: stored.tokens.first { !$0.key.isNarrowed },
      narrowed: stored.tokens.filter(\.key.isNarrowed), intent: stored.intent, jitter: jitter)
  }
}

/// All that is on disk.
public struct StoredState: Sendable, Equatable {
  public var grants: [SavedGrant] = []
  public var tokens: [SavedToken] = []
  public var intents: [RefreshIntent] = []
  public var logins: [SavedLogin] = []
  public var revocations: [PendingRevocation] = []
  public var registrations: [SavedRegistration] = []
  /// Small values by name, such as the port that the callback endpoint had.
  public var values: [String: String] = [:]
  /// Rows that were left out, as they cannot be read.
  public var setAside: [SetAsideRow] = []

  public init() {}

  public mutating func add(_ account: StoredAccount) {
    grants.append(account.grant)
    tokens += account.tokens
    if let intent = account.intent { intents.append(intent) }
  }

  /// The accounts, in the order of their names.
  public var accounts: [StoredAccount] {
    let tokens = Dictionary(grouping: tokens, by: \.account)
    let intents = Dictionary(intents.map { ($0.account, $0) }, uniquingKeysWith: { first, _ in first })
    return grants.sorted { $0.account < $1.account }.map {
      StoredAccount(grant: $0, tokens: tokens[$0.account] ?? [], intent: intents[$0.account])
    }
  }
}

/// One change to the stored state. `put` replaces a row with the same key.
public enum Change: Sendable, Equatable {
  case putGrant(SavedGrant)
  /// With its tokens and its intent.
  case removeGrant(AccountName)
  /// ``StoredAccount/issuer``, with a grant whose tokens are new. Only in a store that several brokers share.
  case putIssuer(AccountName, String)
  case putToken(SavedToken)
  case removeTokens(AccountName)
  case removeToken(AccountName, SavedToken.Key)
  case putIntent(RefreshIntent)
  case removeIntent(AccountName)
  case putLogin(SavedLogin)
  case removeLogin(LoginID)
  case putRevocation(PendingRevocation)
  case removeRevocation(String)
  case putRegistration(SavedRegistration)
  case removeRegistration(ProviderName)
  case putValue(String, String)
}

/// Why the store could not do it. Each says what to do next.
public enum StoreError: Error, Sendable, Equatable {
  /// Another process has it: its pid where known.
  case owned(path: String, pid: Int32?)
  /// Written by a newer version.
  case newer(path: String, found: Int, known: Int)
  /// No database, or damaged.
  case corrupt(path: String, detail: String)
  /// A part of this account's stored data cannot be read or unsealed; other accounts can.
  case unreadableAccount(AccountName, detail: String)
  /// The file of the open database was removed or replaced.
  case missing(path: String)
  /// Sealed under another key.
  case wrongKey(path: String, keySource: String)
  /// The key cannot be read or has the wrong form.
  case unusableKey(source: String, detail: String)
  /// Cannot be opened: permissions, a missing folder.
  case unreadable(path: String, detail: String)
  /// Open, but this change could not be written: disk full, read-only, an I/O error. Earlier data are unharmed.
  case unwritable(path: String, detail: String)
  /// Another broker that shares the store changed data that this commit expected. Nothing was changed.
  case conflict
  /// The database that several brokers share.
  case shared(SharedStoreTrouble)
  /// The answer to a commit was lost: it may be on disk.
  case unknown(path: String, detail: String)
  case closed
}
