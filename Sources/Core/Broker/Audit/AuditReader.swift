import BrokerAPI
import OAuth
import Principals

/// `audit.list`: who may read which records of the trail.
@BrokerActor
final class AuditReader {
  private let audit: AuditLog
  private let authorizer: Authorizer

  init(_ audit: AuditLog, authorizer: Authorizer) {
    self.audit = audit
    self.authorizer = authorizer
  }

  func list(_ params: AuditList.Params, caller: Principal) async throws(RPCError) -> AuditList.Result {
    guard let store = audit.trail.store else {
      throw RPCError(.storeFailure, "this broker keeps no audit trail")
    }
    let limit = params.limit ?? 100
    guard (1...AuditList.mostRecords).contains(limit) else {
      throw .invalidParams("params.limit: expected 1 to \(AuditList.mostRecords), got \(limit)")
    }
    if let account = params.account {
      _ = try accountName(account)
      try authorizer.check(.manage, method: AuditList.name, account: account, caller: caller)
    }
    var question = AuditQuestion(limit: limit + 1)
    question.account = params.account
    if params.account == nil {
      question.accounts = authorizer.policy.managed(AuditList.name, by: caller)
    }
    question.uid = params.uid
    question.unit = params.unit
    question.action = params.action
    question.refusalsOnly = params.refused ?? false
    question.since = try moment(params.since, "since")
    question.until = try moment(params.until, "until")
    question.before = params.before
    await audit.trail.flush()
    let records = try await stored { () async throws(StoreError) in try await store.read(question) }
    return page(records, limit: limit, for: caller)
  }

  private func moment(_ seconds: Int64?, _ name: String) throws(RPCError) -> Timestamp? {
    guard let seconds else { return nil }
    guard (0...253_402_300_799).contains(seconds) else {
      throw .invalidParams("params.\(name): expected Unix seconds, got \(seconds)")
    }
    return Timestamp(seconds: seconds)
  }

  /// As many as fit into an answer, of the accounts that the caller may still see: a reload may have changed that.
  private func page(_ records: [AuditRecord], limit: Int, for caller: Principal) -> AuditList.Result {
    var lines: [AuditList.Line] = []
    var bytes = 0
    for record in records.prefix(limit) {
      if authorizer.policy.allows(
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

extension AuditList.Line {
  init(_ record: AuditRecord) {
    let (entry, who) = (record.entry, record.entry.who)
    self.init(
      id: record.id, first: record.first.seconds, last: record.last.seconds, count: record.count,
      action: entry.action, method: entry.method, account: entry.account, provider: entry.provider, uid: who.uid,
      pid: record.pid, unit: who.unit, user_unit: who.userUnit, exe: who.executable,
      scopes: entry.scopes.isEmpty ? nil : entry.scopes, generation: entry.generation, rule: entry.rule,
      result: entry.result, detail: entry.detail, parent: who.parent)
  }
}

extension AuditList: RPCHandler {
  static var subject: Subject<Params, Void> { .someAccount }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.reports.audit.list(call.params, caller: call.caller)
  }
}
