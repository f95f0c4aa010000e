/// A provider's public data; never a secret.
public struct ProviderView: Codable, Sendable, Equatable, Documented {
  public var provider: String
  public var kind: String
  public var profile: String?
  public var display_name: String
  public var issuer: String?
  public var client_id: String
  public var scopes: [String]
  public var accounts: Int
  public var state: String
  public var last_error: String?
  public var refreshes_per_second: Double?

  public init(
    provider: String, kind: String, profile: String?, display_name: String, issuer: String?, client_id: String,
    scopes: [String], accounts: Int, state: String, last_error: String?, refreshes_per_second: Double? = nil
  ) {
    self.provider = provider
    self.kind = kind
    self.profile = profile
    self.display_name = display_name
    self.issuer = issuer
    self.client_id = client_id
    self.scopes = scopes
    self.accounts = accounts
    self.state = state
    self.last_error = last_error
    self.refreshes_per_second = refreshes_per_second
  }

  public static let docs = [
    "provider": "The provider's name in the configuration.",
    "kind": "How it speaks, as `kind` in the configuration.",
    "profile": "The shipped template its settings come from.",
    "display_name": "Its name for people.",
    "issuer": "Its issuer, if it has one.",
    "client_id":
      "The client identifier registered there (RFC 6749 §2.2); its equivalent if the kind has none.",
    "scopes": "The scopes a login asks for by default.",
    "accounts": "How many accounts there are at this provider.",
    "state":
      "`ok`; `unreachable`: it does not answer and is tried again; `recovering`: it answers again, and refreshes begin one after the other; `suspended`: the provider refuses this client, so its refreshes rest until the configuration changes; `removed`: no longer configured.",
    "last_error": "The error of the last failed request to it.",
    "refreshes_per_second":
      "The rate that its 429 responses allow, learned by the broker; absent: no 429 in the last hour.",
  ]
}

public enum ProviderList: RPCMethod {
  public static let name = "provider.list"
  public static let access = Access.observe
  public static let summary = "Lists the configured providers, by name."
  public static let errors: [ErrorReason] = []

  public typealias Params = NoParams

  public struct Result: Codable, Sendable, Equatable {
    public var providers: [ProviderView]

    public init(providers: [ProviderView]) {
      self.providers = providers
    }
  }

  public static let resultDocs = ["providers": "The providers, each as in `provider.get`'s `provider`."]
  public static let example = MethodExample(params: .null, result: ["providers": [MethodExample.provider]])
}

public enum ProviderGet: RPCMethod {
  public static let name = "provider.get"
  public static let access = Access.observe
  public static let summary = "Returns one provider: its configuration without secrets, and its features."
  public static let errors: [ErrorReason] = [.unknownProvider]

  public struct Params: Codable, Sendable, Equatable {
    public var provider: String

    public init(provider: String) {
      self.provider = provider
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var provider: ProviderView
    public var redirect_uri: String
    public var endpoints: [String: String]
    public var supports: [String: Bool]
    public var metadata_fetched_at: Int64?
    public var forward_path: String?
    public var section: [String: JSON]?
    public var section_files: [String]?
    public var section_base: String?

    public init(
      provider: ProviderView, redirect_uri: String, endpoints: [String: String], supports: [String: Bool],
      metadata_fetched_at: Int64?, forward_path: String? = nil, section: [String: JSON]? = nil,
      section_files: [String]? = nil, section_base: String? = nil
    ) {
      self.provider = provider
      self.redirect_uri = redirect_uri
      self.endpoints = endpoints
      self.supports = supports
      self.metadata_fetched_at = metadata_fetched_at
      self.forward_path = forward_path
      self.section = section
      self.section_files = section_files
      self.section_base = section_base
    }
  }

  public static let paramDocs = ["provider": "The provider's name in the configuration."]
  public static let resultDocs = [
    "provider":
      "`provider`, `kind`, `profile`, `display_name`, `issuer`, `client_id`, `scopes`, `accounts`, `state` (`ok`, `unreachable`, `recovering`, `suspended`, `removed`), `last_error`.",
    "redirect_uri": "The redirection endpoint to register at the provider (RFC 6749 §3.1.2).",
    "endpoints": "The endpoints in use, by name: `authorization`, `token`, `jwks`, `userinfo`, `revocation`.",
    "supports": "By name: `refresh`, `revocation`, `userinfo`, `id_token`, `pkce`, `sessions`.",
    "metadata_fetched_at": "When its metadata were last fetched, in Unix seconds; absent: not yet.",
    "forward_path":
      "The path of the provider's resource below `/forward/ACCOUNT`; absent: it has no resource at its API base.",
    "section_base": "The configured provider with the other keys of that section: its client is used.",
    "section":
      "Only for a provider of `provider.register`: the keys of the same provider as a `[provider.NAME]` section.",
    "section_files": "Further keys of that section, each for a file with content that is in the store.",
  ]
  public static let example = MethodExample(
    params: ["provider": "google"],
    result: [
      "provider": MethodExample.provider, "redirect_uri": "http://127.0.0.1:4180/callback",
      "endpoints": [
        "authorization": "https://accounts.google.com/o/oauth2/v2/auth",
        "token": "https://oauth2.googleapis.com/token",
      ],
      "supports": [
        "id_token": true, "pkce": true, "refresh": true, "revocation": true, "sessions": false, "userinfo": true,
      ],
      "metadata_fetched_at": 1_767_225_600,
    ])
}
