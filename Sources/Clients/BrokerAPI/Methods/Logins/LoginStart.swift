public enum LoginStart: RPCMethod {
  public static let name = "login.start"
  public static let access = Access.login
  public static let summary =
    "Starts a login: returns where the user signs in. The login completes when the provider calls back."
  public static let errors: [ErrorReason] = [
    .unknownProvider, .loginInProgress, .loginDenied, .temporarilyUnavailable, .providerMisconfigured, .providerError,
    .unsupportedByProvider, .timedOut, .overloaded, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Hashable {
    public var provider: String
    public var account: String?
    public var scopes: [String]?
    public var resource: String?
    public var audience: String?
    public var destinations: [String]?
    public var prompt: String?
    public var login_hint: String?
    public var params: [String: String]?
    public var apps: [String]?
    public var idp: String?
    public var prefill: [String: String]?
    public var exchange: Bool?
    public var browser_uid: UInt32?
    public var join: Bool?

    public init(
      provider: String, account: String? = nil, scopes: [String]? = nil, resource: String? = nil,
      audience: String? = nil, destinations: [String]? = nil, prompt: String? = nil, login_hint: String? = nil,
      params: [String: String]? = nil, apps: [String]? = nil, idp: String? = nil, prefill: [String: String]? = nil,
      exchange: Bool? = nil, browser_uid: UInt32? = nil, join: Bool? = nil
    ) {
      self.join = join
      self.browser_uid = browser_uid
      self.apps = apps
      self.idp = idp
      self.prefill = prefill
      self.exchange = exchange
      self.provider = provider
      self.account = account
      self.scopes = scopes
      self.resource = resource
      self.audience = audience
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
    public var client_id: String?
    public var joined: Bool?

    public init(
      login_id: String, account: String, expires_at: Int64, destinations: [Destination], warnings: [String],
      client_id: String? = nil, joined: Bool? = nil
    ) {
      self.login_id = login_id
      self.account = account
      self.expires_at = expires_at
      self.destinations = destinations
      self.warnings = warnings
      self.client_id = client_id
      self.joined = joined
    }
  }

  public static let paramDocs = [
    "provider": "The provider's name in the configuration.",
    "account":
      "The name the account will have; an account of that name is signed in again. Default: the provider's name.",
    "scopes": "The scopes to ask for, instead of the provider's configured ones.",
    "resource": "The resource the tokens are for (RFC 8707).",
    "audience": "The audience of the tokens, if the provider has `audience_parameter`.",
    "destinations":
      "Which kinds of destination the caller can use (`native`, `browser`, `manual`, `device`), in its order. `device` has to be named (RFC 8628). Default: `native`, `browser`, `manual`.",
    "prompt": "How the provider should prompt (OpenID Connect Core §3.1.2.1), such as `consent` or `select_account`.",
    "login_hint": "Who is expected to sign in, such as an e-mail address (OpenID Connect Core §3.1.2.1).",
    "params":
      "Further parameters of the authorization request. Those the broker sets itself are refused; `max_age` may be shorter than the provider's, and is not made longer.",
    "apps":
      "Which of the provider's applications on this machine to offer as `native`, in this order. Default: those of the configuration.",
    "idp": "The identity provider, if the provider has several, such as `google`.",
    "prefill":
      "Known data about the user, if the provider accepts them (Uber): `email`, `phone`, `first_name`, `last_name`.",
    "exchange":
      "False: the result is the authorization code itself, as `login.wait` returns it, and nothing is stored. Default: as configured.",
    "browser_uid":
      "The user id whose browser signs in, if the provider calls back on this machine: no other user's browser can open the URL or complete the login. Only a privileged caller may name another user. Default: the caller's.",
    "join":
      "True: a login with the same parameters, which the caller's user began in the last 30 s and which is pending, is returned instead of a new one. So processes that start together ask the user once.",
  ]
  public static let resultDocs = [
    "login_id": "Names the login in the other `login.*` methods, for the user who started it and for root.",
    "account": "The name the account will have.",
    "expires_at": "When the login ends unless it is completed, in Unix seconds.",
    "destinations":
      "Where to sign in, in the order to try: `kind` (`native`: open `url` in `app`, if it is installed; `browser`: open `url` on this machine; if the provider calls back here it is a short URL that leads to the authorization request once; `manual`: open `url` anywhere and pass the URL at which it ends to `login.handle_callback`; `device`: enter `user_code` at `verification_uri` on any device), `url`, `redirect_uri`, `user_code`, `verification_uri`, `verification_uri_complete`, `expires_at`, `interval`.",
    "warnings": "Deviations from the request, as text for the user.",
    "client_id": "The client that the provider is asked as (RFC 6749 §2.2).",
    "joined": "True: another request began this login, and its process shows the first destination.",
  ]
  public static let example = MethodExample(
    params: ["provider": "google", "account": "work", "scopes": ["openid", "email"]],
    result: [
      "login_id": "Zk3vS0JvVbq2", "account": "work", "expires_at": 1_767_226_200,
      "destinations": [
        [
          "kind": "browser", "url": "http://127.0.0.1:4180/go/b2Zm0vQx7o1Wl3TtqYk9eA",
          "redirect_uri": "http://127.0.0.1:4180/callback",
        ],
        [
          "kind": "manual", "url": "https://accounts.google.com/o/oauth2/v2/auth?state=Xy1",
          "redirect_uri": "http://127.0.0.1:4180/callback",
        ],
      ],
      "warnings": [],
    ])
}

/// A possible place of a sign-in.
public struct Destination: Codable, Sendable, Equatable, Documented {
  public var kind: String
  public var app: String?
  public var url: String?
  public var redirect_uri: String?
  public var user_code: String?
  public var verification_uri: String?
  public var verification_uri_complete: String?
  public var expires_at: Int64?
  public var interval: Int64?

  public init(
    kind: String, app: String? = nil, url: String? = nil, redirect_uri: String? = nil, user_code: String? = nil,
    verification_uri: String? = nil, verification_uri_complete: String? = nil, expires_at: Int64? = nil,
    interval: Int64? = nil
  ) {
    self.kind = kind
    self.app = app
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
      "`native`: open `url` in `app`; `browser`: open `url` on this machine; `manual`: open `url` anywhere and hand the address that it ends at to `login.handle_callback`; `device`: enter `user_code` at `verification_uri` on any device (RFC 8628).",
    "app": "The application's name in the configuration.",
    "url":
      "The address to open. With `browser`, and a redirect URI on loopback, it is a short one of the callback endpoint: it works once, in a browser of the login's user (`browser_uid`).",
    "redirect_uri": "The redirect URI of the login (RFC 6749 §3.1.2).",
    "user_code": "The code for the user to enter (RFC 8628 §3.3).",
    "verification_uri": "Where to enter it.",
    "verification_uri_complete":
      "The same URL including the code, for a link or a QR code (RFC 8628 §3.3.1); absent if the provider has none.",
    "expires_at":
      "When the code ends, or until when `url` has to be opened where it names a pushed request (RFC 9126 §2.2), in Unix seconds.",
    "interval": "Seconds between the broker's polls (RFC 8628 §3.5).",
  ]
}
