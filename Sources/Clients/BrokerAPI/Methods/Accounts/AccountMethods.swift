/// The public data of an account: never a token.
public struct AccountView: Codable, Sendable, Equatable, Documented {
  public var account: String
  public var provider: String
  public var state: AccountState
  public var identity: Identity?
  public var scopes: [String]
  public var generation: Int64
  public var expires_at: Int64?
  public var next_refresh_at: Int64?
  public var refresh_expires_at: Int64?
  public var refresh_expiry_learned: Bool?
  public var refresh_expires_soon: Bool?
  public var refresh_issued_at: Int64?
  public var last_refresh_at: Int64?
  public var logged_in_at: Int64
  public var last_error: LastError?
  public var grant: String?
  public var token_binding: String?
  public var tokens: [NarrowedToken]?
  public var renewable: Bool?
  public var reports: [Report]?
  public var lost_scopes: [String]?
  public var scopes_unverified: Bool?
  public var required_scopes: [String]?

  public init(
    account: String, provider: String, state: AccountState, identity: Identity?, scopes: [String], generation: Int64,
    expires_at: Int64?, next_refresh_at: Int64?, refresh_expires_at: Int64?, refresh_expiry_learned: Bool? = nil,
    refresh_expires_soon: Bool? = nil, refresh_issued_at: Int64? = nil, last_refresh_at: Int64?, logged_in_at: Int64,
    last_error: LastError?, grant: String? = nil, token_binding: String? = nil, tokens: [NarrowedToken]? = nil,
    renewable: Bool? = nil, reports: [Report]? = nil, lost_scopes: [String]? = nil, scopes_unverified: Bool? = nil,
    required_scopes: [String]? = nil
  ) {
    self.lost_scopes = lost_scopes
    self.scopes_unverified = scopes_unverified
    self.required_scopes = required_scopes
    self.reports = reports
    self.renewable = renewable
    self.account = account
    self.provider = provider
    self.state = state
    self.identity = identity
    self.scopes = scopes
    self.generation = generation
    self.expires_at = expires_at
    self.next_refresh_at = next_refresh_at
    self.refresh_expires_at = refresh_expires_at
    self.refresh_expiry_learned = refresh_expiry_learned
    self.refresh_expires_soon = refresh_expires_soon
    self.refresh_issued_at = refresh_issued_at
    self.last_refresh_at = last_refresh_at
    self.logged_in_at = logged_in_at
    self.last_error = last_error
    self.grant = grant
    self.token_binding = token_binding
    self.tokens = tokens
  }

  /// Who the provider says signed in (OpenID Connect Core §5.1).
  public struct Identity: Codable, Sendable, Equatable, Documented {
    public var subject: String
    public var issuer: String?
    public var email: String?
    public var name: String?
    public var username: String?

    public init(subject: String, issuer: String?, email: String?, name: String?, username: String?) {
      self.subject = subject
      self.issuer = issuer
      self.email = email
      self.name = name
      self.username = username
    }

    public static let docs = [
      "subject": "The provider's name for the user: never given to another (OpenID Connect Core §2).",
      "issuer": "The source of the identity: the issuer of the ID token.",
      "email": "The e-mail address, if the provider returned it.",
      "name": "The display name, if the provider returned it.",
      "username": "The user's login name, if the provider returned it.",
    ]
  }

  /// A caller that reported a token which is still served to others.
  public struct Report: Codable, Sendable, Equatable, Documented {
    public var uid: Int64
    public var unit: String?
    public var user_unit: String?
    public var generation: Int64
    public var at: Int64

    public init(uid: Int64, unit: String?, user_unit: String?, generation: Int64, at: Int64) {
      self.uid = uid
      self.unit = unit
      self.user_unit = user_unit
      self.generation = generation
      self.at = at
    }

    public static let docs = [
      "uid": "The caller's user.", "unit": "The system's unit that it ran in, if known.",
      "user_unit": "The unit of the user's own manager, if it ran in one.",
      "generation": "The token that it is no longer given.", "at": "The time of the report.",
    ]
  }

  /// The latest failure, until a refresh or a login succeeds.
  public struct LastError: Codable, Sendable, Equatable, Documented {
    public var reason: ErrorReason
    public var message: String
    public var hint: String
    public var at: Int64
    public var oauth: OAuthDetail?
    public var detail: String?
    public var rotation: String?

    public init(
      reason: ErrorReason, message: String, hint: String, at: Int64, oauth: OAuthDetail?, detail: String? = nil,
      rotation: String? = nil
    ) {
      self.detail = detail
      self.rotation = rotation
      self.reason = reason
      self.message = message
      self.hint = hint
      self.at = at
      self.oauth = oauth
    }

