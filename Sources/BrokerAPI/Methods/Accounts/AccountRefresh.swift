/// A new token now, for who manages the account.
public enum AccountRefresh: RPCMethod {
  public static let name = "account.refresh"
  public static let access = Access.manage
  public static let summary =
    "Gets a new token from the provider now, whatever wait a failure or the provider's `Retry-After` asked for. The old token is not handed out again."
  public static let errors: [ErrorReason] = TokenReportRejected.errors + [.unsupportedByProvider]

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var timeout: Double?

    public init(account: String, timeout: Double? = nil) {
      self.account = account
      self.timeout = timeout
    }
  }

  public typealias Result = TokenReportRejected.Result

  public static let paramDocs = [
    "account": "The account's name.",
    "timeout": "Seconds to wait for the refresh before `timed_out`; at most 300. Default 30.",
  ]
  public static let resultDocs = [
    "refreshed": "Whether there is a newer token than before.",
    "generation": "The generation of the current token.",
  ]
  public static let example = MethodExample(
    params: ["account": "work"], result: ["refreshed": true, "generation": 8])
}
