public import BrokerAPI
import Grants
import Logging
import OAuth
import Principals

/// What goes into the audit trail, and who may read it.
final class AuditLog: Sendable {
  let trail: AuditTrail
  private let cache: TokenCache
  private let system: SystemDependencies
  let logger: Logger

  init(_ trail: AuditTrail, _ cache: TokenCache, _ system: SystemDependencies, _ logger: Logger) {
    self.trail = trail
    self.cache = cache
    self.system = system
    self.logger = logger
  }

  /// Whether there is an account of that name.
  func knows(_ account: String) -> Bool { cache.knows(account) }

  /// - Parameters:
  ///   - caller: the caller, for counting refusals; nil: the name in the entry.
  ///   - isReal: whether the account exists; invented names are limited.
  func record(_ entry: AuditEntry, by caller: Principal? = nil, pid: Int32 = 0, isReal: Bool = false) {
    trail.record(
      entry, pid: caller?.pid ?? pid, isReal: isReal, refuser: refuser(of: entry, caller, isReal: isReal))
  }

  /// The user whose share it takes; nil: none. An attempt on an account that does not exist is a refusal.
  private func refuser(of entry: AuditEntry, _ caller: Principal?, isReal: Bool) -> AuditSubject? {
    guard entry.isRefusal || entry.result != AuditEntry.ok && !isReal else {
      return (caller?.holder ?? entry.who.uid.map(system.holder)).flatMap(AuditSubject.init(eventsOf:))
    }
    let refuser: AuditSubject
    if let caller {
      refuser = AuditSubject(caller.holder, isNamed: cache.inForce.policy.names(caller))
    } else if let uid = entry.who.uid {
      refuser = AuditSubject(system.holder(uid), isNamed: true)
    } else {
      // The broker itself, unless something was refused.
      return entry.isRefusal ? .unknown : nil
    }
    return entry.isRefusal || refuser.standing != .own ? refuser : nil
  }

  /// The rule that lets the caller do this.
  func rule(_ access: Access, _ method: String, _ account: String?, _ caller: Principal) -> String? {
    cache.inForce.permission(caller, access, method, account)?.rule
  }

  func begin() async {
    guard let store = trail.store else { return }
    do throws(StoreError) {
      trail.begin(after: try await store.lastID())
    } catch {
      // The clock separates the numbers of this run from stored ones.
      trail.begin(after: system.now().milliseconds)
      logger.error(
        "the audit trail cannot be read: \(error.message)", metadata: ["hint": "\(error.hint)"])
    }
  }

  /// A method ended. Refusals of any method are recorded; ``auditAction(of:)`` selects the rest.
  ///
  /// - Parameters:
  ///   - name: in the record.
  ///   - provider: of the account, if the result does not name it.
  func ended<M: RPCMethod>(
    _ method: M.Type, as name: String, account: String?, at provider: String? = nil, _ caller: Principal,
    _ access: Access, rule: String?, _ result: Result<M.Result, RPCError>, detail: String? = nil
  ) {
    let action = access == .idToken ? AuditAction.idToken : Self.auditAction(of: method)
    let who = AuditCaller(caller)
    switch result {
    case .success(let value):
      guard let action, M.name != BrokerReload.name else { return }
      let token = value as? any Releasing
      let entry = AuditEntry(
        action: action, method: name, account: account, who: who, provider: token?.releasedProvider ?? provider,
        scopes: token?.releasedScopes ?? [], generation: token?.releasedGeneration, rule: rule, detail: detail)
      record(entry, by: caller)
    case .failure(let error):
      // A request that could not be parsed did nothing.
      guard let reason = error.reason else { return }
      let isRefusal = reason == .notPermitted || reason == .rateLimited
      guard isRefusal || (action != nil && M.name != BrokerReload.name) else { return }
      let entry = AuditEntry(
        action: action ?? Self.refusalAction(of: method), method: name,
        account: account.flatMap { AccountName(rawValue: $0)?.rawValue }, who: who, result: reason.rawValue,
        detail: detail)
      record(entry, by: caller, isReal: entry.account.map(knows) ?? false)
    }
  }

