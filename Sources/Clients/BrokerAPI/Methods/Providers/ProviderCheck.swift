// swift-format-ignore-file: AlwaysUseLowerCamelCase
// Members are named as on the wire.

public enum ProviderCheck: RPCMethod {
  public static let name = "provider.check"
  public static let access = Access.observe
  public static let summary =
    "Checks a provider without a user and without a token; sends new requests to it."
  public static let errors: [ErrorReason] = [.unknownProvider, .timedOut]

  public struct Params: Codable, Sendable, Equatable {
    public var provider: String
    public var timeout: Double?

    public init(provider: String, timeout: Double? = nil) {
      self.provider = provider
      self.timeout = timeout
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var provider: String
    public var ok: Bool
    public var checked_at: Int64
    public var checks: [Check]

    public init(provider: String, checked_at: Int64, checks: [Check]) {
      self.provider = provider
      self.checked_at = checked_at
      self.checks = checks
      ok = checks.allSatisfy { $0.result != .failed }
    }
  }

  /// One thing that was looked at.
  public struct Check: Codable, Sendable, Equatable, Documented {
    public var name: CheckName
    public var account: String?
    public var result: CheckResult
    public var message: String
    public var hint: String?

    public init(name: CheckName, account: String? = nil, result: CheckResult, message: String, hint: String? = nil) {
      self.name = name
      self.account = account
      self.result = result
      self.message = message
      self.hint = hint
    }

    public static let docs = [
      "name": "What was looked at. The names stay; docs/grantctl.md has them all.",
      "account": "The account, for checks of one: `granted_scopes` and `refresh_token`.",
      "result":
        "`ok`; `warning`: it works, or may; `failed`: sign-ins or refreshes will fail; `skipped`: not looked at, for the reason in `message`.",
      "message": "What was found, for people.",
      "hint": "The next step; with each warning and each failure.",
    ]
  }

  public static let paramDocs = [
    "provider": "The provider's name in the configuration.",
    "timeout": "How long to wait, in seconds; at most 300. Default 30.",
  ]
  public static let resultDocs = [
    "provider": "The provider's name.",
    "ok": "Whether no check failed.",
    "checked_at":
      "When the provider was asked, in Unix seconds. A request while a check runs, or within five seconds after it, gets the same result.",
    "checks": "In a fixed order, those about accounts last; accounts that the caller may not see are left out.",
  ]
  public static let example = MethodExample(
    params: ["provider": "google", "timeout": 20],
    result: [
      "provider": "google", "ok": false, "checked_at": 1_767_225_600,
      "checks": [
        ["name": "issuer", "result": "ok", "message": "https://accounts.google.com"],
        [
          "name": "clock", "result": "failed",
          "message": "this machine's clock is 312 s ahead of the provider's",
          "hint": "Set it right: `timedatectl` shows whether it is synchronized.",
        ],
        [
          "name": "refresh_token", "account": "work", "result": "ok",
          "message": "12 days old; the provider names no end of it",
        ],
      ],
    ])
}

public enum CheckResult: String, Codable, Sendable, CaseIterable {
  case ok
  case warning
  case failed
  case skipped
}

/// What `provider.check` looks at, in its order.
public enum CheckName: String, Codable, Sendable, CaseIterable {
  case configuration
  case condition
  case connection
  case discovery
  case issuer
  case endpoints
  case keys
  case clock
  case grant_types
  case client_authentication
  case pkce
  case scopes
  case redirect_uri
  case narrowing
  case granted_scopes
  case refresh_token

  /// For the tables, without a full stop.
  public var meaning: String {
    switch self {
    case .configuration: "what is configured, and whether it lets secrets travel readable"
    case .condition: "whether the broker pauses its refreshes: the provider refuses the client or is unavailable"
    case .connection: "name look-up, connection, certificate, and how quickly the provider answers"
    case .discovery: "its metadata: there, and no web page, redirect or error"
    case .issuer: "the issuer in the metadata is the configured one, to the last character"
    case .endpoints: "the endpoints that sign-ins and refreshes need exist"
    case .keys: "its keys can verify the ID tokens that the settings allow"
    case .clock: "this machine's clock against the provider's"
    case .grant_types: "it promises authorization codes and refreshes"
    case .client_authentication: "it takes the way in which the client proves itself"
    case .pkce: "it promises PKCE with S256"
    case .scopes: "it knows the scopes that are configured; the one for refresh tokens is among them"
    case .redirect_uri: "the browser can come back: the port is the broker's, and answers"
    case .narrowing: "how tokens for fewer scopes or another resource are requested"
    case .granted_scopes: "of each account: what was granted, against what is configured"
    case .refresh_token: "of each account: the age and the end of its refresh token"
    }
  }
}
