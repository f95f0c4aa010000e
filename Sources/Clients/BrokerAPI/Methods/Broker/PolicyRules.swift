/// The rules that cover an account.
public enum PolicyRules: RPCMethod {
  public static let name = "policy.rules"
  public static let access = Access.manage
  public static let summary = "Lists the rules that cover an account, in the order of the configuration."
  public static let errors: [ErrorReason] = []

  public typealias Params = AccountGet.Params

  /// A `[[rule]]`. An absent condition matches every caller.
  public struct Rule: Codable, Sendable, Equatable, Documented {
    public var rule: String
    public var uid: UInt32?
    public var gid: UInt32?
    public var unit: String?
    public var user_unit: String?
    public var exe: String?
    public var accounts: [String]
    public var access: [Access]
    public var methods: [String]?
    public var scopes: [String]?
    public var resources: [String]?
    public var requests: [String]?
    public var mcp: [String]?
    public var confirm_timeout: Double?
    public var source: String?

    public init(
      rule: String, uid: UInt32?, gid: UInt32?, unit: String?, user_unit: String?, exe: String?, accounts: [String],
      access: [Access], methods: [String]?, scopes: [String]?, resources: [String]?, requests: [String]?,
      mcp: [String]? = nil, confirm_timeout: Double?, source: String? = nil
    ) {
      self.rule = rule
      self.uid = uid
      self.gid = gid
      self.unit = unit
      self.user_unit = user_unit
      self.exe = exe
      self.accounts = accounts
      self.access = access
      self.methods = methods
      self.scopes = scopes
      self.resources = resources
      self.requests = requests
      self.mcp = mcp
      self.confirm_timeout = confirm_timeout
      self.source = source
    }

    public static let docs = [
      "rule": "The rule's `name`, or its file and line.",
      "uid": "The caller's user.", "gid": "A group of the caller.", "unit": "The system's unit, with `*`.",
      "user_unit": "The unit of the user's own manager, with `*`.", "exe": "The path of the executable, with `*`.",
      "accounts": "The account names, with `*`.", "access": "The kinds of access that it allows.",
      "methods": "Methods that it allows in addition to `access`.",
      "scopes": "The scopes that tokens may have; absent: all that were granted.",
      "resources": "The resources that tokens may be requested for.",
      "requests": "The requests to the provider's API that it allows, without a token.",
      "mcp": "The MCP calls that those requests may contain.",
      "confirm_timeout": "A user must approve each release, within this number of seconds.",
      "source": "The file and the line of the rule.",
    ]
  }

  public struct Result: Codable, Sendable, Equatable {
    public var instance: String
    public var rules: [Rule]

    public init(instance: String, rules: [Rule]) {
      self.instance = instance
      self.rules = rules
    }
  }

  public static let paramDocs = ["account": "The account's name; the account need not exist."]
  public static let resultDocs = [
    "instance": "`system`: root needs no rule; `user`: the broker's owner needs none.",
    "rules": "The rules whose `accounts` match.",
  ]
  public static let example = MethodExample(
    params: ["account": "work"],
    result: [
      "instance": "system",
      "rules": [["rule": "mail", "uid": 990, "unit": "mail-sync.service", "accounts": ["work"], "access": ["use"]]],
    ])
}
