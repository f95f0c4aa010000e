/// A provider from its issuer: with a new client (RFC 7591), or with one that was registered by hand.
public enum ProviderRegister: RPCMethod {
  public static let name = "provider.register"
  public static let access = Access.manage
  public static let summary =
    "Adds a provider to the store: registers a client at the issuer (RFC 7591), or uses the client that `client_id` names."
  public static let errors: [ErrorReason] = [
    .registrationRejected, .unsupportedByProvider, .temporarilyUnavailable, .timedOut, .providerMisconfigured,
    .providerError, .storeFailure,
  ]

  /// The values of `auth_method`.
  public static let authMethods = ["none", "client_secret_post", "client_secret_basic", "client_secret_basic_raw"]

  /// `data.detail` of the error for an issuer at a plain http URL of another machine.
  public static let notHTTPS = "not_https"

  public struct Params: Codable, Sendable, Equatable {
    public var issuer: String
    public var provider: String?
    public var initial_access_token: SecretText?
    public var scopes: [String]?
    public var redirect_uri: String?
    public var auth_method: String?
    public var resource: String?
    public var api_base: String?
    public var ca_certificates: String?
    public var client_id: String?
    public var client_secret: SecretText?

    public init(
      issuer: String, provider: String? = nil, initial_access_token: SecretText? = nil, scopes: [String]? = nil,
      redirect_uri: String? = nil, auth_method: String? = nil, resource: String? = nil, api_base: String? = nil,
      ca_certificates: String? = nil, client_id: String? = nil, client_secret: SecretText? = nil
    ) {
      self.issuer = issuer
      self.provider = provider
      self.initial_access_token = initial_access_token
      self.scopes = scopes
      self.redirect_uri = redirect_uri
      self.auth_method = auth_method
      self.resource = resource
      self.api_base = api_base
      self.ca_certificates = ca_certificates
      self.client_id = client_id
      self.client_secret = client_secret
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var provider: String
    public var client_id: String
    public var issuer: String
    public var warnings: [String]

    public init(provider: String, client_id: String, issuer: String, warnings: [String]) {
      self.provider = provider
      self.client_id = client_id
      self.issuer = issuer
      self.warnings = warnings
    }
  }

  public static let paramDocs = [
    "issuer":
      "The issuer's URL. Without `client_id` its metadata must contain a registration endpoint (RFC 8414 §2).",
    "provider": "The name the provider will have. Default: made from the issuer's host.",
    "initial_access_token": "The token for registrations, if the issuer requires one (RFC 7591 §3).",
    "scopes": "The scopes that logins will ask for. Default: those of OpenID Connect that the issuer supports.",
    "redirect_uri": "The redirection endpoint to register. Default: the broker's own.",
    "auth_method":
      "How the client authenticates: `none`, `client_secret_post`, `client_secret_basic`, or `client_secret_basic_raw`, which encodes neither id nor secret. Default: the first that the issuer lists.",
    "resource": "The resource that tokens are for, an absolute URI (RFC 8707).",
    "api_base": "The base URL of requests with an account's token, for `request.send` and `/forward`.",
    "ca_certificates": "Certificate authorities in PEM to trust for this provider, in addition to the system's.",
    "client_id":
      "A client that is registered at the issuer already, such as by hand; no registration request is sent.",
    "client_secret": "The secret of that client; absent: it is public. The token endpoint must accept it.",
  ]
  public static let resultDocs = [
    "provider": "The provider's name, for `login.start`.",
    "client_id": "The client identifier that the issuer gave (RFC 7591 §3.2.1), or the given one.",
    "issuer": "The issuer as its metadata name it.",
    "warnings": "Deviations from the request, and ends, as text for the user.",
  ]
  public static let example = MethodExample(
    params: ["issuer": "https://login.example.com", "provider": "example"],
    result: [
      "provider": "example", "client_id": "s6BhdRkqt3", "issuer": "https://login.example.com",
      "warnings": ["the client's registration ends in 30 days"],
    ])
}

/// The end of a registration (RFC 7592 §2.3).
public enum ProviderUnregister: RPCMethod {
  public static let name = "provider.unregister"
  public static let access = Access.manage
  public static let summary =
    "Deletes the client that `provider.register` made (RFC 7592) and removes the provider, even if the issuer refuses."
  public static let errors: [ErrorReason] = [.unknownProvider, .unsupportedByProvider, .storeFailure]

  public typealias Params = ProviderGet.Params

  public struct Result: Codable, Sendable, Equatable {
    public var steps: [AccountLogout.Step]

    public init(steps: [AccountLogout.Step]) {
      self.steps = steps
    }
  }

  public static let paramDocs = ["provider": "The provider's name, as `provider.register` returned it."]
  public static let resultDocs = [
    "steps":
      "In order: `step` (`delete_registration`, `forget`), `result` (`done`, `queued`: repeated automatically, "
      + "`unsupported`, `refused`), `message`. The client of a given `client_id` is not deleted: `unsupported`."
  ]
  public static let example = MethodExample(
    params: ["provider": "example"],
    result: ["steps": [["step": "delete_registration", "result": "done"], ["step": "forget", "result": "done"]]])
}
