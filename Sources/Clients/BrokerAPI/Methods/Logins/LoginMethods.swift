public enum LoginHandleCallback: RPCMethod {
  public static let name = "login.handle_callback"
  public static let access = Access.login
  public static let summary =
    "Passes the URL at which the browser ended, if the provider could not reach the callback endpoint."
  public static let errors: [ErrorReason] = [
    .invalidCallback, .loginDenied, .loginExpired, .temporarilyUnavailable, .providerError, .providerMisconfigured,
    .registrationRejected, .scopeNotGranted, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var url: String

    public init(url: String) {
      self.url = url
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var handled: Bool
    public var login_id: String?
    public var next_url: String?

    public init(handled: Bool, login_id: String?, next_url: String?) {
      self.handled = handled
      self.login_id = login_id
      self.next_url = next_url
    }
  }

  public static let paramDocs = ["url": "The complete URL, with its query."]
  public static let resultDocs = [
    "handled": "Whether the address belongs to a login of this broker.",
    "login_id": "The login it completed.",
    "next_url": "The browser's next URL, if any.",
  ]
  public static let example = MethodExample(
    params: ["url": "http://127.0.0.1:4180/callback?code=4%2F0AX4&state=Xy1"],
    result: ["handled": true, "login_id": "Zk3vS0JvVbq2"])
}

public enum LoginCancel: RPCMethod {
  public static let name = "login.cancel"
  public static let access = Access.login
  public static let summary = "Ends a pending login."
  public static let errors: [ErrorReason] = [.unknownLogin, .storeFailure]

  public struct Params: Codable, Sendable, Equatable {
    public var login_id: String

    public init(login_id: String) {
      self.login_id = login_id
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var cancelled: Bool

    public init(cancelled: Bool) {
      self.cancelled = cancelled
    }
  }

  public static let paramDocs = ["login_id": "As `login.start` returned it."]
  public static let resultDocs = ["cancelled": "False where the login had ended already."]
  public static let example = MethodExample(params: ["login_id": "Zk3vS0JvVbq2"], result: ["cancelled": true])
}

public enum LoginList: RPCMethod {
  public static let name = "login.list"
  public static let access = Access.login
  public static let summary = "Lists the pending logins."
  public static let errors: [ErrorReason] = []

  public typealias Params = NoParams

  public struct Result: Codable, Sendable, Equatable {
    public var logins: [LoginView]

    public init(logins: [LoginView]) {
      self.logins = logins
    }
  }

  public struct LoginView: Codable, Sendable, Equatable, Documented {
    public var login_id: String
    public var provider: String
    public var account: String
    public var state: LoginState
    public var started_at: Int64
    public var expires_at: Int64

    public init(
      login_id: String, provider: String, account: String, state: LoginState, started_at: Int64, expires_at: Int64
    ) {
      self.login_id = login_id
      self.provider = provider
      self.account = account
      self.state = state
      self.started_at = started_at
      self.expires_at = expires_at
    }

    public static let docs = [
      "login_id": "Names the login in the other `login.*` methods.",
      "provider": "The provider's name in the configuration.",
      "account": "The name the account will have.",
      "state":
        "`pending`: it waits for the user; `action_required`: a further step of the user is needed; `completed`.",
      "started_at": "When it started, in Unix seconds.",
      "expires_at": "When it ends unless it is completed, in Unix seconds.",
    ]
  }

  public static let resultDocs = [
    "logins": "`login_id`, `provider`, `account`, `state`, `started_at` and `expires_at` (Unix seconds) of each."
  ]
  public static let example = MethodExample(
    params: .null,
    result: [
      "logins": [
        [
          "login_id": "Zk3vS0JvVbq2", "provider": "google", "account": "work", "state": "pending",
          "started_at": 1_767_225_600, "expires_at": 1_767_226_200,
        ]
      ]
    ])
}
