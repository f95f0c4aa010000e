/// A method that returns an account's token or a derived value: a rule's `scopes` and `confirm` apply to it.
public protocol TokenRelease: RPCMethod where Params: ReleaseParams {
  /// Whether it is useful to callers with a cap on scopes.
  static var takesPart: Bool { get }
}

extension TokenRelease {
  public static var takesPart: Bool { false }
}

extension TokenGet {
  public static var takesPart: Bool { true }
}

extension DPoPProof {
  public static var takesPart: Bool { true }
}

/// The parameters of a method that releases a token.
public protocol ReleaseParams: Sendable {
  var account: String { get }
  /// The seconds that the caller waits, for approval and answer together; nil: the method's default.
  var timeout: Double? { get set }
  /// Whether it concerns the account's own token with all granted scopes: refused to callers with a cap.
  var usesWholeToken: Bool { get }
}

extension ReleaseParams {
  public var usesWholeToken: Bool { true }
}

extension TokenGet.Params: ReleaseParams {
  /// It is narrowed to the caller's permitted scopes.
  public var usesWholeToken: Bool { false }
}
extension DPoPProof.Params: ReleaseParams {
  /// A proof for a token that the caller has; the broker looks which one that is.
  public var usesWholeToken: Bool { access_token == nil }
}
extension TokenExchange.Params: ReleaseParams {}
extension RequestSend.Params: ReleaseParams {}
extension ProviderQuestion.Params: ReleaseParams {}
extension AccountEndSession.Params: ReleaseParams {}

/// A release that waits, or waited, for approval.
public struct ReleaseView: Codable, Sendable, Equatable, Documented {
  public var id: String
  public var account: String
  public var method: String
  public var kind: TokenKind?
  public var scopes: [String]?
  public var resource: String?
  public var request: String?
  public var body_sha256: String?
  public var caller: ReleaseCaller
  public var rule: String
  public var since: Int64
  public var until: Int64
  public var outcome: String?

  public init(
    id: String, account: String, method: String, kind: TokenKind? = nil, scopes: [String]?, resource: String?,
    request: String? = nil, body_sha256: String? = nil, caller: ReleaseCaller, rule: String, since: Int64,
    until: Int64, outcome: String? = nil
  ) {
    self.kind = kind
    self.id = id
    self.account = account
    self.method = method
    self.scopes = scopes
    self.resource = resource
    self.request = request
    self.body_sha256 = body_sha256
    self.caller = caller
    self.rule = rule
    self.since = since
    self.until = until
    self.outcome = outcome
  }

  public static let docs = [
    "id": "What `release.approve` and `release.deny` name it by.", "account": "The account.",
    "method": "The method that was called.",
    "kind": "`id_token`: an ID token is asked for; else absent.",
    "scopes":
      "The scopes that were asked for, and what more the token is known to come with, as where the provider does not "
      + "narrow tokens; the release has no more than these. Absent: all that the caller may have.",
    "resource": "The resource that was asked for (RFC 8707).",
    "request":
      "The pending request to the provider's API, such as `POST https://api.example.com/v1/messages`; an approval "
      + "is for this one only. Absent: a token is requested.",
    "body_sha256": "SHA-256 of that request's body, in hexadecimal; absent: it has none.", "caller": "Who called.",
    "rule": "The rule that makes it wait.", "since": "Since when it waits, in Unix seconds.",
    "until": "When it is refused without an answer, in Unix seconds.",
    "outcome":
      "How it ended: `approved`, `denied`, `timed_out`, `caller_gone`, `no_longer_needed`, `refused` (by a rule that "
      + "changed) or `shutting_down`; absent: it waits.",
  ]
}

/// A caller, as identified by the kernel at its connection.
public struct ReleaseCaller: Codable, Sendable, Equatable, Documented {
  public var uid: UInt32
  public var pid: Int32?
  public var unit: String?
  public var user_unit: String?
  public var exe: String?
  public var parent: String?

  public init(
    uid: UInt32, pid: Int32? = nil, unit: String? = nil, user_unit: String? = nil, exe: String? = nil,
    parent: String? = nil
  ) {
    self.uid = uid
    self.pid = pid
    self.unit = unit
    self.user_unit = user_unit
    self.exe = exe
    self.parent = parent
  }

  public static let docs = [
    "uid": "Its user.", "pid": "Its process, which may have ended since; absent where any process is meant.",
    "unit": "The system's unit that it runs in.", "user_unit": "The unit of its user's own manager.",
    "exe": "The path of its executable.",
    "parent": "The name of the program that executed it, if it is `grantctl`.",
  ]
}

