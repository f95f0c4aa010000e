public import BrokerAPI
public import OAuth
public import Principals

/// The action, its account, its caller and its result. The same action by the same caller is counted in one record.
public struct AuditEntry: Sendable, Hashable {
  public var action: AuditAction
  public var method: String
  public var account: String?
  public var provider: String?
  public var who: AuditCaller
  /// Those of the token that was released.
  public var scopes: [String]
  /// The token that was released.
  public var generation: Int64?
  /// What allowed it; nil: no rule was needed, or none did.
  public var rule: String?
  /// `ok`, ``notDelivered``, or the reason of the error.
  public var result: String
  /// For people.
  public var detail: String?

  public static let ok = "ok"
  /// The socket did not deliver the value, regardless of the broker's answer.
  public static let notDelivered = "not_delivered"

  public init(
    action: AuditAction, method: String, account: String? = nil, who: AuditCaller, result: String = ok,
    provider: String? = nil, scopes: [String] = [], generation: Int64? = nil, rule: String? = nil,
    detail: String? = nil
  ) {
    self.action = action
    self.method = method
    self.account = account
    self.who = who
    self.result = result
    self.provider = provider
    self.scopes = scopes
    self.generation = generation
    self.rule = rule
    self.detail = detail
  }

  /// The results that are refusals, and that of an undelivered value.
  public static let refusals = [
    ErrorReason.notPermitted.rawValue, ErrorReason.rateLimited.rawValue, notDelivered,
  ]

  public var isRefusal: Bool { Self.refusals.contains(result) }

  /// As it is written. Nil where this version knows no such action.
  public init?(actionName: String, method: String, account: String?, who: AuditCaller, result: String) {
    guard let action = AuditAction(rawValue: actionName) else { return nil }
    self.init(action: action, method: method, account: account, who: who, result: result)
  }

  public var actionName: String { action.rawValue }

  /// The time after the last repetition in which the record stays the same. A token is requested as long as it lives.
  var window: Duration {
    switch action {
    case .release, .idToken, .use: .seconds(7200)
    case .login, .logout, .policy, .admin, .observe: result == Self.ok ? .seconds(1) : .seconds(600)
    }
  }
}

/// Whom the kernel said it is, without the number of the process: a program that is started every minute is one caller.
public struct AuditCaller: Sendable, Hashable {
  /// Nil: the broker itself, or a signal; of a refusal: the kernel did not say.
  public var uid: UInt32?
  public var unit: String?
  public var userUnit: String?
  public var executable: String?
  /// The name of the program that executed it, if it is the helper.
  public var parent: String?

  public init(
    uid: UInt32?, unit: String? = nil, userUnit: String? = nil, executable: String? = nil, parent: String? = nil
  ) {
    self.uid = uid
    self.unit = unit
    self.userUnit = userUnit
    self.executable = executable
    self.parent = parent
  }

  public init(_ caller: Principal) {
    switch caller {
    case .process(let process), .unit(_, manager: let process), .peer(let process):
      self.init(
        uid: process.uid, unit: process.unit, userUnit: process.userUnit, executable: process.executable,
        parent: process.parent)
    }
  }

  /// Whether programs of the user can be told apart by it: all of a session are in one scope.
  var isMoreThanUser: Bool {
    let unit = userUnit ?? unit
    return executable != nil || unit.map { $0.hasSuffix(".service") && !$0.hasPrefix("user@") } ?? false
  }
}

/// One record of the trail.
public struct AuditRecord: Sendable, Equatable {
  /// Counts up with the records as they begin.
  public var id: Int64
  public var entry: AuditEntry
  /// The process that did it last.
  public var pid: Int32?
  public var count: UInt64
  public var first: Timestamp
  public var last: Timestamp
  /// The user whose share of the store it takes. Nil: it takes none, or it was read from the store.
  public var refuser: AuditSubject?

  public init(
    id: Int64, entry: AuditEntry, pid: Int32?, count: UInt64, first: Timestamp, last: Timestamp,
    refuser: AuditSubject? = nil
  ) {
    self.refuser = refuser
    self.id = id
    self.entry = entry
    self.pid = pid
    self.count = count
    self.first = first
    self.last = last
  }
}

/// The audit trail's storage.
public protocol AuditStore: Sendable {
  /// The highest number that a record has; 0 where there is none.
  func lastID() async throws(StoreError) -> Int64

  /// On disk on return. An existing record gets the higher count. Above `most` records, or above a holder's share
  /// (``AuditShares``), the oldest are removed at once.
  func write(_ records: [AuditRecord], most: Int) async throws(StoreError)

  /// The latest first.
  func read(_ question: AuditQuestion) async throws(StoreError) -> [AuditRecord]

  /// Removes records that ended before `moment`, and those above `most`.
  func removeRecords(before moment: Timestamp, most: Int) async throws(StoreError)
}

/// Which records are wanted; nil: all.
public struct AuditQuestion: Sendable, Equatable {
  public var account: String?
  /// Records of accounts that match one of these patterns, `*` for any characters; nil: all, including records without
  /// an account.
  public var accounts: [String]?
  public var uid: UInt32?
  public var unit: String?
  public var action: AuditAction?
  public var refusalsOnly = false
  /// Those that ended then or later.
  public var since: Timestamp?
  /// Those that began then or earlier.
  public var until: Timestamp?
  /// Those with a lower number.
  public var before: Int64?
  public var limit: Int

  public init(limit: Int) {
    self.limit = limit
  }

  public var actionName: String? { action?.rawValue }
}

/// What is recorded, and for how long.
public struct AuditPolicy: Sendable, Equatable {
  public var isEnabled = true
  public var keep = Duration.seconds(90 * 86_400)
  public var most = 1_000_000

  public init() {}
}
