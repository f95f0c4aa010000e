/// What the provider says of the person (OpenID Connect Core §5.3).
public enum AccountUserinfo: RPCMethod {
  public static let name = "account.userinfo"
  public static let access = Access.use
  public static let summary =
    "Asks the provider's UserInfo endpoint who the account's person is (OpenID Connect Core §5.3)."
  public static let errors: [ErrorReason] = [
    .unknownAccount, .loginRequired, .temporarilyUnavailable, .timedOut, .providerMisconfigured, .providerError,
    .unsupportedByProvider, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var timeout: Double?

    public init(account: String, timeout: Double? = nil) {
      self.account = account
      self.timeout = timeout
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var claims: [String: JSON]

    public init(claims: [String: JSON]) {
      self.claims = claims
    }
  }

  public static let paramDocs = [
    "account": "The account's name.",
    "timeout": "Seconds to wait for the provider before `timed_out`; at most 300. Default 30.",
  ]
  public static let resultDocs = [
    "claims":
      "The claims (OpenID Connect Core §5.1), such as `sub`, `name`, `email`; of a signed answer, after its signature was checked."
  ]
}
