public import BrokerAPI
import Grants
import Logging
import OAuth

// What goes into the audit trail, and who may read it.
extension Broker {
  /// Writes the trail until the task is cancelled; what is left then is for ``finishTrail()``.
  public nonisolated func keepTrail() async { await trail.run(sleep: surroundings.sleep) }

  /// After the last request.
  public nonisolated func finishTrail() async { await trail.flush() }

  func beginTrail() async {
    guard let store = trail.store else { return }
    do throws(StoreError) {
      trail.begin(after: try await store.lastID())
    } catch {
      // The clock keeps the numbers of this run apart from those that are there.
      trail.begin(after: now.milliseconds)
      logger.error(
        "the audit trail cannot be read: \(error.message)", metadata: ["hint": "\(error.hint)"])
    }
  }

  /// A method ended. Refusals of any method are recorded; what else is, ``auditAction(of:)`` says.
  nonisolated func audit<M: RPCMethod>(
    _ method: M.Type, account: String?, _ caller: Caller, _ result: Result<M.Result, RPCError>
  ) {
    let who = AuditEntry.Who(caller)
    switch result {
    case .success(let value):
      guard let action = Self.auditAction(of: method), M.name != BrokerReload.name else { return }
      var entry = AuditEntry(action: action, method: M.name, account: account, who: who)
      if let token = value as? any Releasing {
        entry.provider = token.releasedProvider
        entry.scopes = token.releasedScopes
        entry.generation = token.releasedGeneration
      }
      entry.rule = cache.rule(M.access, M.name, account, caller)
      trail.note(entry, pid: caller.pid)
    case .failure(let error):
      // What was not understood did nothing.
      guard let reason = error.reason else { return }
      let action = Self.auditAction(of: method)
      let isRefusal = reason == .notPermitted || reason == .rateLimited
      guard isRefusal || (action != nil && M.name != BrokerReload.name) else { return }
      let entry = AuditEntry(
        action: action ?? .admin, method: M.name, account: account.flatMap { AccountName(rawValue: $0)?.rawValue },
        who: who,
        result: reason.rawValue)
      trail.note(entry, pid: caller.pid, isReal: entry.account.map(cache.knows) ?? false)
    }
  }

  /// Nil: only its refusals are recorded.
  static func auditAction(of method: any RPCMethod.Type) -> AuditAction? {
    switch method.name {
    case TokenGet.name, TokenExchange.name: .release
    case AccountLogout.name, AccountEndSession.name: .logout
    case AccountImport.name: .login
    // Looking changes nothing, and how a login ended is recorded where it ends.
    case LoginWait.name, LoginList.name, LoginHandleCallback.name, AuditList.name, ReleaseList.name: nil
    // Recorded where they are taken, with the account.
    case ReleaseApprove.name, ReleaseDeny.name: nil
    // What goes in pieces is recorded as it begins and as it takes effect.
    case StoreBackupPart.name, StoreRestorePart.name, StoreRestoreLook.name: nil
    case BrokerReload.name: .policy
    // Whatever uses the account's token, also to look.
    case _ where method is any TokenRelease.Type: .use
    default: auditAction(of: method.access)
    }
  }

  private static func auditAction(of access: Access) -> AuditAction? {
    switch access {
    case .use: .use
    case .login: .login
    case .manage: .admin
    case .open, .observe: nil
    }
  }

  /// One refusal for want of the caller's own patience.
  nonisolated func tooOften(
    _ method: String, _ who: AuditEntry.Who, pid: Int32, wait: Duration
  ) -> RPCError {
    let action = Methods.named(method).flatMap(Self.auditAction(of:)) ?? .admin
    trail.note(
      AuditEntry(action: action, method: method, who: who, result: ErrorReason.rateLimited.rawValue), pid: pid)
    return RPCError(
      .rateLimited, "\(who.words) asks too often",
      hint: "Keep a token until it expires; requests that are refused count several times. [limits] says how many.",
      retryAfter: wait.inSeconds)
  }

  func audit(login: SavedLogin, _ type: EventType, _ error: RPCError? = nil) {
    var entry = AuditEntry(
      action: .login, method: type.rawValue, account: login.account.rawValue,
      who: .init(uid: login.uid), result: error.map { $0.reason?.rawValue ?? "failed" } ?? AuditEntry.ok)
    entry.provider = login.provider.rawValue
    // One that failed granted none, and what was asked for is the caller's to make up.
    if error == nil { entry.scopes = login.scopes }
    trail.note(entry, isReal: grants[login.account] != nil)
  }

