import BrokerAPI
import DequeModule
import FoundationEssentials
import Grants
import OAuth
import Principals
import Synchronization

/// The tokens that can be released without asking the broker, each rendered once. Read on the socket's event loop: see
/// ``ConnectionTokenCache``.
public final class TokenCache: Sendable {
  struct Entry: Sendable {
    let body: CachedReply.Body
    /// Milliseconds since the machine started, so that setting the wall clock changes nothing; nil: unknown, so good
    /// until it is refused.
    let expiresAt: Int64?
    let lifetime: Duration
    /// Without a wish of the caller, the token is served until here.
    let servedUntil: Int64
    let provider: String
    let scopes: [String]
    /// The granted scopes, if the token has all of them.
    let granted: Set<String>
    /// Whether fewer scopes than that mean another token.
    let isNarrowable: Bool
    let generation: Int64
    /// Callers that reported it: they are not served it.
    let reporters: [Reporter]
  }

  /// Whether the account is served this token already.
  func serves(_ account: AccountName, _ generation: Int64) -> Bool {
    state.withLock { $0.slots[account.rawValue]?.entry.generation == generation }
  }

  /// A served entry. Its holder checks whether it is still current.
  final class Slot: Sendable {
    let entry: Entry
    private let withdrawn = Atomic(false)

    init(_ entry: Entry) { self.entry = entry }

    var isWithdrawn: Bool { withdrawn.load(ordering: .acquiring) }
    func withdraw() { withdrawn.store(true, ordering: .releasing) }
  }

  /// The result of a lookup for one caller.
  struct Found: Sendable {
    let slot: Slot
    let refresh: RefreshPolicy
    /// The rule that allows it.
    let rule: String?
    let isRecorded: Bool
    let epoch: UInt64
  }

  enum Answer: Sendable {
    case found(Found)
    /// The caller may not have this token unchanged: it holds as long as a found token would.
    case refused(Slot, epoch: UInt64)
    /// No token is rendered.
    case none
  }

  private struct State {
    var slots: [String: Slot] = [:]
    /// The requested accounts, with or without a token now, and their order; includes some removed ones.
    var asked: Set<String> = []
    var order: Deque<String> = []
    /// The names of all accounts, including those without a token.
    var accounts: Set<String> = []
    var refresh = RefreshPolicy()
    var isOpen = true
  }

  private let state: Mutex<State>
  let inForce: PolicyInForce
  private let replies = Atomic<UInt64>(0)
  let uptime: @Sendable () -> Duration
  let trail: AuditTrail
  let recipients = TokenRecipients()

  init(_ inForce: PolicyInForce, trail: AuditTrail, uptime: @escaping @Sendable () -> Duration) {
    state = Mutex(State())
    self.inForce = inForce
    self.trail = trail
    self.uptime = uptime
  }

  /// The account's token, if the caller may have it unchanged.
  func find(_ account: String, for principal: Principal) -> Answer {
    let known = state.withLock { state in
      state.isOpen ? state.slots[account].map { (slot: $0, refresh: state.refresh) } : nil
    }
    // Without a token, the right to it is decided with the request.
    guard let known, !known.slot.isWithdrawn else { return .none }
    let (entry, reporter, epoch) = (known.slot.entry, Reporter(principal), inForce.epoch)
    guard let permission = inForce.permission(principal, .use, TokenGet.name, account),
      permission.scopes == nil, permission.confirmation == nil, !entry.reporters.contains(reporter)
    else { return .refused(known.slot, epoch: epoch) }
    recipients.record(account, entry.generation, to: reporter)
    return .found(
      Found(
        slot: known.slot, refresh: known.refresh, rule: permission.rule, isRecorded: trail.policy.isEnabled,
        epoch: permission.epoch))
  }

  /// The account's cached token, without a decision about who may have it.
  func slot(of account: AccountName) -> Slot? { state.withLock { $0.slots[account.rawValue] } }

  /// Whether nothing has changed since.
  func stillHolds(_ found: Found) -> Bool { stillHolds(found.slot, epoch: found.epoch) }

  func stillHolds(_ slot: Slot, epoch: UInt64) -> Bool { !slot.isWithdrawn && inForce.epoch == epoch }

  func count() { replies.add(1, ordering: .relaxed) }

  /// How many replies there were.
  var served: UInt64 { replies.load(ordering: .relaxed) }

  /// Whether there is an account of that name.
  func knows(_ account: String) -> Bool { state.withLock { $0.accounts.contains(account) } }

  /// Whether the account's token was requested, so that it is rendered with each change.
  func isAsked(_ account: AccountName) -> Bool { state.withLock { $0.asked.contains(account.rawValue) } }

  /// The rendered tokens are outdated.
  ///
  /// - Returns: their accounts.
  func withdrawAll() -> [AccountName] {
    state.withLock { state in
      for slot in state.slots.values { slot.withdraw() }
      state.slots = [:]
      return state.asked.compactMap(AccountName.init(rawValue:))
    }
  }

  /// Reserves space for this number of accounts.
  func reserve(_ count: Int) { state.withLock { $0.accounts.reserveCapacity(count) } }

