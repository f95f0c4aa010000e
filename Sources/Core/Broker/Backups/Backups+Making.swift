import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth
import Principals
import Sealing

// Copies of all grants for other machines: made, and returned in parts.
extension Backups {
  /// `store.backup`.
  func makeBackup(
    _ params: StoreBackup.Params, _ session: any Session
  ) async throws(RPCError) -> StoreBackup.Result {
    let administration = try ownAdministration()
    let secret = try Self.secret(params.passphrase, params.key)
    let id = try beginTransfer(.busy, session)
    do throws(RPCError) {
      do throws(BackupError) { try await administration.checkSize() } catch { throw backupError(error) }
      let backup = DeferredDeallocation(try await wholeBackup())
      defer { backup.free() }
      try await checkReleases(of: backup, session.principal)
      let file = try await packed(backup, secret, administration)
      // A reload may have withdrawn the permission in the interim.
      try await checkReleases(of: backup, session.principal)
      let size = file.count
      guard transfers.set(id, .outgoing(DeferredDeallocation(file)), at: uptime) else {
        throw Self.unknownTransfer("backup_id")
      }
      let count = backup.value.state.grants.count
      await recordReleases(of: backup, to: session.principal)
      logger.notice(
        "made a backup of \(count) accounts",
        metadata: ["caller_uid": "\(session.principal.uidText)", "caller_pid": "\(session.principal.pid)"])
      return .init(backup_id: id, size: size, accounts: count, left_out: leftOut(of: backup.value.state))
    } catch {
      transfers.end(id)
      throw error
    }
  }

  private func leftOut(of state: StoredState) -> [String]? {
    // The others are this machine's own, or are replaced by a refresh.
    let tables: Set<String> = ["grants", "registrations", "revocations"]
    let rows = state.setAside.filter { tables.contains($0.table) }.prefix(Limit.setAside).map { "\($0.name)" }
    return rows.isEmpty ? nil : rows
  }

  /// `store.backup_part`.
  func backupPart(
    _ params: StoreBackupPart.Params, _ session: any Session
  ) throws(RPCError) -> StoreBackupPart.Result {
    guard case .outgoing(let whole) = transfers.content(of: params.backup_id, for: session, at: uptime) else {
      throw Self.unknownTransfer("backup_id")
    }
    let (part, isLast) = try Self.part(of: whole.value, from: params.offset)
    if isLast { transfers.end(params.backup_id) }
    return .init(data: part)
  }

  /// Apart, so that nothing of the whole is held when it is let go.
  private static func part(of file: [UInt8], from offset: Int) throws(RPCError) -> (String, isLast: Bool) {
    guard file.indices.contains(offset) else {
      throw .invalidParams("params.offset: expected 0 to \(file.count - 1)")
    }
    let part = file[offset...].prefix(Transfers.part)
    return (Data(part).base64EncodedString(), part.endIndex == file.endIndex)
  }

  private func recordReleases(of backup: DeferredDeallocation<Backup>, to caller: Principal) async {
    let grants = backup.value.state.grants
    await audit.record(grants.count, by: Batch.light, for: caller) { released(grants[$0], to: caller) }
  }

  /// Without the token's number: a backup releases the grant, and one per hour is one record.
  private func released(_ grant: SavedGrant, to caller: Principal) -> AuditEntry {
    let account = grant.account.rawValue
    return AuditEntry(
      action: .release, method: StoreBackup.name, account: account, who: .init(caller),
      provider: grant.provider.rawValue, scopes: grant.grantedScopes,
      rule: audit.rule(.use, StoreBackup.name, account, caller))
  }

  /// The stored state at one moment, without this machine's own data.
  private func wholeBackup() async throws(RPCError) -> Backup {
    if let failure = journal.failure { throw storeError(failure) }
    var state = try await stored { () async throws(StoreError) in try await journal.store.load() }
    state.logins = []
    state.values = [:]
    return Backup(host: identity.host, madeAt: now, version: identity.version, state: state)
  }

  private func checkReleases(of backup: DeferredDeallocation<Backup>, _ caller: Principal) async throws(RPCError) {
    for _ in 0..<Limit.rounds {
      let epoch = authorizer.inForce.epoch
      var batch = Batch(of: Batch.light)
      for grant in backup.value.state.grants {
        try checkRelease(of: grant.account, caller)
        await batch.next()
      }
      // A reload in between may have withdrawn an earlier permission.
      if authorizer.inForce.epoch == epoch { return }
    }
    throw RPCError(
      .temporarilyUnavailable, "the configuration changes while the backup is made", hint: "Try again.", retryAfter: 5)
  }

