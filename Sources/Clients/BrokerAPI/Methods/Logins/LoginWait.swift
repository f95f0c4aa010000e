public enum LoginState: String, Codable, Sendable, CaseIterable {
  case pending
  case actionRequired = "action_required"
  case completed
}

public enum LoginWait: RPCMethod {
  public static let name = "login.wait"
  public static let access = Access.login
  public static let summary = "Waits until a login is completed or needs something. A failed login is an error."
  public static let errors: [ErrorReason] = [
    .unknownLogin, .loginDenied, .loginCancelled, .loginExpired, .temporarilyUnavailable, .providerError,
    .providerMisconfigured, .registrationRejected, .scopeNotGranted, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var login_id: String
    public var timeout: Double?
    public var opened: Opened?

    public init(login_id: String, timeout: Double? = nil, opened: Opened? = nil) {
      self.login_id = login_id
      self.timeout = timeout
      self.opened = opened
    }
  }

  public struct Opened: Codable, Sendable, Equatable, Documented {
    public var kind: String
    public var app: String?

    public init(kind: String, app: String? = nil) {
      self.kind = kind
      self.app = app
    }

    public static let docs = [
      "kind": "As in `destinations` of `login.start`.",
      "app": "The application, with `native`.",
    ]
  }

  public struct Result: Codable, Sendable, Equatable {
    public var login_id: String
    public var state: LoginState
    public var account: AccountView?
    public var action: LoginActionView?
    public var authorization_code: String?
    public var destination_used: Opened?
    public var fell_back: Bool?
    public var warnings: [String]?
    public var waiting_for: String?

    public init(
      login_id: String, state: LoginState, account: AccountView?, action: LoginActionView? = nil,
      authorization_code: String? = nil, destination_used: Opened? = nil, fell_back: Bool? = nil,
      warnings: [String]? = nil, waiting_for: String? = nil
    ) {
      self.login_id = login_id
      self.state = state
      self.account = account
      self.action = action
      self.authorization_code = authorization_code
      self.destination_used = destination_used
      self.fell_back = fell_back
      self.warnings = warnings
      self.waiting_for = waiting_for
    }
  }

  public static let paramDocs = [
    "login_id": "As `login.start` returned it.",
    "timeout": "Seconds to wait before the answer `pending`; at most 300. Default 30.",
    "opened": "Which of the destinations the caller has opened; remembered for the result.",
  ]
  public static let resultDocs = [
    "login_id": "The login.",
    "state":
      "`pending`: call again; `action_required`: the user's step in `action`, with `login.continue`; `completed`: the account exists.",
    "account":
      "The account, once completed, as `account.get` returns it. `identity` is the user of this login; absent if the provider did not name one.",
    "action": "The user's next step.",
    "authorization_code": "The code itself, of a login with `exchange` false. It is a secret.",
    "destination_used": "The destination that the caller said to have opened.",
    "fell_back": "Whether that is another than the first that was offered.",
    "waiting_for": "Why a finished sign-in is still `pending`: the disk cannot be written.",
    "warnings": "For the user. Pending: the last poll failed. Completed: dropped scopes, a missing refresh token.",
  ]
  public static let example = MethodExample(
    params: ["login_id": "Zk3vS0JvVbq2", "timeout": 60],
    result: ["login_id": "Zk3vS0JvVbq2", "state": "completed", "account": MethodExample.account])
}
