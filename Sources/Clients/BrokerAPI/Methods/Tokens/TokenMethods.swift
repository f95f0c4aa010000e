/// Which of an account's tokens a request is for.
public enum TokenKind: String, Codable, Sendable, CaseIterable {
  /// The token for the provider's APIs.
  case accessToken = "access_token"
  /// The proof of the user for other parties (OpenID Connect Core §2).
  case idToken = "id_token"
}

/// A fresh access token of an account.
public enum TokenGet: TokenRelease {
  public static let name = "token.get"
  public static let access = Access.use
  public static let summary = "Returns an access token that is valid now, refreshing it first where it has to."
  public static let errors: [ErrorReason] = [
    .unknownAccount, .loginRequired, .temporarilyUnavailable, .timedOut, .providerMisconfigured, .providerError,
    .scopeNotGranted, .unsupportedByProvider, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var kind: TokenKind?
    public var scopes: [String]?
    public var resource: String?
    public var audience: String?
    public var min_ttl: Double?
    public var timeout: Double?

    public init(
      account: String, kind: TokenKind? = nil, scopes: [String]? = nil, resource: String? = nil,
      audience: String? = nil, min_ttl: Double? = nil, timeout: Double? = nil
    ) {
      self.audience = audience
      self.account = account
      self.kind = kind
      self.scopes = scopes
      self.resource = resource
      self.min_ttl = min_ttl
      self.timeout = timeout
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var access_token: String?
    public var token_type: String?
    public var id_token: String?
    public var kind: String?
    public var session_id: String?
    public var cookie: String?
    public var expires_at: Int64?
    public var expires_in: Int64?
    public var scope: [String]
    public var account: String
    public var provider: String
    public var issuer: String?
    public var generation: Int64
    public var dpop_thumbprint: String?
    public var extra: [String: JSON]?

    public init(
      access_token: String?, token_type: String?, id_token: String? = nil, kind: String? = nil,
      session_id: String? = nil, cookie: String? = nil, expires_at: Int64?, expires_in: Int64?, scope: [String],
      account: String, provider: String, issuer: String?, generation: Int64, dpop_thumbprint: String? = nil,
      extra: [String: JSON]? = nil
    ) {
      self.id_token = id_token
      self.kind = kind
      self.session_id = session_id
      self.cookie = cookie
      self.extra = extra
      self.access_token = access_token
      self.token_type = token_type
      self.expires_at = expires_at
      self.expires_in = expires_in
      self.scope = scope
      self.account = account
      self.provider = provider
      self.issuer = issuer
      self.generation = generation
      self.dpop_thumbprint = dpop_thumbprint
    }
  }

  public static let paramDocs = [
    "account": "The account's name.",
    "kind":
      "`id_token`: the account's ID token, which takes `id_token` access. Default: `access_token`.",
    "scopes":
      "The scopes of the token (RFC 6749 §6), of those the account was granted; a part of them is a separate token, if the provider narrows. Absent: all granted ones.",
    "resource":
      "The resource the token is for (RFC 8707); another one than the account's has a separate token. Absent: the "
      + "resource of the sign-in.",
    "audience":
      "The audience of the token, if the provider takes one. Each audience has a separate token.",
    "min_ttl":
      "Seconds the token must still be valid for; a token with less is refreshed first. Limited to the lifetime of a fresh token; for an ID token more than that is an error. Default: `minimum_ttl` of the configuration, 30.",
    "timeout": "Seconds to wait for a refresh before `timed_out`; at most 300. Default 30.",
  ]
  public static let resultDocs = [
    "access_token":
      "The access token (RFC 6749 §1.4). Send it only to the provider's resource servers. Absent of a session and an ID token.",
    "token_type":
      "How to present the token: `Bearer` (RFC 6750), or `DPoP` with a proof by `dpop.proof` (RFC 9449 §7).",
    "id_token": "The verified ID token, with `kind` of the request `id_token`; else absent.",
    "kind": "`id_token`, or `session` if the provider issues a session instead of a token; else absent.",
    "session_id": "The session. It is a secret.",
    "cookie": "The session as a `Cookie` header has it.",
    "expires_at": "When the token ends, in Unix seconds; absent if the provider did not report it.",
    "expires_in": "Seconds from now until the token ends; absent if the provider did not report it.",
    "scope": "The scopes granted.",
    "account": "The account's name.",
    "provider": "The provider's name in the configuration.",
    "issuer": "The provider's issuer, if it has one.",
    "generation": "Counts the account's tokens; name it in `token.report_rejected`.",
    "dpop_thumbprint":
      "The thumbprint (RFC 7638) of the account's key that the token is bound to (RFC 9449 §6); absent: to none.",
    "extra":
      "Members of the provider's answers that `keep_members` and `keep_callback_members` name, such as `instance_url`.",
  ]
  public static let example = MethodExample(
    params: ["account": "work", "min_ttl": 120],
    result: [
      "access_token": "ya29.a0AfH6SMC", "token_type": "Bearer", "expires_at": 1_767_229_199, "expires_in": 3599,
      "scope": ["openid", "email"], "account": "work", "provider": "google", "issuer": "https://accounts.google.com",
      "generation": 7,
    ])
}

/// A resource server refused a token.
public enum TokenReportRejected: RPCMethod {
  public static let name = "token.report_rejected"
  public static let access = Access.use
  public static let summary =
    "Reports that a resource server refused a token (HTTP 401). The token is refreshed once, however many callers report it. This caller (user and unit) does not get it again, even after a restart of the broker; other callers are served it until the new one exists. A user or unit may have three valid tokens of an account replaced without a pause, and one more every five minutes."
  public static let errors: [ErrorReason] = [
    .unknownAccount, .loginRequired, .temporarilyUnavailable, .timedOut, .providerMisconfigured, .providerError,
    .scopeNotGranted, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var generation: Int64
    public var kind: TokenKind?
    public var timeout: Double?

    public init(account: String, generation: Int64, kind: TokenKind? = nil, timeout: Double? = nil) {
      self.account = account
      self.kind = kind
      self.generation = generation
      self.timeout = timeout
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var refreshed: Bool
    public var generation: Int64
    public var confirmed: Bool?

    public init(refreshed: Bool, generation: Int64, confirmed: Bool? = nil) {
      self.refreshed = refreshed
      self.generation = generation
      self.confirmed = confirmed
    }
  }

  public static let paramDocs = [
    "account": "The account's name.",
    "generation": "The `generation` of the refused token, as `token.get` returned it.",
    "kind": "`id_token`: the ID token was refused. Default: `access_token`.",
    "timeout": "Seconds to wait for the refresh before `timed_out`; at most 300. Default 30.",
  ]
  public static let resultDocs = [
    "refreshed": "Whether this report caused a refresh; false if a newer token existed already.",
    "generation": "The generation of the current token.",
    "confirmed":
      "`true`: nothing can renew the token, and the provider considers it valid. The caller gets it again. The provider is asked at most every five minutes. Else absent.",
  ]
  public static let example = MethodExample(
    params: ["account": "work", "generation": 7], result: ["refreshed": true, "generation": 8])
}
