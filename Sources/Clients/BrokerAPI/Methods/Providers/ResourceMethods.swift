/// The source of the client for a protected resource.
public enum ResourceClient: String, Codable, Sendable, CaseIterable {
  /// A provider of the broker at that issuer.
  case provider
  /// The client ID metadata document of `[client_metadata]`.
  case metadata_document
  /// Dynamic registration (RFC 7591).
  case registration
  /// `client_id`, registered by hand.
  case given

  /// For the reference.
  static let docs =
    "The source of the client: `provider` (the broker has a provider at that issuer), `metadata_document` "
    + "(`[client_metadata]`), `registration` (RFC 7591), `given` (`client_id`)."
}

/// The documents of a protected resource, without a change (RFC 9728).
public enum ResourceDiscover: RPCMethod {
  public static let name = "resource.discover"
  public static let access = Access.manage
  public static let summary =
    "Reads the metadata of a protected resource and of its authorization server (RFC 9728, RFC 8414), and stores nothing."
  public static let errors: [ErrorReason] = [
    .unsupportedByProvider, .providerMisconfigured, .providerError, .temporarilyUnavailable, .timedOut,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var url: String
    public var issuer: String?

    public init(url: String, issuer: String? = nil) {
      self.url = url
      self.issuer = issuer
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var resource: String
    public var metadata_url: String?
    public var issuer: String
    public var issuers: [String]
    public var scopes: [String]
    public var client: ResourceClient?
    public var provider: String?

    public init(
      resource: String, metadata_url: String?, issuer: String, issuers: [String], scopes: [String],
      client: ResourceClient?, provider: String?
    ) {
      self.resource = resource
      self.metadata_url = metadata_url
      self.issuer = issuer
      self.issuers = issuers
      self.scopes = scopes
      self.client = client
      self.provider = provider
    }
  }

  public static let paramDocs = [
    "url": "The URL of the resource: https, or http on this machine.",
    "issuer": "The authorization server to use. Default: one with a provider, else the first that works.",
  ]
  public static let resultDocs = [
    "resource": "The resource for token requests (RFC 8707), as its metadata have it.",
    "metadata_url": "The URL of the resource's metadata; absent: `issuer` was given, and it has none.",
    "issuer": "The issuer of the authorization server.",
    "issuers": "All authorization servers that the resource names.",
    "scopes": "The scopes that a login will ask for.",
    "client": ResourceClient.docs + " Absent: the client must be registered by hand.",
    "provider": "The provider for this resource, if the broker has one.",
  ]
  public static let example = MethodExample(
    params: ["url": "https://mcp.example.com/mcp"],
    result: [
      "resource": "https://mcp.example.com/mcp", "issuer": "https://login.example.com",
      "issuers": ["https://login.example.com"], "scopes": ["notes.read"],
      "client": "registration",
    ])
}

/// A provider for a protected resource.
public enum ResourceAdd: RPCMethod {
  public static let name = "resource.add"
  public static let access = Access.manage
  public static let summary =
    "Finds the authorization server of a protected resource and stores a provider for it, or returns the one that exists."
  public static let errors: [ErrorReason] = [
    .unsupportedByProvider, .providerMisconfigured, .providerError, .temporarilyUnavailable, .timedOut,
    .registrationRejected, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Hashable {
    public var url: String
    public var issuer: String?
    public var provider: String?
    public var client_id: String?
    public var scopes: [String]?

    public init(
      url: String, issuer: String? = nil, provider: String? = nil, client_id: String? = nil, scopes: [String]? = nil
    ) {
      self.url = url
      self.issuer = issuer
      self.provider = provider
      self.client_id = client_id
      self.scopes = scopes
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var provider: String
    public var created: Bool
    public var resource: String
    public var issuer: String
    public var client: ResourceClient
    public var client_id: String
    public var scopes: [String]
    public var forward_path: String
    public var warnings: [String]

    public init(
      provider: String, created: Bool, resource: String, issuer: String, client: ResourceClient, client_id: String,
      scopes: [String], forward_path: String, warnings: [String]
    ) {
      self.provider = provider
      self.created = created
      self.resource = resource
      self.issuer = issuer
      self.client = client
      self.client_id = client_id
      self.scopes = scopes
      self.forward_path = forward_path
      self.warnings = warnings
    }
  }

  public static let paramDocs = [
    "url": "The URL of the resource: https, or http on this machine.",
    "issuer": "The authorization server to use. Default: one with a provider, else the first that works.",
    "provider": "The name of a new provider. Default: from the URL.",
    "client_id": "The client identifier of a public client that was registered by hand. Default: none.",
    "scopes": "The scopes of logins. Default: those of the resource's challenge or metadata.",
  ]
  public static let resultDocs = [
    "provider": "The provider's name, for `login.start`.",
    "created": "Whether the provider is new.",
    "resource": "The resource that tokens are for (RFC 8707).",
    "issuer": "The issuer of the authorization server.",
    "client": ResourceClient.docs,
    "client_id": "The client identifier.",
    "scopes": "The scopes that a login asks for.",
    "forward_path": "The path of the resource below `/forward/ACCOUNT`.",
    "warnings": "Notes for an administrator, such as a client that cannot be deleted.",
  ]
  public static let example = MethodExample(
    params: ["url": "https://mcp.example.com/mcp"],
    result: [
      "provider": "mcp.example.com", "created": true, "resource": "https://mcp.example.com/mcp",
      "issuer": "https://login.example.com", "client": "registration", "client_id": "s6BhdRkqt3",
      "scopes": ["notes.read"], "forward_path": "/mcp", "warnings": [],
    ])
}
