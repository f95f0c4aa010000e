public import FoundationEssentials

/// The metadata of an authorization server (RFC 8414 §2, OpenID Connect Discovery §3), or the configured replacement.
public struct ServerMetadata: Sendable, Codable, Equatable {
  /// The issuer as the document writes it: compared with `iss` by the provider's ``IssuerRule``.
  public var issuer: String
  public var authorizationEndpoint: URL?
  public var tokenEndpoint: URL?
  public var jwksURI: URL?
  public var userinfoEndpoint: URL?
  public var revocationEndpoint: URL?
  public var introspectionEndpoint: URL?
  public var endSessionEndpoint: URL?
  public var pushedAuthorizationRequestEndpoint: URL?
  public var deviceAuthorizationEndpoint: URL?
  public var registrationEndpoint: URL?
  public var scopesSupported: [String]?
  public var responseTypesSupported: [String]?
  public var grantTypesSupported: [String]?
  public var codeChallengeMethodsSupported: [String]?
  public var tokenEndpointAuthMethodsSupported: [String]?
  public var idTokenSigningAlgValuesSupported: [String]?
  public var authorizationResponseIssParameterSupported: Bool
  public var requirePushedAuthorizationRequests: Bool
  /// Alternative endpoints for a client with its own certificate (RFC 8705 §5).
  public var mtlsEndpointAliases: [Endpoint: URL] = [:]
  /// `prompt_values_supported` (Initiating User Registration via OpenID Connect §5).
  public var promptValuesSupported: [String]?
  /// Each authorization request must be signed (RFC 9101 §10.5).
  public var requireSignedRequestObject = false
  /// JARM §3.
  public var authorizationSigningAlgValuesSupported: [String]?
  /// Whether a client identifier may be the URL of a client's metadata (Client ID Metadata Document).
  public var clientIDMetadataDocumentSupported = false
  /// Invalid endpoints in the document, with their text.
  public private(set) var invalidEndpoints: [Endpoint: String] = [:]

  public init(
    issuer: String, authorizationEndpoint: URL? = nil, tokenEndpoint: URL? = nil, jwksURI: URL? = nil,
    userinfoEndpoint: URL? = nil, revocationEndpoint: URL? = nil, introspectionEndpoint: URL? = nil,
    endSessionEndpoint: URL? = nil, pushedAuthorizationRequestEndpoint: URL? = nil,
    deviceAuthorizationEndpoint: URL? = nil, registrationEndpoint: URL? = nil, scopesSupported: [String]? = nil,
    responseTypesSupported: [String]? = nil, grantTypesSupported: [String]? = nil,
    codeChallengeMethodsSupported: [String]? = nil, tokenEndpointAuthMethodsSupported: [String]? = nil,
    idTokenSigningAlgValuesSupported: [String]? = nil, authorizationResponseIssParameterSupported: Bool = false,
    requirePushedAuthorizationRequests: Bool = false
  ) {
    self.issuer = issuer
    self.authorizationEndpoint = authorizationEndpoint
    self.tokenEndpoint = tokenEndpoint
    self.jwksURI = jwksURI
    self.userinfoEndpoint = userinfoEndpoint
    self.revocationEndpoint = revocationEndpoint
    self.introspectionEndpoint = introspectionEndpoint
    self.endSessionEndpoint = endSessionEndpoint
    self.pushedAuthorizationRequestEndpoint = pushedAuthorizationRequestEndpoint
    self.deviceAuthorizationEndpoint = deviceAuthorizationEndpoint
    self.registrationEndpoint = registrationEndpoint
    self.scopesSupported = scopesSupported
    self.responseTypesSupported = responseTypesSupported
    self.grantTypesSupported = grantTypesSupported
    self.codeChallengeMethodsSupported = codeChallengeMethodsSupported
    self.tokenEndpointAuthMethodsSupported = tokenEndpointAuthMethodsSupported
    self.idTokenSigningAlgValuesSupported = idTokenSigningAlgValuesSupported
    self.authorizationResponseIssParameterSupported = authorizationResponseIssParameterSupported
    self.requirePushedAuthorizationRequests = requirePushedAuthorizationRequests
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
    for endpoint in Endpoint.allCases
    where whole[keyPath: endpoint.property] == nil && whole.invalidEndpoints[endpoint] == nil {
      whole[keyPath: endpoint.property] = other[keyPath: endpoint.property]
    }
    whole.grantTypesSupported = grantTypesSupported ?? other.grantTypesSupported
    whole.codeChallengeMethodsSupported = codeChallengeMethodsSupported ?? other.codeChallengeMethodsSupported
    whole.tokenEndpointAuthMethodsSupported =
      tokenEndpointAuthMethodsSupported ?? other.tokenEndpointAuthMethodsSupported
    return whole
  }

