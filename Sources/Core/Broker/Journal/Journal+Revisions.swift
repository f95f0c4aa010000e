public import Grants

/// What this broker knows to be on disk of the accounts of a store that several brokers share.
struct KnownRevisions {
  /// Those of the accounts as they are in memory, or as they were before unsaved changes.
  fileprivate(set) var ofAccounts: [AccountName: Revision] = [:]
  /// Those of rows that cannot be read, which only a caller that replaces or removes the grant may expect.
  fileprivate var unreadable: [AccountName: Revision] = [:]
  /// Accounts whose state replaces the one in another copy of the database, until they are written: the revision there.
  /// While a refresh is under way, other commits still expect the revision of before the copy, so none of them writes the
  /// refresh token that is being sent.
  fileprivate var kept: [AccountName: KeptOver] = [:]
  /// Accounts and registrations that need another look at the disk: the comparison with a copy could not decide, or the
  /// read of a change failed.
  fileprivate var undecided: (accounts: Set<AccountName>, registrations: Set<ProviderName>) = ([], [])
  /// Who issued the accounts' tokens: ``StoredAccount/issuer``.
  fileprivate(set) var issuers: [AccountName: String] = [:]
  /// Commits without an answer, by the accounts that they concern. Nothing else is written of these accounts before.
  fileprivate var unsettled: [AccountName: Unsettled] = [:]

  fileprivate struct KeptOver {
    /// Nil: the copy lacks the account.
    let revision: Revision?
  }

  fileprivate struct Unsettled {
    let commit: Revision
    let changes: [Change]
  }
}

// Commits to a store that several brokers share.
extension Journal {
  /// That no other broker has changed the account since this one last read or wrote it.
  ///
  /// - Parameter replacing: the commit replaces or removes the grant, so the row need not be readable.
  func expectations(_ account: AccountName, replacing: Bool = false) -> [Expectation] {
    guard isShared else { return [] }
    let unreadable = replacing ? known.unreadable[account] : nil
    return [.revision(account, unreadable ?? known.ofAccounts[account])]
  }

  /// Memory replaces the account in another copy of the database as soon as its refresh has ended.
  ///
  /// - Parameters:
  ///   - revision: of the copy; nil: it lacks the account.
  ///   - isBusy: whether a refresh is under way.
  func keeps(_ account: AccountName, over revision: Revision?, isBusy: Bool) {
    if isBusy {
      unsaved.waiting.remove(account)
    } else {
      read(account, at: revision, of: known.issuers[account])
      keep(account)
    }
    known.kept[account] = .init(revision: revision)
  }

  /// The accounts that memory keeps over a copy, and their revisions there.
  var keptAccounts: [(account: AccountName, revision: Revision?)] { known.kept.map { ($0.key, $0.value.revision) } }

  /// Another broker wrote the account to the copy in a state that is not earlier.
  func keepsNoMore(_ account: AccountName) { known.kept[account] = nil }

  func isKept(_ account: AccountName) -> Bool { known.kept[account] != nil }

  /// Whether memory replaces the account on disk.
  ///
  /// - Parameters:
  ///   - revision: the account's on disk; nil: there is none.
  ///   - isEarlier: whether it is of an earlier login than memory.
  func isKept(_ account: AccountName, over revision: Revision?, isEarlier: Bool) -> Bool {
    guard let kept = known.kept[account] else { return false }
    return kept.revision == revision || isEarlier
  }

  func markUndecided(_ account: AccountName) { known.undecided.accounts.insert(account) }
  func markUndecided(_ provider: ProviderName) { known.undecided.registrations.insert(provider) }

  func drainUndecided() -> (accounts: Set<AccountName>, registrations: Set<ProviderName>) {
    defer { known.undecided = ([], []) }
    return known.undecided
  }

  /// The account's row, of this revision, cannot be read.
  func replaces(_ account: AccountName, at revision: Revision?) { known.unreadable[account] = revision }

  /// The account in memory replaces its row, even one that cannot be read.
  func replaces(_ account: AccountName) {
    if let revision = known.unreadable.removeValue(forKey: account) { known.ofAccounts[account] = revision }
  }

  /// The next commit replaces the row of this revision.
  func expects(_ account: AccountName, at revision: Revision?, of issuer: String?) {
    let kept = known.kept[account]
    read(account, at: revision, of: issuer)
    known.kept[account] = kept
  }

  /// Memory has taken the account from the disk; nil: there is no such account.
  func read(_ account: AccountName, at revision: Revision?, of issuer: String?) {
    guard isShared else { return }
    known.ofAccounts[account] = revision
    known.issuers[account] = issuer
    known.unsettled[account] = nil
    known.unreadable[account] = nil
    known.kept[account] = nil
  }

  /// The change that names the issuer of a grant whose tokens are new.
  func issuerChange(_ account: AccountName, _ provider: any Provider) -> [Change] {
    isShared ? [.putIssuer(account, TokenIssuer(provider).fingerprint)] : []
  }

