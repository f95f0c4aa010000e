/// The reason for a permission, or the missing condition.
public enum PolicyExplain: RPCMethod {
  public static let name = "policy.explain"
  public static let access = Access.open
  public static let summary =
    "Reports whether a caller may call a method for an account, by which rule, or, with `manage`, the missing "
    + "condition."
  public static let errors: [ErrorReason] = []

  public struct Params: Codable, Sendable, Equatable {
    public var account: String?
    public var method: String?
    public var kind: TokenKind?
    public var caller: Subject?

    public init(account: String? = nil, method: String? = nil, kind: TokenKind? = nil, caller: Subject? = nil) {
      self.account = account
      self.kind = kind
      self.method = method
      self.caller = caller
    }
  }

  /// A caller in the kernel's terms.
  public struct Subject: Codable, Sendable, Equatable, Documented {
    public var uid: UInt32
    public var gid: UInt32?
    public var groups: [UInt32]?
    public var unit: String?
    public var user_unit: String?
    public var exe: String?

    public init(
      uid: UInt32, gid: UInt32? = nil, groups: [UInt32]? = nil, unit: String? = nil, user_unit: String? = nil,
      exe: String? = nil
    ) {
      self.uid = uid
      self.gid = gid
      self.groups = groups
      self.unit = unit
      self.user_unit = user_unit
      self.exe = exe
    }

    public static let docs = [
      "uid": "The user.", "gid": "The primary group.", "groups": "The supplementary groups.",
      "unit": "The system's unit.", "user_unit": "The unit of the user's own manager.",
      "exe": "The path of the executable.",
    ]
  }

  public struct Result: Codable, Sendable, Equatable {
    public var allowed: Bool
    public var rule: String?
    public var scopes: [String]?
    public var confirm: Confirmation?
    public var why: String

    public init(
      allowed: Bool, rule: String? = nil, scopes: [String]? = nil, confirm: Confirmation? = nil, why: String
    ) {
      self.allowed = allowed
      self.rule = rule
      self.scopes = scopes
      self.confirm = confirm
      self.why = why
    }
  }

  /// The required approval.
  public struct Confirmation: Codable, Sendable, Equatable, Documented {
    public var rule: String
    public var timeout: Double
    public var exempt_scopes: [String]?

    public init(rule: String, timeout: Double, exempt_scopes: [String]? = nil) {
      self.rule = rule
      self.timeout = timeout
      self.exempt_scopes = exempt_scopes
    }

    public static let docs = [
      "rule": "The rule that asks for it.", "timeout": "The user's time in seconds.",
      "exempt_scopes": "Tokens of these scopes alone need no confirmation: other rules allow them.",
    ]
  }

  public static let paramDocs = [
    "account": "The account; absent: no account in particular.",
    "method": "The method. Default: `token.get`.",
    "kind": "`id_token`: for ID tokens, with `token.get`. Default: `access_token`.",
    "caller": "The caller to explain; naming another one takes `manage`. Default: the caller itself.",
  ]
  public static let resultDocs = [
    "allowed": "Whether the policy allows it.",
    "rule": "The rule that permits it: its `name`, or its file and line; absent if none is needed.",
    "scopes": "The scopes that tokens may have for this caller, if the rule limits them.",
    "confirm": "The required approval (`grantctl approve`); absent: none.",
    "why":
      "The reason, or the missing condition, as text. Without `manage` of the account (without an account: of all) it is "
      + "only that no rule permits it.",
  ]
  public static let example = MethodExample(
    params: ["account": "work", "caller": ["uid": 990, "unit": "mail-sync.service"]],
    result: ["allowed": true, "rule": "mail", "why": "rule mail allows it"])
}
