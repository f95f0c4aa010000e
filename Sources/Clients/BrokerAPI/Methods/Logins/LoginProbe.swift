/// An authorization request without a user.
public enum LoginProbe: RPCMethod {
  public static let name = "login.probe"
  public static let access = Access.login
  public static let summary =
    "Sends the provider the authorization request of a login, without a browser, and reports whether it accepts it. No login starts."
  public static let errors: [ErrorReason] = [
    .unknownProvider, .temporarilyUnavailable, .providerMisconfigured, .providerError, .unsupportedByProvider,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var provider: String
    public var account: String?
    public var scopes: [String]?

    public init(provider: String, account: String? = nil, scopes: [String]? = nil) {
      self.provider = provider
      self.account = account
      self.scopes = scopes
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var result: CheckResult
    public var message: String
    public var hint: String?
    public var cause: String?
    public var pushed: Bool

    public init(result: CheckResult, message: String, hint: String?, cause: String?, pushed: Bool) {
      self.result = result
      self.message = message
      self.hint = hint
      self.cause = cause
      self.pushed = pushed
    }
  }

  public static let paramDocs = [
    "provider": "The provider's name.",
    "account": "The account of the login, for which the caller needs `login` access. Default: the provider's name.",
    "scopes": "The scopes of the login. Default: those of the provider.",
  ]
  public static let resultDocs = [
    "result":
      "`ok`; `failed`: the provider refuses the request; `warning`: it did not answer properly; `skipped`: the answer does not show it.",
    "message": "The provider's answer, for users.",
    "hint": "The next step; present if the request was refused.",
    "cause": "The likely cause of a refusal: `client_id`, `redirect_uri` or `scopes`; absent: unknown.",
    "pushed": "Whether the request was pushed (RFC 9126). Otherwise its URL was requested, without cookies.",
  ]
  public static let example = MethodExample(
    params: ["provider": "example"],
    result: [
      "result": "failed", "message": "login.example.com answers with HTTP 403",
      "hint": "Copy the client ID again from the provider's page.",
      "cause": "client_id", "pushed": false,
    ])
}
