/// The provider's data about an account's access token (RFC 7662).
public enum TokenIntrospect: TokenRelease {
  public static let name = "token.introspect"
  public static let access = Access.use
  public static let summary =
    "Asks the provider whether the account's access token is active, and for its data (RFC 7662)."
  public static let errors: [ErrorReason] = ProviderQuestion.errors

  public typealias Params = ProviderQuestion.Params

  public struct Result: Codable, Sendable, Equatable {
    public var active: Bool
    public var claims: [String: JSON]

    public init(active: Bool, claims: [String: JSON]) {
      self.active = active
      self.claims = claims
    }
  }

  public static let paramDocs = ProviderQuestion.paramDocs
  public static let resultDocs = [
    "active": "Whether the provider takes the token now.",
    "claims": "The members of the provider's answer (RFC 7662 §2.2), such as `scope`, `sub`, `aud`, `exp`.",
  ]
  public static let example = MethodExample(
    params: ["account": "work"],
    result: [
      "active": true,
      "claims": ["active": true, "exp": 1_767_229_199, "scope": "openid email", "sub": "110169484474386276334"],
    ])
}