    public static let docs = [
      "reason": "The reason, as in errors.",
      "message": "What happened, for people.",
      "hint": "The next step.",
      "at": "When it happened, in Unix seconds.",
      "oauth": "The provider's own message, if any.",
      "detail":
        "With `login_required`: why the grant has ended. `refused`: by the provider; `lost_rotation`: after a refresh whose answer was lost; `no_refresh_token`: it could not be refreshed; `refresh_token_expired`; `identity_changed`: the provider answered for another user; `signed_out`: the user signed out at the provider; `unreadable`: its stored data are damaged.",
      "rotation": "With `login_required`: the provider's treatment of used refresh tokens, as configured.",
    ]
  }

  /// A token for fewer scopes or for one resource, beside the account's own; each is refreshed and expires on its own.
  public struct NarrowedToken: Codable, Sendable, Equatable, Documented {
    public var scopes: [String]
    public var resource: String?
    public var expires_at: Int64?

    public init(scopes: [String], resource: String? = nil, expires_at: Int64? = nil) {
      self.scopes = scopes
      self.resource = resource
      self.expires_at = expires_at
    }

    public static let docs = [
      "scopes": "The scopes it has.",
      "resource": "The resource it is for (RFC 8707).",
      "expires_at": "When it ends, in Unix seconds; absent if the provider did not report it.",
    ]
  }

  public static let docs = [
    "account": "The account's name.",
    "provider": "The provider's name in the configuration.",
    "state":
      "`ok`; `refreshing`: a refresh is running; `degraded`: the last refresh failed and is repeated automatically; `login_required`: the user must sign in; `action_required`: an administrator must change something.",
    "identity": "Who signed in, as the provider said: `subject`, `issuer`, `email`, `name`, `username`.",
    "scopes": "The scopes granted.",
    "generation": "Counts the account's tokens.",
    "expires_at": "When the access token ends, in Unix seconds.",
    "next_refresh_at": "When the broker will refresh next, in Unix seconds.",
    "refresh_expires_at": "When the refresh token ends, in Unix seconds, if known: the user should sign in before.",
    "refresh_expiry_learned":
      "Whether that is a guess from when earlier ones ended, and not the provider's or the configuration's word.",
    "refresh_expires_soon": "Whether that is soon or past: a new login is needed.",
    "refresh_issued_at": "When the refresh token was first issued, in Unix seconds, if known.",
    "last_refresh_at": "When a token last came from the provider, in Unix seconds.",
    "logged_in_at": "When the user last signed in, in Unix seconds.",
    "last_error":
      "The latest failure: `reason`, `message`, `hint` (the next step), `at` (Unix seconds), `oauth` (the provider's own message), and for an ended grant `detail` and `rotation`.",
    "grant":
      "How the account was got: `authorization_code`, `device_code`, `client_credentials`, `jwt_bearer`, `token_exchange`, `import`.",
    "token_binding":
      "What beside the token a caller must have: `dpop`, a proof by `dpop.proof` (RFC 9449); `mtls`, the client's certificate (RFC 8705). Absent: nothing.",
    "tokens":
      "The tokens for fewer scopes or for one resource that callers asked for: `scopes`, `resource`, `expires_at`.",
    "renewable": "Whether a new token can be requested without the user.",
    "reports":
      "Callers that reported the token of now (`token.report_rejected`): they get the next one, others get this one.",
    "lost_scopes": "Granted scopes that the current token does not have: the provider left them out at a refresh.",
    "required_scopes":
      "Scopes that a server required of a request and that were not granted (RFC 6750 §3.1). The next login asks for them.",
    "scopes_unverified": "The provider returns no `scope`, so `scopes` has the requested ones (RFC 6749 §5.1).",
  ]
}

public enum AccountState: String, Codable, Sendable, CaseIterable {
  case ok
  case refreshing
  case degraded
  case loginRequired = "login_required"
  case actionRequired = "action_required"
}

public enum AccountList: RPCMethod {
  public static let name = "account.list"
  public static let access = Access.observe
  public static let summary = "Lists the accounts the caller may see, by name."
  public static let errors: [ErrorReason] = [.unknownProvider]

  public struct Params: Codable, Sendable, Equatable {
    public var provider: String?
    public var after: String?
    public var limit: Int?
    public var problems: Bool?

    public init(provider: String? = nil, after: String? = nil, limit: Int? = nil, problems: Bool? = nil) {
      self.provider = provider
      self.after = after
      self.limit = limit
      self.problems = problems
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var accounts: [AccountView]
    public var next: String?

    public init(accounts: [AccountView], next: String? = nil) {
      self.accounts = accounts
      self.next = next
    }
  }

