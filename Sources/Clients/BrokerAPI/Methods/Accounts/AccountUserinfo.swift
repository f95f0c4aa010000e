/// The provider's claims about the user (OpenID Connect Core §5.3).
public enum AccountUserinfo: TokenRelease {
  public static let name = "account.userinfo"
  public static let access = Access.use
  public static let summary =
    "Asks the provider's UserInfo endpoint who the account's person is (OpenID Connect Core §5.3)."
  public static let errors: [ErrorReason] = ProviderQuestion.errors

  public typealias Params = ProviderQuestion.Params

  public struct Result: Codable, Sendable, Equatable {
    public var claims: [String: JSON]

    public init(claims: [String: JSON]) {
      self.claims = claims
    }
  }

  public static let paramDocs = ProviderQuestion.paramDocs
  public static let resultDocs = [
    "claims":
      "The claims (OpenID Connect Core §5.1), such as `sub`, `name`, `email`; of a signed answer, after its signature was checked."
  ]
  public static let example = MethodExample(
    params: ["account": "work"],
    result: [
      "claims": [
        "email": "ada@example.com", "email_verified": true, "name": "Ada Lovelace", "sub": "110169484474386276334",
      ]
    ])
}
