import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth
import Principals

// A backup comes back: sent in parts, looked at, and applied all at once.
extension Backups {
  /// `store.restore`.
  func beginRestore(
    _ params: StoreRestore.Params, _ session: any Session
  ) throws(RPCError) -> StoreRestore.Result {
    _ = try ownAdministration()
    guard (1...Transfers.bytes).contains(params.size) else {
      throw .invalidParams("params.size: expected 1 to \(Transfers.bytes) bytes")
    }
    return .init(restore_id: try beginTransfer(.incoming([], size: params.size), session))
  }

  /// `store.restore_part`.
  func restorePart(
    _ params: StoreRestorePart.Params, _ session: any Session
  ) throws(RPCError) -> StoreRestorePart.Result {
    guard let (count, size) = transfers.progress(of: params.restore_id, for: session, at: uptime) else {
      throw Self.unknownTransfer("restore_id")
    }
    guard params.offset == count else { throw .invalidParams("params.offset: expected \(count)") }
    guard let bytes = Data(base64Encoded: params.data), !bytes.isEmpty, bytes.count <= Transfers.part,
      count + bytes.count <= size
    else {
      throw .invalidParams("params.data: expected 1 to \(min(Transfers.part, size - count)) bytes in base64")
    }
    transfers.append(Array(bytes), to: params.restore_id)
    return .init(received: count + bytes.count)
  }

  /// `store.restore_look`.
  func examineBackup(
    _ params: StoreRestoreLook.Params, _ session: any Session
  ) async throws(RPCError) -> StoreRestoreLook.Result {
    let administration = try ownAdministration()
    guard case .incoming(let file, let size) = transfers.content(of: params.restore_id, for: session, at: uptime)
    else { throw Self.unknownTransfer("restore_id") }
    guard file.count == size else { throw .invalidParams("\(size - file.count) bytes of the backup have not come yet") }
    let secret = try Self.secret(params.passphrase, params.key)
    transfers.set(params.restore_id, .busy, at: uptime)
    let backup: DeferredDeallocation<Backup>
    do throws(BackupError) {
      backup = DeferredDeallocation(try await administration.unpack(file, with: secret))
    } catch {
      // Another passphrase may be tried.
      transfers.set(params.restore_id, .incoming(file, size: size), at: uptime)
      throw backupError(error)
    }
    guard transfers.set(params.restore_id, .opened(backup), at: uptime) else {
      throw Self.unknownTransfer("restore_id")
    }
    let whole = backup.value
    var known = 0
    var older: [String] = []
    var batch = Batch(of: Batch.heavy)
    for grant in whole.state.grants {
      if accounts.contains(grant.account) { known += 1 }
      if older.count < Limit.listedAccounts, let here = accounts.peek(grant.account, .whole)?.saved,
        Restoration.isOlder(grant, than: here)
      {
        older.append(grant.account.rawValue)
      }
      await batch.next()
    }
    return .init(
      host: whole.host, made_at: whole.madeAt.seconds, version: whole.version, accounts: whole.state.grants.count,
      known: known, older: older.isEmpty ? nil : older.sorted())
  }

  /// `store.restore_apply`.
  func applyBackup(
    _ params: StoreRestoreApply.Params, _ session: any Session
  ) async throws(RPCError) -> StoreRestoreApply.Result {
    _ = try ownAdministration()
    guard params.moved else {
      throw .invalidParams(
        "params.moved: expected true, once no other broker uses these accounts",
        hint: "Stop the other grantd for good. Two that refresh one grant end it.")
    }
    guard case .opened(let backup) = transfers.content(of: params.restore_id, for: session, at: uptime) else {
      throw Self.unknownTransfer("restore_id")
    }
    transfers.set(params.restore_id, .busy, at: uptime)
    do throws(RPCError) {
      let result = try await apply(backup, replacing: params.replace ?? false, older: params.older ?? false)
      transfers.end(params.restore_id)
      let host = backup.value.host
      backup.free()
      let words = "from a backup of \(host.printable(limit: 128))"
      for (accounts, done) in [(result.restored, "restored"), (result.replaced, "replaced")] {
        await audit.record(accounts.count, by: Batch.heavy, for: session.principal) {
          restored(accounts[$0], "\(done) \(words)", by: session.principal)
        }
      }
      logger.notice(
        "restored \(result.restored.count + result.replaced.count) accounts of a backup",
        metadata: [
          "backup_host": "\(host.prefix(128))", "caller_uid": "\(session.principal.uidText)",
          "caller_pid": "\(session.principal.pid)",
        ])
      return result
    } catch {
      transfers.set(params.restore_id, .opened(backup), at: uptime)
      throw error
    }
  }

