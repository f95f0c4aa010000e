public enum ReleaseRevoke: RPCMethod {
  public static let name = "release.revoke"
  public static let access = Access.manage
  public static let summary = "Ends an approval or a denial that was given for some time, before its time."
  public static let errors: [ErrorReason] = []

  public struct Params: Codable, Sendable, Equatable {
    public var id: String

    public init(id: String) {
      self.id = id
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var revoked: Bool

    public init(revoked: Bool) {
      self.revoked = revoked
    }
  }

  public static let paramDocs = ["id": "As in `standing` of `release.list`."]
  public static let resultDocs = ["revoked": "False if no such approval is active."]
  public static let example = MethodExample(params: ["id": "k7f3qx"], result: ["revoked": true])
}
