public import FoundationEssentials

/// The metadata of an authorization server (RFC 8414 §2, OpenID Connect Discovery §3), or the configured replacement.
public struct ServerMetadata: Sendable, Equatable {
  /// The issuer as the document writes it: compared with `iss` by the provider's ``IssuerRule``.
  public var issuer: String
  public var endpoints: [Endpoint: URL]
  /// Invalid endpoints in the document, with their text.
  public private(set) var invalidEndpoints: [Endpoint: String] = [:]
  /// Alternative endpoints for a client with its own certificate (RFC 8705 §5).
  public private(set) var mtlsEndpointAliases: [Endpoint: URL] = [:]
  public var supported = Supported()
  /// Each authorization response contains `iss` (RFC 9207 §3).
  public private(set) var sendsIssuer = false
  /// Each authorization request must be pushed (RFC 9126 §5).
  public var requiresPushedRequests = false
  /// Each authorization request must be signed (RFC 9101 §10.5).
  public var requiresSignedRequests = false

  /// The lists of offers; nil: the document has no such list.
  public struct Supported: Sendable, Equatable {
    public var scopes: [String]?
    public internal(set) var responseTypes: [String]?
    public var grantTypes: [String]?
    public var codeChallengeMethods: [String]?
    /// Authentication of the client at the token endpoint.
    public var clientAuthentication: [String]?
    /// Initiating User Registration via OpenID Connect §5.
    public var prompts: [String]?
    public internal(set) var idTokenAlgorithms: [String]?
    /// Signatures of authorization responses (JARM §3).
    public internal(set) var responseAlgorithms: [String]?
    /// Whether a client identifier may be the URL of a client's metadata (Client ID Metadata Document).
    public internal(set) var clientMetadataDocuments = false
  }

  public init(issuer: String, endpoints: [Endpoint: URL] = [:]) {
    self.issuer = issuer
    self.endpoints = endpoints
  }

  /// Parses a discovery response (RFC 8414 §3.2, §3.3). An invalid endpoint is an error only when it is requested: an
  /// invalid `registration_endpoint` must not prevent a login.
  public static func parse(
    _ response: HTTPResponse, expected: Issuer, issuerRule: IssuerRule, allowInsecureHTTP: Bool
  ) throws(ResponseError) -> ServerMetadata {
    let members = try response.successfulObject()
    var metadata = ServerMetadata(issuer: "")
    do throws(WrongMember) {
      metadata.issuer = try members.requiredText("issuer")
      try metadata.readFeatures(members)
    } catch {
      throw response.nonConforming(error)
    }
    guard issuerRule.acceptsDocument(metadata.issuer, expected: expected.rawValue) else {
      throw .issuerMismatch(
        expected: expected.rawValue.printable(limit: 512), found: metadata.issuer.printable(limit: 512))
    }
    for endpoint in Endpoint.allCases {
      metadata.read(endpoint, from: members[endpoint.rawValue], allowInsecureHTTP: allowInsecureHTTP)
    }
    metadata.readAliases(members["mtls_endpoint_aliases"]?.dictionary ?? [:], allowInsecureHTTP: allowInsecureHTTP)
    return metadata
  }

  /// Adds the endpoints and lists that only the server's other document has: some servers list revocation,
  /// introspection and registration only in their RFC 8414 document. Both must have the same issuer; this one takes
  /// precedence.
  public func completed(by other: ServerMetadata) -> ServerMetadata {
    guard other.issuer == issuer else { return self }
    var whole = self
    whole.endpoints.merge(other.endpoints.filter { invalidEndpoints[$0.key] == nil }) { own, _ in own }
    whole.supported.grantTypes = supported.grantTypes ?? other.supported.grantTypes
    whole.supported.codeChallengeMethods = supported.codeChallengeMethods ?? other.supported.codeChallengeMethods
    whole.supported.clientAuthentication = supported.clientAuthentication ?? other.supported.clientAuthentication
    return whole
  }

  /// Scopes that the server does not list and that are probably misspelled. Metadata often omit API scopes, which are URLs or
  /// contain dots (RFC 8414 §2).
  public func misspelled(_ scopes: [String]) -> [String] {
    guard let listed = supported.scopes else { return [] }
    return scopes.filter { scope in
      !listed.contains(scope) && scope.allSatisfy { $0.isLetter || $0 == "_" || $0 == "-" }
    }
  }

  /// A list of the wrong type is ignored, since all lists are advice, and so is a flag that only describes an offer.
  /// Flags that require something are not ignored.
  private mutating func readFeatures(_ members: [String: JSON]) throws(WrongMember) {
    func list(_ name: String) -> [String]? { try? members.texts(name) }
    supported.scopes = list("scopes_supported")
    supported.responseTypes = list("response_types_supported")
    supported.grantTypes = list("grant_types_supported")
    supported.codeChallengeMethods = list("code_challenge_methods_supported")
    supported.clientAuthentication = list("token_endpoint_auth_methods_supported")
    supported.prompts = list("prompt_values_supported")
    supported.idTokenAlgorithms = list("id_token_signing_alg_values_supported")
    supported.responseAlgorithms = list("authorization_signing_alg_values_supported")
    supported.clientMetadataDocuments = (try? members.flag("client_id_metadata_document_supported")) ?? false
    sendsIssuer = try members.flag("authorization_response_iss_parameter_supported")
    requiresPushedRequests = try members.flag("require_pushed_authorization_requests")
    requiresSignedRequests = try members.flag("require_signed_request_object")
  }

  private mutating func read(_ endpoint: Endpoint, from member: JSON?, allowInsecureHTTP: Bool) {
    switch member {
    case nil, .null: return
    case .string(let text):
      endpoints[endpoint] = Endpoint.url(text, allowInsecureHTTP: allowInsecureHTTP)
      if endpoints[endpoint] == nil { invalidEndpoints[endpoint] = text.printable(limit: 512) }
    case .some(let other): invalidEndpoints[endpoint] = other.text(sorted: true).printable(limit: 512)
    }
  }

  /// An invalid alias is ignored: the endpoint itself is still available.
  private mutating func readAliases(_ members: [String: JSON], allowInsecureHTTP: Bool) {
    for endpoint in Endpoint.allCases {
      guard case .string(let text)? = members[endpoint.rawValue] else { continue }
      mtlsEndpointAliases[endpoint] = Endpoint.url(text, allowInsecureHTTP: allowInsecureHTTP)
    }
  }

  /// The endpoint, or the reason why there is none: missing and invalid are different errors.
  public func endpoint(_ endpoint: Endpoint) throws(EndpointError) -> URL {
    if let url = endpoints[endpoint] { return url }
    if let text = invalidEndpoints[endpoint] { throw .invalid(endpoint.rawValue, text) }
    throw .missing(endpoint.rawValue)
  }
}
