import BrokerAPI
import Grants
import OAuth
import Principals

/// The cached tokens of one connection. Its caller's decisions are kept until the token or the policy changes, so a
/// request costs a name comparison, a clock reading and a count, without a lock.
final class ConnectionTokenCache: CachedTokens {
  private final class Known {
    let account: [UInt8]
    let found: TokenCache.Found
    /// Counts the releases of this token to this caller; nil: they are not recorded.
    @exclusivity(unchecked) var line: AuditLine?
    /// The scopes, as they were written, for which the token is the answer too.
    @exclusivity(unchecked) private var scopes: [UInt8] = []

    init(_ account: UnsafeRawBufferPointer, _ found: TokenCache.Found) {
      self.account = Array(account)
      self.found = found
    }

    func isOf(_ name: UnsafeRawBufferPointer) -> Bool { Self.isSame(account, name) }

    /// Whether it is the token of these scopes.
    func satisfies(_ wanted: UnsafeRawBufferPointer) -> Bool {
      if Self.isSame(scopes, wanted) { return true }
      guard found.slot.entry.satisfies(wanted) else { return false }
      scopes = Array(wanted)
      return true
    }

    private static func isSame(_ own: [UInt8], _ text: UnsafeRawBufferPointer) -> Bool {
      own.count == text.count && !own.isEmpty && own.withUnsafeBytes { $0.elementsEqual(text) }
    }
  }

  private let cache: TokenCache
  private let principal: Principal
  private let pid: Int32
  private let who: AuditCaller
  /// A program asks for one account, or for a few in turn.
  // Used by only one loop: the runtime's check on each request cannot fail.
  @exclusivity(unchecked) private var latest: Known?
  private var others: [String: Known] = [:]
  /// The accounts whose rendered token this caller may not have as it is: each request goes to the broker.
  private var refusals: [String: (slot: TokenCache.Slot, epoch: UInt64)] = [:]

  init(_ cache: TokenCache, _ principal: Principal) {
    self.cache = cache
    self.principal = principal
    pid = principal.pid
    who = AuditCaller(principal)
  }

  func reply(
    account: UnsafeRawBufferPointer, minTTL: Int64?, scopes: UnsafeRawBufferPointer?
  ) -> CachedReply? {
    guard let known = known(account), scopes.map(known.satisfies) ?? true else { return nil }
    let entry = known.found.slot.entry
    let now = cache.uptime().milliseconds
    guard let expiresAt = entry.expiresAt else {
      released(known, at: now)
      return CachedReply(body: entry.body, expiresIn: nil)
    }
    var servedUntil = entry.servedUntil
    if let minTTL {
      let floor = known.found.refresh.floor(.seconds(min(minTTL, 1_000_000_000)), lifetime: entry.lifetime)
      servedUntil = expiresAt - floor.milliseconds
    }
    guard now < servedUntil, expiresAt - now >= RefreshPolicy.shortestRest.milliseconds else { return nil }
    released(known, at: now)
    return CachedReply(body: entry.body, expiresIn: (expiresAt - now) / 1000)
  }

  private func known(_ account: UnsafeRawBufferPointer) -> Known? {
    if let latest, latest.isOf(account), cache.stillHolds(latest.found) { return latest }
    let name = String(decoding: account, as: UTF8.self)
    var known = others[name].flatMap { cache.stillHolds($0.found) ? $0 : nil }
    if known == nil {
      if let refusal = refusals[name], cache.stillHolds(refusal.slot, epoch: refusal.epoch) { return nil }
      refusals[name] = nil
      switch cache.find(name, for: principal) {
      case .found(let found): known = Known(account, found)
      case .refused(let slot, let epoch):
        if refusals.count >= Limit.accountsPerConnection { refusals = [:] }
        refusals[name] = (slot, epoch)
      case .none: break
      }
      if others.count >= Limit.accountsPerConnection { others = [:] }
      others[name] = known
    }
    latest = known
    return known
  }

  private func released(_ known: Known, at now: Int64) {
    cache.count()
    guard known.found.isRecorded else { return }
    if let line = known.line, !line.isClosed { return line.again(pid: pid, at: now) }
    let entry = known.found.slot.entry
    let name = String(decoding: known.account, as: UTF8.self)
    var audit = AuditEntry(action: .release, method: TokenGet.name, account: name, who: who)
    audit.provider = entry.provider
    audit.scopes = entry.scopes
    audit.generation = entry.generation
    audit.rule = known.found.rule
    known.line = cache.trail.line(audit, pid: pid, at: now, refuser: AuditSubject(eventsOf: principal.holder))
  }
}
