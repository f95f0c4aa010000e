import BrokerAPI
import Grants
import Logging
import OAuth
import Principals

// Waiting releases: the callers that see them, and the answers.
extension Approvals {
  func report(_ type: EventType, _ id: String, outcome: String? = nil, hint: String? = nil) {
    guard let release = releases[id] else { return }
    let question = release.question
    let message =
      type == .releaseWaiting
      ? "\(PendingReleases.description(of: release.caller)) asks for \(question.method) of \(question.account)"
      : outcome
    logger.notice(
      "\(type.rawValue) \(id): \(question.method)\(outcome.map { ", \($0)" } ?? "")",
      metadata: [
        "account": "\(question.account)", "caller_uid": "\(release.caller.uidText)",
        "caller_pid": "\(release.caller.pid)",
      ])
    emit(
      Event(
        type: type, at: now.seconds, account: question.account,
        provider: AccountName(rawValue: question.account).flatMap { accounts[$0]?.saved.provider.rawValue },
        message: message, hint: hint, release: release.view(wall: { wall($0).seconds }, outcome: outcome)))
  }

  /// A caller that hangs up waits no longer.
  func watch(_ session: any Session, _ id: String) {
    let key = ObjectIdentifier(session)
    // The session is held until then, so that no other has its name.
    if sessions.updateValue((session, (sessions[key]?.ids ?? []).union([id])), forKey: key) == nil {
      session.onClose { [weak self] in
        Task { await self?.hungUp(key) }
      }
    }
  }

  private func hungUp(_ key: ObjectIdentifier) {
    for id in sessions.removeValue(forKey: key)?.ids ?? [] {
      releases.abandon(id)
      waiters.wake(.release(id))
    }
  }

  /// Who waits looks again: the policy is another, or the broker stops.
  func wakeAll() {
    for release in releases.waiting { waiters.wake(.release(release.id)) }
  }

  func releaseList(for caller: Principal) -> ReleaseList.Result {
    func mayManage(_ account: String) -> Bool {
      authorizer.policy.allows(.manage, method: ReleaseList.name, account: account, caller: caller)
    }
    let waits = releases.waiting.filter { mayManage($0.question.account) }
    return .init(
      waiting: waits.map { $0.view(wall: { wall($0).seconds }) },
      standing: releases.approvals(at: uptime, wall: { wall($0).seconds }).filter { mayManage($0.account) })
  }

  /// `release.approve`, `release.deny`. False: no request with that id is pending, or the caller may not see it.
  func answer(
    _ params: ReleaseDecision.Params, _ isAllowed: Bool, _ method: String, caller: Principal
  ) throws(RPCError) -> Bool {
    var span: Duration?
    if let seconds = params.for {
      guard seconds > 0 else { throw .invalidParams("params.for: expected more than 0 seconds, got \(seconds)") }
      span = min(.seconds(min(seconds, 1e9)), PendingReleases.longestApproval)
    }
    if let calls = params.calls, !(1...1000).contains(calls) {
      throw .invalidParams("params.calls: expected 1 to 1000, got \(calls)")
    }
    guard let release = releases[params.id],
      authorizer.policy.allows(.manage, method: method, account: release.question.account, caller: caller)
    else { return false }
    switch releases.decide(
      isAllowed, on: params.id, for: span, calls: params.calls.map { Int($0) }, from: caller, at: uptime)
    {
    case .accepted: break
    case .notFound: return false
    case .ownRequest:
      throw RPCError(
        .notPermitted, "a process cannot approve its own request",
        hint: "Allow it with `grantctl approve \(params.id)` in another terminal.")
    case .unidentifiedCaller:
      throw .invalidParams(
        "params.for: neither the unit nor the executable of that caller is known",
        hint: "Allow it this once, without --for.")
    case .tooMany:
      throw RPCError(
        .overloaded, "too many answers of \(caller.holder) with a time are active, or too many in all",
        hint: "Answer only this request, without --for and --calls, or wait: each ends within an hour.")
    }
    logger.notice(
      "\(method) \(params.id)\(span.map { " for \($0.wholeSeconds) s" } ?? "")",
      metadata: [
        "account": "\(release.question.account)", "caller_uid": "\(caller.uidText)", "caller_pid": "\(caller.pid)",
      ])
    var entry = AuditEntry(action: .policy, method: method, account: release.question.account, who: .init(caller))
    entry.detail =
      "\(release.question.method) to \(PendingReleases.description(of: release.caller))"
      + (release.question.request.map { " (\($0.line.printable(limit: 256)))" } ?? "")
      + (span.map { ", for \($0.wholeSeconds) s" } ?? "") + (params.calls.map { ", \($0) times more" } ?? "")
    audit.record(entry, pid: caller.pid)
    waiters.wake(.release(params.id))
    return true
  }
}

extension Approvals {
  /// `release.revoke`. False: no approval with this id is active, or the caller may not manage it.
  func revoke(_ id: String, caller: Principal) -> Bool {
    let policy = authorizer.policy
    let approval = releases.revoke(id, at: uptime) { question in
      policy.allows(.manage, method: ReleaseRevoke.name, account: question.account, caller: caller)
    }
    guard let approval else { return false }
    let entry = AuditEntry(
      action: .policy, method: ReleaseRevoke.name, account: approval.question.account, who: .init(caller),
      detail: "\(approval.question.method) to \(PendingReleases.description(of: approval.caller))")
    audit.record(entry, pid: caller.pid)
    logger.notice("\(ReleaseRevoke.name) \(id)", metadata: ["account": "\(approval.question.account)"])
    return true
  }
}

extension ReleaseList: RPCHandler {
  static var subject: Subject<Params, Void> { .someAccount }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    broker.tokens.approvals.releaseList(for: call.caller)
  }
}

extension ReleaseApprove: RPCHandler {
  static var subject: Subject<Params, Void> { .someAccount }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    .init(approved: try broker.tokens.approvals.answer(call.params, true, ReleaseApprove.name, caller: call.caller))
  }
}

extension ReleaseRevoke: RPCHandler {
  static var subject: Subject<Params, Void> { .someAccount }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    .init(revoked: broker.tokens.approvals.revoke(call.params.id, caller: call.caller))
  }
}

extension ReleaseDeny: RPCHandler {
  static var subject: Subject<Params, Void> { .someAccount }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    .init(denied: try broker.tokens.approvals.answer(call.params, false, ReleaseDeny.name, caller: call.caller))
  }
}
