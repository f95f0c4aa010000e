/// A new token now, for callers with `manage`.
public enum AccountRefresh: RPCMethod {
  public static let name = "account.refresh"
  public static let access = Access.use
  public static let summary =
    "Gets a new token from the provider now. The current one is returned until then. With `manage` no retry delay and no `Retry-After` applies; with only `use` a caller has three new tokens at once, and one more every five minutes."
  public static let errors: [ErrorReason] = TokenReportRejected.errors + [.unsupportedByProvider]

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var timeout: Double?
    public var now: Bool?

    public init(account: String, timeout: Double? = nil, now: Bool? = nil) {
      self.account = account
      self.timeout = timeout
      self.now = now
    }
  }

  public typealias Result = TokenReportRejected.Result

  public static let paramDocs = ProviderQuestion.paramDocs.merging([
    "now":
      "Sends a request even if the answer to an earlier one is late and may still arrive. That answer may have the only refresh token, and the provider may end the grant for the second request. Requires `manage`. Default false."
  ]) { $1 }
  public static let resultDocs = [
    "refreshed": "Whether there is a newer token than before.",
    "generation": "The generation of the current token.",
    "confirmed": "Absent.",
  ]
  public static let example = MethodExample(
    params: ["account": "work"], result: ["refreshed": true, "generation": 8])
}
