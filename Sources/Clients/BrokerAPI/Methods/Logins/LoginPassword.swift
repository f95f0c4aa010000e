/// A person's name and password (RFC 6749 §4.3).
public enum LoginPassword: RPCMethod {
  public static let name = "login.password"
  public static let access = Access.login
  public static let summary =
    "Signs in with a user's name and password, at a provider whose configuration permits it; neither is kept."
  public static let errors: [ErrorReason] = [
    .unknownProvider, .loginDenied, .temporarilyUnavailable, .providerMisconfigured, .providerError,
    .unsupportedByProvider, .overloaded, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var provider: String
    public var account: String?
    public var username: String
    public var password: SecretText
    public var scopes: [String]?

    public init(
      provider: String, account: String? = nil, username: String, password: SecretText, scopes: [String]? = nil
    ) {
      self.provider = provider
      self.account = account
      self.username = username
      self.password = password
      self.scopes = scopes
    }
  }

  public typealias Result = AccountView

  public static let paramDocs = [
    "provider": "The provider's name in the configuration, which must have `allow_password`.",
    "account":
      "The name the account will have; an account of that name is signed in again. Default: the provider's name.",
    "username": "The person's name at the provider.",
    "password": "The person's password. It is sent to the provider once, and kept nowhere.",
    "scopes": "The scopes to ask for, instead of the provider's configured ones.",
  ]
  public static let resultDocs = AccountView.docs
  public static let example = MethodExample(
    params: ["provider": "relic", "account": "work", "username": "jane", "password": "open sesame"],
    result: MethodExample.account)
}
