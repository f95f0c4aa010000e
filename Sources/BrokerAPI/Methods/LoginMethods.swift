// swift-format-ignore-file: AlwaysUseLowerCamelCase
// Members are named as on the wire.

public enum LoginStart: RPCMethod {
  public static let name = "login.start"
  public static let access = Access.login
  public static let summary =
    "Starts a login: returns where a person signs in. The login completes when the provider calls back."
  public static let errors: [ErrorReason] = [
    .unknownProvider, .temporarilyUnavailable, .providerMisconfigured, .providerError, .unsupportedByProvider,
    .timedOut, .overloaded, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var provider: String
    public var account: String?
    public var scopes: [String]?
    public var resource: String?
    public var destinations: [String]?
    public var prompt: String?
    public var login_hint: String?
    public var params: [String: String]?

    public init(
      provider: String, account: String? = nil, scopes: [String]? = nil, resource: String? = nil,
      destinations: [String]? = nil, prompt: String? = nil, login_hint: String? = nil, params: [String: String]? = nil
    ) {
      self.provider = provider
      self.account = account
      self.scopes = scopes
      self.resource = resource
      self.destinations = destinations
      self.prompt = prompt
      self.login_hint = login_hint
      self.params = params
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var login_id: String
    public var account: String
    public var expires_at: Int64
    public var destinations: [Destination]
    public var warnings: [String]

    public init(
      login_id: String, account: String, expires_at: Int64, destinations: [Destination], warnings: [String]
    ) {
      self.login_id = login_id
      self.account = account
      self.expires_at = expires_at
      self.destinations = destinations
      self.warnings = warnings
    }
  }

  public static let paramDocs = [
    "provider": "The provider's name in the configuration.",
    "account":
      "The name the account will have; an account of that name is signed in again. Default: the provider's name.",
    "scopes": "The scopes to ask for, instead of the provider's configured ones.",
    "resource": "The resource the tokens are for (RFC 8707).",
    "destinations":
      "Which kinds of destination the caller can use (`browser`, `manual`, `device`), in its order. `device` has to be named (RFC 8628). Default: `browser`, `manual`.",
    "prompt": "How the provider should prompt (OpenID Connect Core §3.1.2.1), such as `consent` or `select_account`.",
    "login_hint": "Who is expected to sign in, such as an e-mail address (OpenID Connect Core §3.1.2.1).",
    "params": "Further parameters of the authorization request. Those the broker sets itself are refused.",
  ]
  public static let resultDocs = [
    "login_id": "Names the login in the other `login.*` methods. It is a secret of the person signing in.",
    "account": "The name the account will have.",
    "expires_at": "When the login ends unless it is completed, in Unix seconds.",
    "destinations":
      "Where to sign in, in the order to try: `kind` (`browser`: open `url`; `manual`: open `url` anywhere and hand the address that it ends at to `login.handle_callback`; `device`: enter `user_code` at `verification_uri` on any device), `url`, `redirect_uri`, `user_code`, `verification_uri`, `verification_uri_complete`, `expires_at`, `interval`.",
    "warnings": "What will not be as asked, for a person to read.",
  ]
}

/// A place where a person can sign in.
public struct Destination: Codable, Sendable, Equatable, Documented {
  public var kind: String
  public var url: String?
  public var redirect_uri: String?
  public var user_code: String?
  public var verification_uri: String?
  public var verification_uri_complete: String?
  public var expires_at: Int64?
  public var interval: Int64?

  public init(
    kind: String, url: String? = nil, redirect_uri: String? = nil, user_code: String? = nil,
    verification_uri: String? = nil, verification_uri_complete: String? = nil, expires_at: Int64? = nil,
    interval: Int64? = nil
  ) {
    self.kind = kind
    self.url = url
    self.redirect_uri = redirect_uri
    self.user_code = user_code
    self.verification_uri = verification_uri
    self.verification_uri_complete = verification_uri_complete
    self.expires_at = expires_at
    self.interval = interval
  }

  public static let docs = [
    "kind":
      "`browser`: open `url`; `manual`: open `url` anywhere and hand the address that it ends at to `login.handle_callback`; `device`: enter `user_code` at `verification_uri` on any device (RFC 8628).",
    "url": "The address to open.",
    "redirect_uri": "Where the provider will send the browser back to (RFC 6749 §3.1.2).",
    "user_code": "The code for the person to enter (RFC 8628 §3.3).",
    "verification_uri": "Where to enter it.",
    "verification_uri_complete":
      "The same address with the code in it, for a link or a QR code (RFC 8628 §3.3.1); absent where the provider has none.",
    "expires_at": "When the code ends, in Unix seconds.",
    "interval": "Seconds between the broker's questions whether the person is done (RFC 8628 §3.5).",
  ]
}

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
    .providerMisconfigured, .scopeNotGranted, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var login_id: String
    public var timeout: Double?

    public init(login_id: String, timeout: Double? = nil) {
      self.login_id = login_id
      self.timeout = timeout
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var login_id: String
    public var state: LoginState
    public var account: AccountView?

    public init(login_id: String, state: LoginState, account: AccountView?) {
      self.login_id = login_id
      self.state = state
      self.account = account
    }
  }

  public static let paramDocs = [
    "login_id": "As `login.start` returned it.",
    "timeout": "Seconds to wait before the answer `pending`; at most 300. Default 30.",
  ]
  public static let resultDocs = [
    "login_id": "The login.",
    "state":
      "`pending`: call again; `action_required`: the person has to do something more; `completed`: the account is there.",
    "account": "The account, once completed, as `account.get` returns it.",
  ]
}

public enum LoginHandleCallback: RPCMethod {
  public static let name = "login.handle_callback"
  public static let access = Access.login
  public static let summary =
    "Hands over the address that the browser ended at, where the provider could not reach the callback endpoint itself."
  public static let errors: [ErrorReason] = [
    .invalidCallback, .loginDenied, .loginExpired, .temporarilyUnavailable, .providerError, .providerMisconfigured,
    .scopeNotGranted, .storeFailure,
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

  public static let paramDocs = ["url": "The whole address, with its query."]
  public static let resultDocs = [
    "handled": "Whether the address belongs to a login of this broker.",
    "login_id": "The login it completed.",
    "next_url": "Where the browser should go next, if anywhere.",
  ]
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
        "`pending`: it waits for a person; `action_required`: the person has to do something more; `completed`.",
      "started_at": "When it started, in Unix seconds.",
      "expires_at": "When it ends unless it is completed, in Unix seconds.",
    ]
  }

  public static let paramDocs: [String: String] = [:]
  public static let resultDocs = [
    "logins": "`login_id`, `provider`, `account`, `state`, `started_at` and `expires_at` (Unix seconds) of each."
  ]
}
