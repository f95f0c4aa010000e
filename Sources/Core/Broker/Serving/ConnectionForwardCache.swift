import BrokerAPI
import FoundationEssentials
import Grants
import OAuth
import Principals

/// Requests of one connection that need no decision on the broker's actor. The token and the address of the previous request
/// are reused until the token, the provider's settings or the policy change; the rules are evaluated for each request. All
/// others go to ``LoopbackBroker/authorize(_:session:)``. Lives on one event loop.
public final class ConnectionForwardCache {
  private final class Known {
    let basis: AuthorizedBasis
    let question: AuthorizedCalls.Question
    let slot: TokenCache.Slot
    /// The prefix of paths; its own path does not end with a slash.
    let prefix: String
    let host: String
    /// The token's part of a request's headers.
    let credentials: [HTTPRequest.Header]
    let names: Set<String>
    /// Counts the requests that this rule allowed; nil: they are not recorded.
    var line: (rule: String?, line: AuditLine)?

    init(_ sent: AuthorizedRequest, _ slot: TokenCache.Slot, prefix: String, host: String) {
      basis = sent.basis
      question = sent.call.question
      self.slot = slot
      self.prefix = prefix
      self.host = host
      credentials = sent.basis.added
      names = Set(sent.basis.added.map { $0.name.lowercased() })
    }
  }

  private let broker: Broker
  private let principal: Principal
  private let who: AuditCaller
  private let holder: Holder
  /// The accounts for which a program sends requests: one, or a few alternating.
  private var latest: (account: String, known: Known)?
  private var kept: [String: Known] = [:]

  init(_ broker: Broker, _ principal: Principal) {
    self.broker = broker
    self.principal = principal
    who = AuditCaller(principal)
    holder = principal.holder
  }

  /// The request with the account's token; nil: the broker has to decide.
  public func authorized(_ forward: ForwardRequest) -> AuthorizedRequest? {
    let account = forward.account
    guard forward.host == nil, let known = known(account),
      broker.cache.uptime().milliseconds < known.slot.entry.servedUntil, PlainPath.isVerbatim(target: forward.target),
      known.prefix.utf8.count + forward.target.utf8.count <= 8000,
      known.names.isEmpty || !forward.headers.contains(where: { known.names.contains($0.name.lowercased()) })
    else { return nil }
    let target = known.prefix + forward.target
    let path = target.utf8.firstIndex(of: UInt8(ascii: "?")).map { String(target[..<$0]) } ?? target
    let request = APIRequest(method: forward.method, host: known.host, path: path)
    guard
      let permission = broker.door.authorizer.inForce.permission(
        principal, .use, RequestSend.name, account, request: request),
      permission.scopes == nil, permission.confirmation == nil,
      broker.door.authorizer.rates.acquire(who, of: holder) == nil
    else { return nil }
    record(account, known, permission.rule)
    return AuthorizedRequest(
      basis: known.basis, method: forward.method, target: target, headers: forward.headers + known.credentials,
      signing: nil,
      call: APICall(
        question: known.question,
        params: RequestSend.Params(account: account, method: forward.method, url: forward.target),
        permission: permission))
  }

  /// Later requests like this one use the cache.
  ///
  /// - Parameter forward: the request.
  public func keep(_ sent: AuthorizedRequest, of forward: ForwardRequest) {
    // Nothing is kept of a request with a cap or an approval: the broker decides the next one, too.
    guard sent.call.permission.scopes == nil, sent.call.permission.confirmation == nil else { return }
    remove(forward.account)
    guard forward.host == nil, !sent.isSigned, let slot = sent.basis.slot,
      !slot.entry.reporters.contains(Reporter(principal)), sent.target.hasSuffix(forward.target),
      sent.headers == forward.headers + sent.basis.added
    else { return }
    let url = sent.request.url
    let prefix = String(sent.target.dropLast(forward.target.utf8.count))
    let known = Known(sent, slot, prefix: prefix, host: APIRequest(method: sent.method, url: url).host)
    if kept.count >= Limit.accountsPerConnection { kept = [:] }
    kept[forward.account] = known
    latest = (forward.account, known)
  }

  private func remove(_ account: String) {
    kept[account] = nil
    if latest?.account == account { latest = nil }
  }

  private func known(_ account: String) -> Known? {
    guard let known = latest?.account == account ? latest?.known : kept[account] else { return nil }
    guard !known.slot.isWithdrawn else {
      remove(account)
      return nil
    }
    latest = (account, known)
    return known
  }

  private func record(_ account: String, _ known: Known, _ rule: String?) {
    broker.door.requests.answered(RequestSend.name, .success(()))
    let trail = broker.cache.trail
    guard trail.policy.isEnabled, let action = AuditLog.auditAction(of: RequestSend.self) else { return }
    let now = broker.cache.uptime().milliseconds
    if let (own, line) = known.line, own == rule, !line.isClosed {
      return line.again(pid: principal.pid, at: now)
    }
    var entry = AuditEntry(action: action, method: RequestSend.name, account: account, who: who)
    entry.rule = rule
    known.line = trail.line(
      entry, pid: principal.pid, at: now, refuser: AuditSubject(eventsOf: holder)
    ).map { (rule, $0) }
  }
}