  private func restored(_ account: String, _ detail: String, by caller: Principal) -> AuditEntry {
    AuditEntry(
      action: .admin, method: StoreRestoreApply.name, account: account, who: .init(caller),
      provider: AccountName(rawValue: account).flatMap { accounts[$0]?.saved.provider.rawValue },
      rule: audit.rule(.manage, StoreRestoreApply.name, account, caller), detail: detail)
  }

  // MARK: Applying

  private func apply(
    _ backup: DeferredDeallocation<Backup>, replacing: Bool, older: Bool
  ) async throws(RPCError) -> StoreRestoreApply.Result {
    let state = backup.value.state
    guard !replacing || !journal.isShared else {
      throw .invalidParams(
        "params.replace: accounts in a store that several machines share are not replaced",
        hint: "Restore without --replace, which only adds accounts. Sign in again to the others.")
    }
    let accounts = await Self.names(in: state)
    try await acquireTurns(of: accounts, replacing: replacing)
    defer { for account in accounts { journal.unlock(account) } }
    let present = await present(accounts)
    defer { present.free() }
    let large = DeferredDeallocation(
      try await Self.plan(
        state, into: present.value, of: self.accounts.count, registrations: registrations.saved,
        configured: registrations.configured, declared: registrations.declared, replacing: replacing,
        older: older))
    defer { large.free() }
    let (plan, changes) = (large.value.plan, large.value.changes)
    let revoking = await comingRevocations(state, plan)
    var batch = Batch(of: Batch.heavy)
    var obsolete: [PendingRevocation] = []
    for restored in plan.grants where revocations.count > 0 {
      obsolete += revocations.obsolete(for: restored.saved)
      await batch.next()
    }
    revocations.discard(obsolete)
    do throws(StoreError) {
      try await journal.commit(
        changes + revoking.map { .putRevocation($0) } + obsolete.map { .removeRevocation($0.id) },
        expecting: plan.grants.flatMap { journal.expectations($0.saved.account) })
    } catch {
      revocations.takeOver(obsolete)
      throw storeError(error)
    }
    revocations.takeOver(revoking)
    registrations.restore(plan.registrations)
    for restored in plan.grants {
      takeOver(restored)
      await batch.next()
    }
    wakeScheduler()
    var result = plan.result
    let missing = Set(plan.grants.map(\.saved.provider)).subtracting(providers.names).sorted()
    result.warnings += missing.map { "provider \($0) is not configured here: its accounts wait until it is" }
    return result
  }

  /// Those of these accounts that exist.
  private func present(_ accounts: [AccountName]) async -> DeferredDeallocation<[SavedGrant]> {
    var found: [SavedGrant] = []
    var batch = Batch(of: Batch.heavy)
    for account in accounts where self.accounts.contains(account) {
      if let saved = self.accounts[account]?.saved { found.append(saved) }
      await batch.next()
    }
    return DeferredDeallocation(found)
  }

  @concurrent private nonisolated static func names(in state: StoredState) async -> [AccountName] {
    state.grants.map(\.account).sorted()
  }

  /// Beside the broker: it looks at every row of the backup.
  @concurrent private nonisolated static func plan(
    _ state: StoredState, into present: [SavedGrant], of count: Int,
    registrations: [ProviderName: SavedRegistration], configured: Set<ProviderName>, declared: Set<AccountName>,
    replacing: Bool, older: Bool
  ) async throws(RPCError) -> PlannedRestoration {
    let plan = try Restoration(
      of: state, into: Dictionary(present.map { ($0.account, $0) }, uniquingKeysWith: { first, _ in first }), of: count,
      registrations: registrations, configured: configured, declared: declared,
      replacing: replacing, older: older)
    return PlannedRestoration(plan: plan, changes: plan.changes)
  }

