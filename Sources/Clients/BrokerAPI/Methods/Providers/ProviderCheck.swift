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
      "name": "The check. Names do not change; docs/troubleshooting.md lists them.",
      "account": "The account, for checks of one: `granted_scopes` and `refresh_token`.",
      "result":
        "`ok`; `warning`: it works, or may; `failed`: sign-ins or refreshes will fail; `skipped`: not looked at, for the reason in `message`.",
      "message": "The result, for users.",
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
    case .configuration: "no request of the provider's section uses plain http"
    case .condition: "the broker does not pause refreshes because the provider is unavailable or refuses the client"
    case .connection: "the name resolves, the certificate is valid, and the provider answers quickly"
    case .discovery: "the metadata exists, and is not a web page, a redirect or an error"
    case .issuer: "the issuer in the metadata is exactly the configured one"
    case .endpoints: "the endpoints for sign-ins and refreshes exist"
    case .keys: "the provider's keys can verify the ID tokens that the settings allow"
    case .clock: "this machine's clock agrees with the provider's"
    case .grant_types: "the metadata lists authorization codes and refresh tokens"
    case .client_authentication: "the metadata lists the client's authentication method"
    case .pkce: "the metadata lists PKCE with S256"
    case .scopes: "the metadata lists the configured scopes, with the one for refresh tokens"
    case .redirect_uri: "the browser can return: the callback port belongs to the broker and answers"
    case .narrowing: "requests for fewer scopes leave the account's own token valid"
    case .granted_scopes: "each account has the configured scopes"
    case .refresh_token: "each account has a refresh token that does not expire soon"
    }
  }
}
