/// A grant that another program was given.
public enum AccountImport: RPCMethod {
  public static let name = "account.import"
  public static let access = Access.login
  public static let summary =
    "Makes an account of a refresh token that was issued to the provider's client elsewhere. The token is used at once. If the account has an identity, no token is returned before an ID token or UserInfo names the same user."
  public static let errors: [ErrorReason] = [
    .unknownProvider, .notPermitted, .loginRequired, .temporarilyUnavailable, .timedOut, .providerMisconfigured,
    .providerError,
    .scopeNotGranted, .unsupportedByProvider, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var provider: String
    public var refresh_token: SecretText
    public var scopes: [String]?
    public var resource: String?
    public var replace_identity: Bool?

    public init(
      account: String, provider: String, refresh_token: SecretText, scopes: [String]? = nil, resource: String? = nil,
      replace_identity: Bool? = nil
    ) {
      self.account = account
      self.provider = provider
      self.refresh_token = refresh_token
      self.scopes = scopes
      self.resource = resource
      self.replace_identity = replace_identity
    }
  }

  public typealias Result = AccountView

  public static let paramDocs = [
    "account": "The name the account will have; one of that name is replaced where its grant has ended, else refused.",
    "provider": "The provider's name in the configuration; its client must be the one the token was issued to.",
    "refresh_token": "The refresh token (RFC 6749 §1.5). From now on only the broker may use it.",
    "scopes":
      "The scopes it was granted for, if the provider does not report them. Default: the provider's configured ones.",
    "resource": "The resource it was granted for (RFC 8707).",
    "replace_identity":
      "Whether the token may belong to another user than the account; this requires `manage` access. Default: false.",
  ]
  public static let resultDocs = AccountView.docs
  public static let example = MethodExample(
    params: ["account": "work", "provider": "google", "refresh_token": "1//0gXk", "scopes": ["openid", "email"]],
    result: MethodExample.account)
}