  public static let paramDocs = [
    "provider": "Only accounts at this provider.",
    "after": "Only accounts whose names come after this one: `next` of the answer before.",
    "limit": "The most accounts, 1 to 10000; an answer has 1000 at most. Default: 1000.",
    "problems": "Only accounts in the state `degraded`, `login_required` or `action_required`.",
  ]
  public static let resultDocs = [
    "accounts": "The accounts in the order of their names, each as `account.get` returns it.",
    "next": "The `after` of the next page. Absent: there are no more.",
  ]
  public static let example = MethodExample(
    params: ["provider": "google", "limit": 100],
    result: ["accounts": [MethodExample.account], "next": "mail@example.com"])
}

public enum AccountGet: RPCMethod {
  public static let name = "account.get"
  public static let access = Access.observe
  public static let summary = "Returns one account: its state, identity, scopes and times; never a token."
  public static let errors: [ErrorReason] = [.unknownAccount]

  public struct Params: Codable, Sendable, Equatable {
    public var account: String

    public init(account: String) {
      self.account = account
    }
  }

  public typealias Result = AccountView

  public static let paramDocs = ["account": "The account's name."]
  public static let resultDocs = AccountView.docs
  public static let example = MethodExample(params: ["account": "work"], result: MethodExample.account)
}

public enum AccountLogout: RPCMethod {
  public static let name = "account.logout"
  public static let access = Access.manage
  public static let summary = """
    Revokes the account's tokens at the provider (RFC 7009) and removes the account, regardless of the provider's answer. \
    A pending login of the same account continues.
    """
  public static let errors: [ErrorReason] = [.unknownAccount, .storeFailure]

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var revoke: Bool?
    public var end_session: Bool?
    public var `where`: String?

    public init(account: String, revoke: Bool? = nil, end_session: Bool? = nil, where reach: String? = nil) {
      self.account = account
      self.revoke = revoke
      self.end_session = end_session
      self.where = reach
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var steps: [Step]
    public var end_session_url: String?

    public init(steps: [Step], end_session_url: String? = nil) {
      self.steps = steps
      self.end_session_url = end_session_url
    }
  }

  /// The result of one step of a logout, or of the end of a registration.
  public struct Step: Codable, Sendable, Equatable, Documented {
    /// `revoke_refresh_token`, `revoke_access_token`, `revoke_session`, `end_session`, `delete_registration` or `forget`.
    public var step: String
    /// `done`, `queued` (repeated automatically), `unsupported`, `refused` or `skipped`.
    public var result: String
    public var message: String?

    public init(step: String, result: String, message: String? = nil) {
      self.step = step
      self.result = result
      self.message = message
    }

    public static let docs = [
      "step":
        "`revoke_refresh_token`, `revoke_access_token`, `revoke_session`, `end_session`, `delete_registration` (of a provider) or `forget`.",
      "result":
        "`done`; `queued`: it is repeated automatically; `opened`: a browser must open `end_session_url`; `unsupported`; "
        + "`refused`; `skipped`.",
      "message": "Why, for people.",
    ]
  }

  public static let paramDocs = [
    "account": "The account's name.",
    "revoke": "Whether to revoke at the provider as well. Default true.",
    "end_session":
      "Whether the user's session at the provider must end too (OpenID Connect RP-Initiated Logout): a browser has to open `end_session_url`. Default false.",
    "where":
      "The extent of the logout, if the provider has several, in its own terms, such as `THIS_DEVICE` or `EVERYWHERE`. Default: the provider's first.",
  ]
  public static let resultDocs = [
    "steps":
      "In order: `step` (`revoke_refresh_token`, `revoke_access_token`, `revoke_session`, `end_session`, `forget`), "
      + "`result` (`done`, `queued`: repeated automatically, `opened`: a browser must open `end_session_url`, "
      + "`unsupported`, `refused`), `message`.",
    "end_session_url":
      "The URL that ends the user's session at the provider, for the user's browser. It names the user: keep it secret.",
  ]
  public static let example = MethodExample(
    params: ["account": "work"],
    result: [
      "steps": [
        ["step": "revoke_refresh_token", "result": "done"],
        ["step": "revoke_access_token", "result": "queued", "message": "the provider answered 503"],
        ["step": "forget", "result": "done"],
      ]
    ])
}

extension AccountState {
  /// The user or an administrator has something to do, or the provider does not answer.
  public var isProblem: Bool {
    switch self {
    case .ok, .refreshing: false
    case .degraded, .loginRequired, .actionRequired: true
    }
  }
}

extension AccountView.Identity {
  /// The name that a user knows best.
  public var bestName: String { email ?? username ?? name ?? subject }
}