  /// Nil: only its refusals are recorded.
  static func auditAction(of method: any RPCMethod.Type) -> AuditAction? {
    switch method.name {
    case TokenGet.name, TokenExchange.name: .release
    case AccountLogout.name, AccountEndSession.name: .logout
    case AccountImport.name: .login
    // Looking changes nothing, and how a login ended is recorded where it ends.
    case LoginWait.name, LoginList.name, LoginHandleCallback.name, AuditList.name, ReleaseList.name, PolicyRules.name:
      nil
    // Recorded where they are taken, with the account.
    case ReleaseApprove.name, ReleaseDeny.name, ReleaseRevoke.name: nil
    // What goes in pieces is recorded as it begins and as it takes effect.
    case StoreBackupPart.name, StoreRestorePart.name, StoreRestoreLook.name: nil
    case BrokerReload.name: .policy
    case AccountRefresh.name: .use
    // Methods that use the account's token, even to inspect it.
    case _ where method is any TokenRelease.Type: .use
    default: auditAction(of: method.access)
    }
  }

  private static func auditAction(of access: Access) -> AuditAction? {
    switch access {
    case .use: .use
    case .idToken: .idToken
    case .login: .login
    case .manage: .admin
    case .open, .observe: nil
    }
  }

  /// The action that a refusal is recorded as.
  static func refusalAction(of method: any RPCMethod.Type) -> AuditAction {
    switch method.name {
    case LoginWait.name, LoginList.name, LoginHandleCallback.name: .login
    case ReleaseApprove.name, ReleaseDeny.name, ReleaseRevoke.name: .policy
    case StoreBackupPart.name, StoreRestorePart.name, StoreRestoreLook.name: .admin
    default: auditAction(of: method) ?? .observe
    }
  }

  /// One refusal for want of the caller's own patience.
  func tooOften(_ method: String, _ caller: Principal, wait: Duration) -> RPCError {
    let who = AuditCaller(caller)
    let action = Methods.named(method).map(Self.refusalAction(of:)) ?? .observe
    record(AuditEntry(action: action, method: method, who: who, result: ErrorReason.rateLimited.rawValue), by: caller)
    return RPCError(
      .rateLimited, "\(who.words) asks too often",
      hint: "Keep a token until it expires; requests that are refused count several times. [limits] says how many.",
      retryAfter: wait.inSeconds)
  }

  func record(login: SavedLogin, _ type: EventType, _ error: RPCError? = nil) {
    // A failed request granted no scopes, and the caller can invent the requested ones.
    let scopes = error == nil ? login.scopes : []
    let entry = AuditEntry(
      action: .login, method: type.rawValue, account: login.account.rawValue, who: .init(uid: login.uid),
      result: error.map { $0.reason?.rawValue ?? "failed" } ?? AuditEntry.ok, provider: login.provider.rawValue,
      scopes: scopes)
    record(entry, isReal: knows(login.account.rawValue))
  }

  /// The provider ended a session or a grant without a caller.
  func record(ended account: AccountName, at provider: ProviderName, by what: String) {
    trail.record(
      AuditEntry(
        action: .logout, method: what, account: account.rawValue, who: .init(uid: nil), provider: provider.rawValue))
  }

  /// A row on disk cannot be read (`store.set_aside`), or the database lacks commits of earlier runs (`store.older`).
  func record(damage method: String, of account: String? = nil, _ detail: String) {
    trail.record(
      AuditEntry(
        action: .admin, method: method, account: account, who: .init(uid: nil),
        result: ErrorReason.storeFailure.rawValue, detail: detail))
  }

  /// Actions of one request on many accounts: one record for each, so that each trail has it. Very many are saved in
  /// steps, so that none is lost: the request, which is already on disk, waits.
  ///
  /// - Parameters:
  ///   - size: the number per step, interleaved with other work (``Batch``).
  ///   - entry: makes the record of the account with this index.
  @BrokerActor
  func record(_ count: Int, by size: Int, for caller: Principal, _ entry: (Int) -> AuditEntry) async {
    var batch = Batch(of: size)
    for number in 0..<count {
      if number > 0, number.isMultiple(of: Limit.auditBatch) { await trail.flush() }
      record(entry(number), by: caller, isReal: true)
      await batch.next()
    }
  }
}

/// Methods that release a token.
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
