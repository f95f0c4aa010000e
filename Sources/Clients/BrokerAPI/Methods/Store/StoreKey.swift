/// Another key for the stored data.
public enum StoreRotateKey: RPCMethod {
  public static let name = "store.rotate_key"
  public static let access = Access.manage
  public static let summary = "Seals everything on disk under a new key, while the broker serves."
  public static let errors: [ErrorReason] = [.storeFailure, .keyNotReplaceable]

  public typealias Params = NoParams

  public struct Result: Codable, Sendable, Equatable {
    public var key_file: String
    public var accounts: Int
    public var seconds: Double
    public var warnings: [String]

    public init(key_file: String, accounts: Int, seconds: Double, warnings: [String]) {
      self.key_file = key_file
      self.accounts = accounts
      self.seconds = seconds
      self.warnings = warnings
    }
  }

  public static let resultDocs = [
    "key_file": "The location of the new key; the old one was removed everywhere.",
    "accounts": "How many accounts are under it.",
    "seconds": "How long it took.",
    "warnings": "Files that are still under the old key, for users.",
  ]
  public static let example = MethodExample(
    params: .null,
    result: ["key_file": "/var/lib/grantd/grantd.key", "accounts": 13, "seconds": .number("0.021"), "warnings": []])
}