  /// Something ended a session or a grant without a caller: the provider's own word.
  func audit(ended account: AccountName, at provider: ProviderName, by what: String) {
    var entry = AuditEntry(action: .logout, method: what, account: account.rawValue, who: .init(uid: nil))
    entry.provider = provider.rawValue
    trail.note(entry)
  }

  /// What one request does to many accounts, a record for each, so that each one's trail has it. Where there are very
  /// many they are written in between, so that none is lost: the request, which has been on the disk itself, waits.
  func audit(_ entries: [AuditEntry], for caller: Caller) async {
    for start in stride(from: 0, to: entries.count, by: Limit.auditBatch) {
      if start > 0 { await trail.flush() }
      for entry in entries[start...].prefix(Limit.auditBatch) { trail.note(entry, pid: caller.pid, isReal: true) }
    }
  }

  // MARK: audit.list

  func auditTrail(_ params: AuditList.Params, caller: Caller) async throws(RPCError) -> AuditList.Result {
    guard let store = trail.store else {
      throw RPCError(.storeFailure, "this broker keeps no audit trail")
    }
    let limit = params.limit ?? 100
    guard (1...AuditList.mostRecords).contains(limit) else {
      throw .invalidParams("params.limit: expected 1 to \(AuditList.mostRecords), got \(limit)")
    }
    if let account = params.account {
      _ = try accountName(account)
      try check(.manage, method: AuditList.name, account: account, caller: caller)
    }
    var question = AuditQuestion(limit: limit + 1)
    question.account = params.account
    if params.account == nil {
      question.accounts = configuration.policy.managed(AuditList.name, by: caller)
    }
    question.uid = params.uid
    question.unit = params.unit
    question.action = params.action
    question.refusalsOnly = params.refused ?? false
    question.since = try moment(params.since, "since")
    question.until = try moment(params.until, "until")
    question.before = params.before
    await trail.flush()
    let records: [AuditRecord]
    do throws(StoreError) {
      records = try await store.read(question)
    } catch {
      throw storeError(error)
    }
    return page(records, limit: limit, for: caller)
  }

  private func moment(_ seconds: Int64?, _ name: String) throws(RPCError) -> Timestamp? {
    guard let seconds else { return nil }
    guard (0...253_402_300_799).contains(seconds) else {
      throw .invalidParams("params.\(name): expected Unix seconds, got \(seconds)")
    }
    return Timestamp(seconds: seconds)
  }

  /// As many as fit an answer, of those that the caller may know of still: a reload may have changed that meanwhile.
  private func page(_ records: [AuditRecord], limit: Int, for caller: Caller) -> AuditList.Result {
    var lines: [AuditList.Line] = []
    var bytes = 0
    for record in records.prefix(limit) {
      if configuration.policy.allows(
        .manage, method: AuditList.name, account: record.entry.account, caller: caller)
      {
        let line = AuditList.Line(record)
        bytes += JSON(encoding: line).serialized().count
        if bytes > Limit.auditAnswer, !lines.isEmpty { return .init(records: lines, next: record.id + 1) }
        lines.append(line)
      }
    }
    return .init(records: lines, next: records.count > limit ? records[limit - 1].id : nil)
  }
}

/// What hands out a token.
protocol Releasing {
  var releasedProvider: String? { get }
  var releasedScopes: [String] { get }
  var releasedGeneration: Int64? { get }
}

extension TokenGet.Result: Releasing {
  var releasedProvider: String? { provider }
  var releasedScopes: [String] { scope }
  var releasedGeneration: Int64? { generation }
}

extension TokenExchange.Result: Releasing {
  var releasedProvider: String? { nil }
  var releasedScopes: [String] { scope ?? [] }
  var releasedGeneration: Int64? { nil }
}

extension AuditList.Line {
  init(_ record: AuditRecord) {
    let (entry, who) = (record.entry, record.entry.who)
    self.init(
      id: record.id, first: record.first.seconds, last: record.last.seconds, count: record.count,
      action: entry.action, method: entry.method, account: entry.account, provider: entry.provider, uid: who.uid,
      pid: record.pid, unit: who.unit, user_unit: who.userUnit, exe: who.executable,
      scopes: entry.scopes.isEmpty ? nil : entry.scopes, generation: entry.generation, rule: entry.rule,
      result: entry.result, detail: entry.detail)
  }
}