/// An approval, or a denial, that is active for some time.
public struct ApprovalView: Codable, Sendable, Equatable, Documented {
  public var id: String?
  public var account: String
  public var method: String
  public var kind: TokenKind?
  public var scopes: [String]?
  public var resource: String?
  public var caller: ReleaseCaller
  public var allowed: Bool
  public var until: Int64
  public var request: String?
  public var calls_left: Int64?

  public init(
    account: String, method: String, kind: TokenKind? = nil, scopes: [String]?, resource: String?,
    caller: ReleaseCaller, allowed: Bool, until: Int64, request: String? = nil, calls_left: Int64? = nil,
    id: String? = nil
  ) {
    self.id = id
    self.kind = kind
    self.request = request
    self.calls_left = calls_left
    self.account = account
    self.method = method
    self.scopes = scopes
    self.resource = resource
    self.caller = caller
    self.allowed = allowed
    self.until = until
  }

  public static let docs = [
    "id": "The release that it was given for; `release.revoke` takes it.", "account": "The account.",
    "method": "The method; with `token.get` every method, since a caller with the token can do the same.",
    "kind": "`id_token`: it is for ID tokens; else absent.",
    "scopes": "No more scopes than these; absent: all that the caller may have.",
    "resource": "The resource (RFC 8707).", "caller": "Whose calls, from any process that is the same otherwise.",
    "allowed": "Whether they are let through, or refused.", "until": "How long, in Unix seconds.",
    "request": "The one request to the provider's API that it is for; absent: it is for tokens.",
    "calls_left": "For how many more times it holds; absent: for any number.",
  ]
}

public enum ReleaseList: RPCMethod {
  public static let name = "release.list"
  public static let access = Access.manage
  public static let summary =
    "Lists the releases that wait for approval (rules with `confirm`), of accounts that the caller may manage."
  public static let errors: [ErrorReason] = []

  public typealias Params = NoParams

  public struct Result: Codable, Sendable, Equatable {
    public var waiting: [ReleaseView]
    public var standing: [ApprovalView]

    public init(waiting: [ReleaseView], standing: [ApprovalView]) {
      self.waiting = waiting
      self.standing = standing
    }
  }

  public static let resultDocs = [
    "waiting": "The pending releases, the oldest first.", "standing": "Approvals that are active for some time.",
  ]
  public static let example = MethodExample(
    params: .null,
    result: [
      "waiting": [
        [
          "id": "k7f3qx", "account": "bank", "method": "token.get",
          "caller": ["uid": 1000, "pid": 4711, "unit": "user@1000.service", "exe": "/usr/bin/feed"],
          "rule": "ask-me", "since": 1_767_225_600, "until": 1_767_225_660,
        ]
      ], "standing": [],
    ])
}

/// The answer to a waiting release.
public enum ReleaseDecision {
  public struct Params: Codable, Sendable, Equatable {
    public var id: String
    public var `for`: Double?
    public var calls: Int64?

    public init(id: String, for span: Double? = nil, calls: Int64? = nil) {
      self.id = id
      self.for = span
      self.calls = calls
    }
  }
}

public enum ReleaseApprove: RPCMethod {
  public static let name = "release.approve"
  public static let access = Access.manage
  public static let summary = "Approves a pending release. The requesting process cannot approve it."
  public static let errors: [ErrorReason] = [.overloaded]

  public typealias Params = ReleaseDecision.Params

  public struct Result: Codable, Sendable, Equatable {
    public var approved: Bool

    public init(approved: Bool) {
      self.approved = approved
    }
  }

  public static let paramDocs = [
    "id": "The release, as `release.list` or the event `release.waiting` names it.",
    "for":
      "Seconds for which the same caller (user, units, executable) may have the same again; at most 3600, and until a "
      + "reload or restart. Default: this once.",
    "calls": "How many times the same caller may have the same again, within `for` or an hour; 1 to 1000.",
  ]
  public static let resultDocs = ["approved": "False if no request with that id waits."]
  public static let example = MethodExample(params: ["id": "k7f3qx", "for": 600], result: ["approved": true])
}

public enum ReleaseDeny: RPCMethod {
  public static let name = "release.deny"
  public static let access = Access.manage
  public static let summary = "Refuses a release that waits for approval."
  public static let errors: [ErrorReason] = [.overloaded]

  public typealias Params = ReleaseDecision.Params

  public struct Result: Codable, Sendable, Equatable {
    public var denied: Bool

    public init(denied: Bool) {
      self.denied = denied
    }
  }

  public static let paramDocs = [
    "id": "The release, as `release.list` or the event `release.waiting` names it.",
    "for": "Seconds for which the same is refused without asking; at most 3600. Default: this once.",
    "calls": "How many times the same is refused again without asking, within `for` or an hour; 1 to 1000.",
  ]
  public static let resultDocs = ["denied": "False if no request with that id waits."]
  public static let example = MethodExample(params: ["id": "k7f3qx"], result: ["denied": true])
}
