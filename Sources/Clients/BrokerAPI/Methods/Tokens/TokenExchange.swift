/// Another token for an account's own (RFC 8693 §2).
public enum TokenExchange: TokenRelease {
  public static let name = "token.exchange"
  public static let access = Access.use
  public static let summary =
    "Exchanges the account's access token at the provider for one that another service takes (RFC 8693)."
  public static let errors: [ErrorReason] = TokenGet.errors

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var audience: [String]?
    public var resource: [String]?
    public var scopes: [String]?
    public var requested_token_type: String?
    public var actor: String?
    public var timeout: Double?

    public init(
      account: String, audience: [String]? = nil, resource: [String]? = nil, scopes: [String]? = nil,
      requested_token_type: String? = nil, actor: String? = nil, timeout: Double? = nil
    ) {
      self.account = account
      self.audience = audience
      self.resource = resource
      self.scopes = scopes
      self.requested_token_type = requested_token_type
      self.actor = actor
      self.timeout = timeout
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var access_token: String
    public var issued_token_type: String
    public var token_type: String
    public var expires_at: Int64?
    public var expires_in: Int64?
    public var scope: [String]?

    public init(
      access_token: String, issued_token_type: String, token_type: String, expires_at: Int64? = nil,
      expires_in: Int64? = nil, scope: [String]? = nil
    ) {
      self.access_token = access_token
      self.issued_token_type = issued_token_type
      self.token_type = token_type
      self.expires_at = expires_at
      self.expires_in = expires_in
      self.scope = scope
    }
  }

  public static let paramDocs = [
    "account": "The account whose access token is exchanged: the subject (RFC 8693 §2.1).",
    "audience": "The provider's names for the services that the new token is for.",
    "resource": "The addresses of the services that the new token is for (RFC 8707).",
    "scopes": "The scopes of the new token; absent: as the provider decides.",
    "requested_token_type":
      "The type asked for (RFC 8693 §3), such as `urn:ietf:params:oauth:token-type:jwt`; absent: as the provider decides.",
    "actor": "The account that acts for the subject; its access token is the actor token (RFC 8693 §1.1).",
    "timeout": "Seconds to wait for the provider before `timed_out`; at most 300. Default 30.",
  ]
  public static let resultDocs = [
    "access_token": "The token that was issued; by its `issued_token_type` it may be another than an access token.",
    "issued_token_type": "The type of the issued token (RFC 8693 §3).",
    "token_type":
      "How to present the token: `Bearer`, `DPoP`, or `N_A` if it is not an access token (RFC 8693 §2.2.1).",
    "expires_at": "When the token ends, in Unix seconds; absent if the provider did not report it.",
    "expires_in": "Seconds from now until the token ends; absent if the provider did not report it.",
    "scope": "The scopes granted; absent if the provider did not report them.",
  ]
  public static let example = MethodExample(
    params: ["account": "work", "audience": ["reports"], "scopes": ["reports.read"]],
    result: [
      "access_token": "eyJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJyZXBvcnRzIn0.c2ln",
      "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer",
      "expires_at": 1_767_225_900, "expires_in": 300, "scope": ["reports.read"],
    ])
}
