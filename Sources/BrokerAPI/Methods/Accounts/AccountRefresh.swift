/// A new token now, for who manages the account.
public enum AccountRefresh: RPCMethod {
  public static let name = "account.refresh"
  public static let access = Access.manage
  public static let summary =
    "Gets a new token from the provider now, whatever wait a failure or the provider's `Retry-After` asked for. The old token is not handed out again."
  public static let errors: [ErrorReason] = TokenReportRejected.errors + [.unsupportedByProvider]

  public typealias Params = ProviderQuestion.Params
  public typealias Result = TokenReportRejected.Result

  public static let paramDocs = ProviderQuestion.paramDocs
  public static let resultDocs = [
    "refreshed": "Whether there is a newer token than before.",
    "generation": "The generation of the current token.",
  ]
  public static let example = MethodExample(
    params: ["account": "work"], result: ["refreshed": true, "generation": 8])
}