  /// A list of the wrong type is ignored, since all lists are advice, and so is a flag that only describes an offer.
  /// Flags that require something are not ignored.
  private mutating func readFeatures(_ members: [String: JSON]) throws(WrongMember) {
    func list(_ name: String) -> [String]? { try? members.texts(name) }
    scopesSupported = list("scopes_supported")
    responseTypesSupported = list("response_types_supported")
    grantTypesSupported = list("grant_types_supported")
    codeChallengeMethodsSupported = list("code_challenge_methods_supported")
    tokenEndpointAuthMethodsSupported = list("token_endpoint_auth_methods_supported")
    idTokenSigningAlgValuesSupported = list("id_token_signing_alg_values_supported")
    promptValuesSupported = list("prompt_values_supported")
    authorizationSigningAlgValuesSupported = list("authorization_signing_alg_values_supported")
    clientIDMetadataDocumentSupported = (try? members.flag("client_id_metadata_document_supported")) ?? false
    requireSignedRequestObject = try members.flag("require_signed_request_object")
    authorizationResponseIssParameterSupported = try members.flag("authorization_response_iss_parameter_supported")
    requirePushedAuthorizationRequests = try members.flag("require_pushed_authorization_requests")
  }

  private mutating func read(_ endpoint: Endpoint, from member: JSON?, allowInsecureHTTP: Bool) {
    switch member {
    case nil, .null: return
    case .string(let text):
      self[keyPath: endpoint.property] = Endpoint.url(text, allowInsecureHTTP: allowInsecureHTTP)
      if self[keyPath: endpoint.property] == nil { invalidEndpoints[endpoint] = text.printable(limit: 512) }
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
    if let url = self[keyPath: endpoint.property] { return url }
    if let text = invalidEndpoints[endpoint] { throw .invalid(endpoint.rawValue, text) }
    throw .missing(endpoint.rawValue)
  }
}

/// An endpoint by its metadata name (RFC 8414 §2).
public enum Endpoint: String, Sendable, Codable, CodingKeyRepresentable, CaseIterable {
  case authorization = "authorization_endpoint"
  case token = "token_endpoint"
  case keys = "jwks_uri"
  case userinfo = "userinfo_endpoint"
  case revocation = "revocation_endpoint"
  case introspection = "introspection_endpoint"
  case endSession = "end_session_endpoint"
  case pushedAuthorizationRequest = "pushed_authorization_request_endpoint"
  case deviceAuthorization = "device_authorization_endpoint"
  case registration = "registration_endpoint"

  /// An endpoint's URL: https (or http as for an issuer), with a DNS host, without user or fragment (RFC 6749 §3.1,
  /// §3.2); nil if the text is not valid. Also for endpoints from the configuration.
  public static func url(_ text: String, allowInsecureHTTP: Bool) -> URL? {
    guard let uri = URI(text), let host = uri.host, !host.isEmpty, !host.utf8.contains(UInt8(ascii: "%")),
      uri.user == nil, uri.fragment == nil,
      uri.isSafe(allowInsecureHTTP: allowInsecureHTTP)
    else { return nil }
    return URL(string: text, encodingInvalidCharacters: false)
  }

  var property: WritableKeyPath<ServerMetadata, URL?> {
    switch self {
    case .authorization: \.authorizationEndpoint
    case .token: \.tokenEndpoint
    case .keys: \.jwksURI
    case .userinfo: \.userinfoEndpoint
    case .revocation: \.revocationEndpoint
    case .introspection: \.introspectionEndpoint
    case .endSession: \.endSessionEndpoint
    case .pushedAuthorizationRequest: \.pushedAuthorizationRequestEndpoint
    case .deviceAuthorization: \.deviceAuthorizationEndpoint
    case .registration: \.registrationEndpoint
    }
  }
}

public enum EndpointError: Error, Equatable, Sendable, CustomStringConvertible {
  /// The metadata do not contain it.
  case missing(String)
  /// The metadata contain it, but with an invalid URL.
  case invalid(String, String)

  public var description: String {
    switch self {
    case .missing(let name):
      "the provider's metadata has no \(name): set it in the configuration, or do without this feature"
    case .invalid(let name, let text):
      "the provider's metadata has an unusable \(name) “\(text)”: it must be an https URL without a fragment"
    }
  }
}
