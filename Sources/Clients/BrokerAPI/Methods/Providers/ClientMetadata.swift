/// The client ID metadata document to publish (RFC 7591 §2 members).
public enum ClientMetadata: RPCMethod {
  public static let name = "client.metadata"
  public static let access = Access.observe
  public static let summary =
    "Returns the client ID metadata document to publish at the URL of `[client_metadata]`."
  public static let errors: [ErrorReason] = []

  public typealias Params = NoParams

  public struct Result: Codable, Sendable, Equatable {
    public var url: String?
    public var client_name: String
    public var redirect_uris: [String]
    public var grant_types: [String]
    public var response_types: [String]
    public var token_endpoint_auth_method: String

    public init(
      url: String?, client_name: String, redirect_uris: [String], grant_types: [String], response_types: [String],
      token_endpoint_auth_method: String
    ) {
      self.url = url
      self.client_name = client_name
      self.redirect_uris = redirect_uris
      self.grant_types = grant_types
      self.response_types = response_types
      self.token_endpoint_auth_method = token_endpoint_auth_method
    }
  }

  public static let resultDocs = [
    "url": "The `url` of `[client_metadata]`, which is also the client identifier; absent: none is configured.",
    "client_name": "The name that consent pages show.",
    "redirect_uris": "The loopback redirect URI without a port: servers accept any port (RFC 8252 §7.3).",
    "grant_types": "Authorization code, refresh and device grant.",
    "response_types": "`code`.",
    "token_endpoint_auth_method": "`none`: a public client.",
  ]
  public static let example = MethodExample(
    params: .null,
    result: [
      "url": "https://example.com/grantd.json", "client_name": "grantd",
      "redirect_uris": ["http://127.0.0.1/callback"],
      "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
      "response_types": ["code"], "token_endpoint_auth_method": "none",
    ])
}