  /// - Parameter exists: whether there still is such an account.
  func set(_ account: AccountName, _ entry: Entry?, exists: Bool = true) {
    let slot = entry.map(Slot.init)
    state.withLock { state in
      if exists { state.accounts.insert(account.rawValue) } else { state.accounts.remove(account.rawValue) }
      let old = state.slots.removeValue(forKey: account.rawValue)
      old?.withdraw()
      guard exists else {
        state.asked.remove(account.rawValue)
        return
      }
      guard state.isOpen, let slot else { return }
      state.slots[account.rawValue] = slot
      guard state.asked.insert(account.rawValue).inserted else { return }
      state.order.append(account.rawValue)
      while state.asked.count > Limit.cachedTokens || state.order.count > 2 * Limit.cachedTokens,
        let oldest = state.order.popFirst()
      {
        state.asked.remove(oldest)
        state.slots.removeValue(forKey: oldest)?.withdraw()
      }
    }
  }

  /// Before the policy of the same reload: that makes connections look again.
  func configure(_ refresh: RefreshPolicy) { state.withLock { $0.refresh = refresh } }

  func close() {
    state.withLock { state in
      state.isOpen = false
      for slot in state.slots.values { slot.withdraw() }
      state.slots = [:]
    }
  }
}

extension TokenCache.Entry {
  init(
    _ token: SavedToken, grant: SavedGrant, provider: (any Provider)?, isNarrowable: Bool, policy: RefreshPolicy,
    at now: Timestamp, _ uptime: Duration
  ) {
    let lifetime = token.expiresAt.map { $0 - token.issuedAt } ?? .zero
    var token = token
    token.expiresAt = token.end(at: now)
    let expiresAt = token.expiresAt.map { (uptime + ($0 - now)).milliseconds }
    self.expiresAt = expiresAt
    self.lifetime = lifetime
    servedUntil = expiresAt.map { $0 - policy.floor(nil, lifetime: lifetime).milliseconds } ?? .max
    body = CachedReply.Body(TokenGet.Result(token, grant: grant, provider: provider, at: nil))
    self.provider = grant.provider.rawValue
    scopes = token.scopes
    granted = Set(grant.grantedScopes)
    self.isNarrowable = isNarrowable
    generation = token.generation
    reporters = token.reports.map(\.reporter)
  }
}

extension TokenCache.Entry {
  /// Whether a request for these scopes gets this token, as ``Accounts/key(scopes:resource:_:)`` decides. False where it
  /// takes more than a look.
  ///
  /// - Parameter text: an array of texts without escapes, in JSON.
  func satisfies(_ text: UnsafeRawBufferPointer) -> Bool {
    let parts = text.split(separator: UInt8(ascii: "\""), omittingEmptySubsequences: false)
    let wanted = Set(stride(from: 1, to: parts.count, by: 2).map { String(decoding: parts[$0], as: UTF8.self) })
    guard wanted.isSubset(of: scopes) else { return false }
    return wanted.isEmpty || wanted == granted || !isNarrowable && wanted.isSubset(of: granted)
  }
}

extension CachedReply.Body {
  /// Renders a result, leaving a hole where `expires_in` goes.
  convenience init(_ result: TokenGet.Result) {
    guard result.expires_at != nil, case .object(var members) = JSON(encoding: result) else {
      self.init(head: JSON(encoding: result).serialized(), tail: [])
      return
    }
    members.removeAll { $0.name == "expires_in" }
    // Its position in the result: directly after `expires_at`.
    let place = (members.firstIndex { $0.name == "expires_at" } ?? 0) + 1
    let head = JSON.object(Array(members[..<place])).serialized()
    let tail = JSON.object(Array(members[place...])).serialized()
    self.init(
      head: head.dropLast() + Array(",\"expires_in\":".utf8), tail: [UInt8(ascii: ",")] + tail.dropFirst())
  }
}

extension TokenGet.Result {
  /// The token as sent by the socket; without `expires_in` if `at` is nil.
  init(_ token: SavedToken, grant: SavedGrant, provider: (any Provider)?, at now: Timestamp?) {
    // Exposed because the broker's purpose is to return it.
    let secret = token.accessToken.exposed
    let extra = grant.extra.flatMap { try? JSON.parse(Array($0)) }.flatMap { try? $0.decode([String: JSON].self) }
    self.init(
      access_token: secret, token_type: token.type,
      expires_at: (now.map(token.end) ?? token.expiresAt)?.seconds,
      expires_in: now.flatMap { now in token.end(at: now).map { max(0, ($0 - now).wholeSeconds) } },
      scope: token.scopes, account: grant.account.rawValue, provider: grant.provider.rawValue,
      issuer: provider?.description.issuer,
      generation: token.generation,
      dpop_thumbprint: token.type == "DPoP" ? grant.dpopKey.flatMap(DPoPKey.init(raw:))?.thumbprint : nil,
      extra: extra?.isEmpty == false ? extra : nil)
    guard token.type == SavedToken.session else { return }
    access_token = nil
    token_type = nil
    kind = SavedToken.session
    session_id = secret
    cookie = provider?.tokenTraits.credential.cookie(secret)
  }
}