  /// All turns at once. A rotation under way belongs to a grant that is about to be replaced: its answer must not come
  /// after. One that begins later waits for the turn before it sends anything.
  private func acquireTurns(of accounts: [AccountName], replacing: Bool) async throws(RPCError) {
    func busy() async -> AccountName? {
      guard replacing else { return nil }
      var batch = Batch(of: Batch.heavy)
      for account in accounts where self.accounts.contains(account) {
        if let grant = self.accounts[account], grant.phase != .idle { return account }
        await batch.next()
      }
      return nil
    }
    let deadline = uptime + Timeouts.maximum
    for _ in 0..<Limit.rounds {
      while let account = await busy(), uptime < deadline {
        if let failure = journal.failure { throw storeError(failure) }
        guard !isStopped else { throw shuttingDown() }
        await wait(for: .account(account), until: deadline)
      }
      var batch = Batch(of: Batch.light)
      for account in accounts {
        await journal.lock(account)
        await batch.next()
      }
      guard let account = await busy() else { return }
      for account in accounts { journal.unlock(account) }
      guard uptime < deadline else { throw Self.stillRefreshing(account) }
    }
    throw Self.stillRefreshing(accounts[0])
  }

  private static func stillRefreshing(_ account: AccountName) -> RPCError {
    RPCError(
      .timedOut, "account \(account) is being refreshed, and its new tokens must not be lost",
      hint: "Nothing was restored. Try again when its provider has answered: `grantctl show \(account)`.")
  }

  private func takeOver(_ restored: Restoration.Account) {
    let saved = restored.saved
    var grant = Grant(
      saved: saved, token: restored.tokens.first { !$0.key.isNarrowed },
      narrowed: restored.tokens.filter(\.key.isNarrowed), intent: restored.intent, jitter: system.jitter())
    if let rotation = providers[saved.provider]?.provider.refreshTraits.rotation { grant.takeUp(rotation: rotation) }
    accounts[saved.account] = grant
    journal.isSaved(saved.account)
    accounts.changed(saved.account)
  }

  /// The other broker's pending revocations, except revocations that would end a grant in use here.
  private func comingRevocations(_ state: StoredState, _ plan: Restoration) async -> [PendingRevocation] {
    guard !state.revocations.isEmpty else { return [] }
    func people(_ revocation: PendingRevocation) -> [String] {
      ["account", "subject"].compactMap { word in revocation.context[word].map { "\(word) \($0)" } }
    }
    let (tokens, persons) = (Set(state.revocations.map(\.token)), Set(state.revocations.flatMap(people)))
    // What of those an account here needs. Accounts may be a hundred thousand, revocations are few.
    var (neededTokens, neededPersons) = (Set<Secret>(), Set<String>())
    func record(_ saved: SavedGrant) {
      if let token = saved.refreshToken, tokens.contains(token) { neededTokens.insert(token) }
      for person in ["account \(saved.account)"] + (saved.identity.map { ["subject \($0.subject)"] } ?? [])
      where persons.contains(person) { neededPersons.insert(person) }
    }
    var batch = Batch(of: Batch.heavy)
    for restored in plan.grants {
      record(restored.saved)
      await batch.next()
    }
    for account in accounts.names {
      if let saved = accounts.peek(account, .whole)?.saved { record(saved) }
      await batch.next()
    }
    let pending = Set(revocations.all.map(\.id))
    let known = Set(revocations.all.map(\.token))
    let room = max(0, Limit.revocations - revocations.count)
    return state.revocations.filter { revocation in
      revocation.expiresAt > now && !pending.contains(revocation.id) && !known.contains(revocation.token)
        && !neededTokens.contains(revocation.token) && neededPersons.isDisjoint(with: people(revocation))
    }.prefix(room).map { revocation in
      var revocation = revocation
      revocation.retryAt = now
      return revocation
    }
  }
}

extension StoreRestore: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try broker.upkeep.backups.beginRestore(call.params, call.session)
  }
}

extension StoreRestorePart: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try broker.upkeep.backups.restorePart(call.params, call.session)
  }
}

extension StoreRestoreLook: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.upkeep.backups.examineBackup(call.params, call.session)
  }
}

extension StoreRestoreApply: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.upkeep.backups.applyBackup(call.params, call.session)
  }
}
