/// Repairs or removes a row on disk that cannot be read.
public enum StoreRepair: RPCMethod {
  public static let name = "store.repair"
  public static let access = Access.manage
  public static let summary =
    "Repairs or removes a row on disk that cannot be read, which `set_aside` of `broker.status` names."
  public static let errors: [ErrorReason] = [.storeFailure, .loginRequired, .unknownAccount]

  public struct Params: Codable, Sendable, Equatable {
    public var row: String
    public var remove: Bool?

    public init(row: String, remove: Bool? = nil) {
      self.row = row
      self.remove = remove
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var row: String
    public var outcome: String

    public init(row: String, outcome: String) {
      self.row = row
      self.outcome = outcome
    }
  }

  public static let paramDocs = [
    "row": "The name of an account, or of another row as `logins#3`.",
    "remove":
      "Removes a row that is not an account's; `account.logout` removes an account. Default: repairs an account, whose "
      + "refresh token must be readable. Its access token and its times are dropped, and a refresh asks for new ones.",
  ]
  public static let resultDocs = [
    "row": "The row.",
    "outcome": "`repaired` or `removed`.",
  ]
  public static let example = MethodExample(
    params: ["row": "work"], result: ["row": "work", "outcome": "repaired"])
}
