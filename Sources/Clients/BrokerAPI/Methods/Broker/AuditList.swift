/// What kind of thing was done.
public enum AuditAction: String, Codable, Sendable, CaseIterable {
  /// A token was released.
  case release
  /// An ID token was released.
  case idToken = "id_token"
  /// The broker used a token for a caller, who did not see it.
  case use
  /// A login began, continued or ended.
  case login
  /// An account was forgotten, or a session ended.
  case logout
  /// The broker started, the configuration was read again, a waiting release was approved or denied.
  case policy
  /// Something else about the broker was changed.
  case admin
  /// A look at accounts, rules or the broker was refused.
  case observe
}

/// The audit trail.
public enum AuditList: RPCMethod {
  public static let name = "audit.list"
  public static let access = Access.manage
  public static let summary =
    "Lists actions and refusals with account and caller, the latest first, of the accounts that the caller may manage."
  public static let errors: [ErrorReason] = [.storeFailure]

  public static let mostRecords = 500

  public struct Params: Codable, Sendable, Equatable {
    public var account: String?
    public var since: Int64?
    public var until: Int64?
    public var uid: UInt32?
    public var unit: String?
    public var action: AuditAction?
    public var refused: Bool?
    public var limit: Int?
    public var before: Int64?

    public init(
      account: String? = nil, since: Int64? = nil, until: Int64? = nil, uid: UInt32? = nil, unit: String? = nil,
      action: AuditAction? = nil, refused: Bool? = nil, limit: Int? = nil, before: Int64? = nil
    ) {
      self.account = account
      self.since = since
      self.until = until
      self.uid = uid
      self.unit = unit
      self.action = action
      self.refused = refused
      self.limit = limit
      self.before = before
    }
  }

  public struct Line: Codable, Sendable, Equatable, Documented {
    public var id: Int64
    public var first: Int64
    public var last: Int64
    public var count: UInt64
    public var action: AuditAction
    public var method: String
    public var account: String?
    public var provider: String?
    public var uid: UInt32?
    public var pid: Int32?
    public var unit: String?
    public var user_unit: String?
    public var exe: String?
    public var parent: String?
    public var scopes: [String]?
    public var generation: Int64?
    public var rule: String?
    public var result: String
    public var detail: String?

    public init(
      id: Int64, first: Int64, last: Int64, count: UInt64, action: AuditAction, method: String, account: String?,
      provider: String?, uid: UInt32?, pid: Int32?, unit: String?, user_unit: String?, exe: String?,
      scopes: [String]?, generation: Int64?, rule: String?, result: String, detail: String?, parent: String? = nil
    ) {
      self.id = id
      self.first = first
      self.last = last
      self.count = count
      self.action = action
      self.method = method
      self.account = account
      self.provider = provider
      self.uid = uid
      self.pid = pid
      self.unit = unit
      self.user_unit = user_unit
      self.exe = exe
      self.scopes = scopes
      self.generation = generation
      self.rule = rule
      self.result = result
      self.detail = detail
      self.parent = parent
    }

    public static let docs = [
      "id": "Counts up with the records as they begin.",
      "first": "When it was done first, in Unix seconds.",
      "last": "When it was done last, in Unix seconds.",
      "count": "How often: the same of the same token for the same caller is one record.",
      "action":
        "`release`: a token was returned; `use`: the broker used one; `login`, `logout`, `policy`, `admin`; `observe`: a look was refused.",
      "method":
        "The method of the socket; or `credential`: a unit's `LoadCredential=`; `login.completed`, `login.failed`: how a "
        + "login ended; `backchannel_logout`: the provider ended the session; `broker.start`; "
        + "`store.set_aside`: a row on disk cannot be read; "
        + "`store.older`: an older copy of the database; "
        + "or `*`: refusals of several methods, in addition to those with separate records.",
      "account": "The account.",
      "provider": "The provider, if the method names one.",
      "uid": "The caller's user; absent: the broker itself, or of a refusal, that the kernel did not say.",
      "pid": "The process that did it last.",
      "unit": "The system's unit that it ran in.",
      "user_unit": "The unit of the user's own manager.",
      "exe": "The path of its executable.",
      "parent": "The name of the program that executed it, if it is `grantctl`.",
      "scopes": "Those of the token.",
      "generation": "Which of the account's tokens.",
      "rule": "The rule that permitted it; absent if none was needed.",
      "result":
        "`ok`, or the reason of the error: `not_permitted` and `rate_limited` are refusals. `not_delivered`: a credential "
        + "that did not get to its unit.",
      "detail": "For people.",
    ]
  }

  public struct Result: Codable, Sendable, Equatable {
    public var records: [Line]
    public var next: Int64?

    public init(records: [Line], next: Int64? = nil) {
      self.records = records
      self.next = next
    }
  }

  public static let paramDocs = [
    "account": "Only of this account. Without it, records of no account take a rule for all accounts.",
    "since": "Only actions then or later, in Unix seconds.",
    "until": "Only actions whose first was then or earlier, in Unix seconds.",
    "uid": "Only of this user.",
    "unit": "Only of this unit, of the system or of a user's manager.",
    "action": "Only of this kind.",
    "refused": "Only refusals, and credentials that did not get to their unit.",
    "limit": "How many at most, to 500. Default: 100.",
    "before": "Only records with a lower number: `next` of the answer before.",
  ]
  public static let resultDocs = [
    "records": "The records, the latest first.",
    "next": "There are more: the value for `before`.",
  ]
  public static let example = MethodExample(
    params: ["account": "work", "limit": 1],
    result: [
      "records": [
        [
          "id": 4711, "first": 1_767_225_600, "last": 1_767_229_020, "count": 58, "action": "release",
          "method": "token.get", "account": "work", "provider": "google", "uid": 998, "pid": 2041,
          "unit": "mail-sync.service", "scopes": ["https://mail.google.com/"], "generation": 7, "rule": "mail",
          "result": "ok",
        ]
      ], "next": 4711,
    ])
}