  /// This run of this broker, as the origin of logins; nil: the store has one owner.
  var origin: LoginOrigin? { store.node.map { LoginOrigin(node: $0.id, run: $0.run) } }

  /// The same expectations in a store that several brokers share; a store with one owner needs none.
  func shared(_ expectations: Expectation...) -> [Expectation] { isShared ? expectations : [] }

  func revision(of account: AccountName) -> Revision? { known.ofAccounts[account] }

  func commitShared(_ changes: [Change], expecting: [Expectation]) async throws(StoreError) {
    let accounts = Self.accounts(of: changes, expecting)
    let expecting = try await settled(expecting, accounts)
    let changes = replacingTokensOfCopy(changes)
    var lost: StoreError?
    for _ in 0..<Limit.settlings {
      let commit = Revision.random()
      do throws(StoreError) {
        try await write { () async throws(StoreError) in
          try await store.commit(changes, expecting: expecting, as: commit)
        }
        return took(changes, as: commit)
      } catch {
        guard case .unknown = error else { throw error }
        lost = error
      }
      for account in accounts { known.unsettled[account] = .init(commit: commit, changes: changes) }
      let isMade = try await isOnDisk(commit)
      for account in accounts { removeUnsettled(commit, of: account) }
      if isMade { return took(changes, as: commit) }
    }
    guard let lost else { return }
    failed(lost)
    throw lost
  }

  /// A grant that replaces the one of another copy replaces the tokens there by those in memory, before its own changes:
  /// they may be of an earlier login.
  private func replacingTokensOfCopy(_ changes: [Change]) -> [Change] {
    guard !known.kept.isEmpty else { return changes }
    let replaced = changes.flatMap { change -> [Change] in
      guard case .putGrant(let grant) = change, isKept(grant.account) else { return [] }
      let tokens = (source?.changes(of: grant.account) ?? []).filter { if case .putToken = $0 { true } else { false } }
      return [.removeTokens(grant.account)] + tokens
    }
    return replaced + changes
  }

  /// The expectations after the accounts' commits without an answer: the caller did not know what these left.
  private func settled(
    _ expecting: [Expectation], _ accounts: Set<AccountName>
  ) async throws(StoreError) -> [Expectation] {
    let unsettled = accounts.filter { known.unsettled[$0] != nil }
    guard !unsettled.isEmpty else { return expecting }
    let before = unsettled.map { Expectation.revision($0, known.ofAccounts[$0]) }
    for account in unsettled { try await settle(account) }
    return expecting.map { expectation in
      guard case .revision(let account, _) = expectation, before.contains(expectation) else { return expectation }
      return .revision(account, known.ofAccounts[account])
    }
  }

  /// Whether a commit without an answer is on disk, as soon as the store tells.
  private func isOnDisk(_ commit: Revision) async throws(StoreError) -> Bool {
    var rounds = 1
    while true {
      do throws(StoreError) {
        return try await write { () async throws(StoreError) in try await store.contains(commit) }
      } catch {
        guard rounds < Limit.settlings, !isStopped else { throw error }
        rounds += 1
        await system.sleep(Limit.settlingPause)
      }
    }
  }

  /// Learns whether the account's last commit, whose answer was lost, is on disk.
  private func settle(_ account: AccountName) async throws(StoreError) {
    guard let unsettled = known.unsettled[account] else { return }
    let isOnDisk = try await write { () async throws(StoreError) in try await store.contains(unsettled.commit) }
    guard known.unsettled[account]?.commit == unsettled.commit else { return }
    removeUnsettled(unsettled.commit, of: account)
    if isOnDisk { took(unsettled.changes.filter { $0.owner == account }, as: unsettled.commit) }
  }

  private func removeUnsettled(_ commit: Revision, of account: AccountName) {
    if known.unsettled[account]?.commit == commit { known.unsettled[account] = nil }
  }

  private func took(_ changes: [Change], as commit: Revision) {
    for change in changes {
      guard let account = change.owner else { continue }
      known.unreadable[account] = nil
      switch change {
      case .putGrant, .removeGrant: known.kept[account] = nil
      default: break
      }
      if case .putIssuer(_, let issuer) = change { known.issuers[account] = issuer }
      if case .removeGrant = change { known.ofAccounts[account] = nil } else { known.ofAccounts[account] = commit }
    }
  }

  private static func accounts(of changes: [Change], _ expecting: [Expectation]) -> Set<AccountName> {
    var accounts = Set(changes.compactMap(\.owner))
    for case .revision(let account, _) in expecting { accounts.insert(account) }
    return accounts
  }
}

extension Change {
  /// The account whose grant or tokens it changes, and so its revision.
  public var owner: AccountName? {
    switch self {
    case .putGrant(let grant): grant.account
    case .putToken(let token): token.account
    case .removeGrant(let account), .removeTokens(let account), .removeToken(let account, _),
      .putIssuer(let account, _):
      account
    case .putIntent, .removeIntent, .putLogin, .removeLogin, .putRevocation, .removeRevocation, .putRegistration,
      .removeRegistration, .putValue:
      nil
    }
  }
}
