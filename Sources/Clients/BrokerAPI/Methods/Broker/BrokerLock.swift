/// No token leaves the broker from the answer on.
public enum BrokerLock: RPCMethod {
  public static let name = "broker.lock"
  public static let access = Access.manage
  public static let summary =
    "Locks a user's broker: it drops the key and all tokens from memory. In the system instance holds all releases."
  public static let errors: [ErrorReason] = [.storeFailure, .keyNotReplaceable]

  public struct Params: Codable, Sendable, Equatable {
    public var passphrase: SecretText?

    public init(passphrase: SecretText? = nil) { self.passphrase = passphrase }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var state: String
    public var warnings: [String]

    public init(state: String, warnings: [String] = []) {
      self.state = state
      self.warnings = warnings
    }
  }

  public static let paramDocs = [
    "passphrase":
      "What unlocks it: at least 8 characters. Absent: the passphrase of the previous lock. Not in the system instance."
  ]
  public static let resultDocs = [
    "state":
      "`locking`: the broker ends its exchanges, then closes this connection; `locked`: it was locked before; `held`.",
    "warnings": "Data that remain readable, for users.",
  ]
  public static let example = MethodExample(
    params: ["passphrase": "correct horse battery staple"], result: ["state": "locking", "warnings": []])
}

public enum BrokerUnlock: RPCMethod {
  public static let name = "broker.unlock"
  public static let access = Access.manage
  public static let summary =
    "Unlocks a user's broker, which then starts as usual. In the system instance ends the hold of all releases."
  public static let errors: [ErrorReason] = [.storeFailure]

  public typealias Params = BrokerLock.Params

  public struct Result: Codable, Sendable, Equatable {
    public var state: String

    public init(state: String) { self.state = state }
  }

  public static let paramDocs = ["passphrase": "The passphrase of the lock. Not in the system instance."]
  public static let resultDocs = [
    "state":
      "`unlocking`: the broker closes this connection and starts; `released`: the hold has ended; `running`: there was none."
  ]
  public static let example = MethodExample(
    params: ["passphrase": "correct horse battery staple"], result: ["state": "unlocking"])
}
