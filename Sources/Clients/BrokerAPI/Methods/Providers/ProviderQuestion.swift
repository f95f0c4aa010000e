/// A request to the provider with an account's token: the common parameters.
public enum ProviderQuestion {
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

  public static let paramDocs = [
    "account": "The account's name.",
    "timeout": "Seconds to wait for the provider before `timed_out`; at most 300. Default 30.",
  ]
}