  /// The recipient of a backup has everything in it.
  private func checkRelease(of account: AccountName, _ caller: Principal) throws(RPCError) {
    let decision = authorizer.policy.decide(
      .use, method: StoreBackup.name, account: account.rawValue, caller: caller)
    if case .allowed(_, nil, nil) = decision { return }
    var why = ""
    if case .allowed(_, _, let confirm?) = decision { why = ": rule \(confirm.rule) requires approval of each release" }
    throw RPCError(
      .notPermitted,
      "a backup holds every account's tokens, and \(caller.user) may not have those of \(account) whole and at once"
        + why,
      hint:
        "An administrator can permit it, also for root, with these lines in the configuration and `grantctl reload`:\n"
        + Rule.lines(for: caller, account: nil, methods: [StoreBackup.name]))
  }

  private func packed(
    _ backup: DeferredDeallocation<Backup>, _ secret: BackupFile.Secret, _ administration: any StoreAdministration
  ) async throws(RPCError) -> [UInt8] {
    do throws(BackupError) {
      return try await administration.pack(backup.value, with: secret)
    } catch {
      throw backupError(error)
    }
  }

  // MARK: Of both directions

  func ownAdministration() throws(RPCError) -> any StoreAdministration {
    guard !isDraining else { throw shuttingDown() }
    guard let administration else { throw RPCError(.storeFailure, "this broker keeps its state only in memory") }
    return administration
  }

  static func secret(_ passphrase: SecretText?, _ key: SecretText?) throws(RPCError) -> BackupFile.Secret {
    switch (passphrase, key) {
    case (let passphrase?, nil):
      // Exposed to be made a secret of the broker's.
      return .passphrase(Secret(passphrase.exposed))
    case (nil, let key?):
      // Exposed to be decoded.
      guard key.exposed.utf8.count <= 1024, let bytes = Data(base64Encoded: key.exposed) else {
        throw .invalidParams("params.key: expected a key file's contents in base64")
      }
      return .key(Array(bytes))
    case (nil, nil), (.some, .some): throw .invalidParams("expected either params.passphrase or params.key")
    }
  }

  func beginTransfer(_ content: Transfers.Content, _ session: any Session) throws(RPCError) -> String {
    let id = system.token(bytes: 16)
    try transfers.begin(id, content, for: session, at: uptime)
    let owner = ObjectIdentifier(session)
    // Held until then, so that no other has its name.
    if sessions.updateValue(session, forKey: owner) == nil {
      session.onClose { [weak self] in
        Task { await self?.removeTransfers(of: owner) }
      }
    }
    return id
  }

  private func removeTransfers(of owner: ObjectIdentifier) {
    sessions[owner] = nil
    transfers.removeAll(of: owner)
  }

  static func unknownTransfer(_ name: String) -> RPCError {
    .invalidParams(
      "params.\(name): there is no such transfer on this connection",
      hint: "It may have waited longer than \(Transfers.idle.components.seconds) s: begin again.")
  }

  func backupError(_ error: BackupError) -> RPCError {
    func invalid(_ message: String, _ hint: String) -> RPCError { RPCError(.invalidBackup, message, hint: hint) }
    let another = "Use another copy of it: this one is damaged."
    let failure: BackupFile.Failure
    switch error {
    case .store(let error): return storeError(error)
    case .file(let reason): failure = reason
    }
    switch failure {
    case .foreign: return invalid("this is not a backup of grantd", "Give a file that `grantctl backup` wrote.")
    case .newer(let what):
      return invalid(
        "the backup was made by a newer grantd (\(what))", "Restore it with that version, or install it here first.")
    case .wrongPassphrase:
      return invalid(
        "the passphrase is not the one that the backup was made with", "Try again with the passphrase of that backup.")
    case .wrongKey: return invalid("the key is not the one that the backup was made with", "Give the right --key-file.")
    case .needsPassphrase:
      return invalid("the backup was made with a passphrase, not with a key file", "Give the passphrase instead.")
    case .needsKey:
      return invalid(
        "the backup was made with a key file, not with a passphrase", "Give that file with --key-file FILE.")
    case .truncated: return invalid("the backup is not whole: its end is missing", another)
    case .damaged(let detail): return invalid("the backup is damaged: \(detail)", another)
    case .unusableSecret(let detail):
      return .invalidParams(
        detail, hint: "Try again with a passphrase of at least 8 characters, or a key file of 32 bytes.")
    case .tooLarge(let limit): return RPCError(.overloaded, "a backup has at most \(limit >> 20) MiB")
    }
  }
}

extension StoreBackup: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.upkeep.backups.makeBackup(call.params, call.session)
  }
}

extension StoreBackupPart: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try broker.upkeep.backups.backupPart(call.params, call.session)
  }
}
