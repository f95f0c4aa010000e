public import FoundationEssentials

/// Registers a client at a provider (RFC 7591 §2, §3.1).
public struct ClientRegistrationRequest: Sendable, Equatable {
  /// The client's metadata (RFC 7591 §2, OpenID Connect Registration §2).
  public var members: [String: JSON]
  /// The initial access token, if the server requires one (RFC 7591 §3.1).
  public var initialAccessToken: Secret?

  public init(members: [String: JSON], initialAccessToken: Secret? = nil) {
    self.members = members
    self.initialAccessToken = initialAccessToken
  }

  /// A typical client.
  ///
  /// - Parameters:
  ///   - authMethod: `token_endpoint_auth_method`.
  ///   - keys: the public keys, for `private_key_jwt` and signed requests.
  ///   - extra: provider-specific members; they replace the others.
  public init(
    name: String, redirectURIs: [String], grantTypes: [String] = ["authorization_code", "refresh_token"],
    responseTypes: [String] = ["code"], authMethod: String, scopes: [String] = [], keys: [SigningKey] = [],
    initialAccessToken: Secret? = nil, extra: [String: JSON] = [:]
  ) {
    func list(_ texts: [String]) -> JSON { .array(texts.map(JSON.string)) }
    var members: [String: JSON] = [
      "client_name": .string(name), "redirect_uris": list(redirectURIs), "grant_types": list(grantTypes),
      "response_types": list(responseTypes), "token_endpoint_auth_method": .string(authMethod),
      // Loopback and custom schemes belong to native clients (OpenID Connect Registration §2).
      "application_type": .string("native"),
    ]
    if !scopes.isEmpty { members["scope"] = .string(scopes.joined(separator: " ")) }
    let published = keys.compactMap(\.publicJWK).map(JSON.object)
    if !published.isEmpty { members["jwks"] = .object(["keys": .array(published)]) }
    self.init(members: members.merging(extra) { _, new in new }, initialAccessToken: initialAccessToken)
  }

  public func httpRequest(to endpoint: URL) -> HTTPRequest {
    var headers = [
      HTTPRequest.Header("Accept", "application/json"), .init("Content-Type", BodyFormat.json.mediaType),
    ]
    // Exposed to be sent.
    if let initialAccessToken { headers.append(.init("Authorization", "Bearer \(initialAccessToken.exposed)")) }
    return HTTPRequest(
      purpose: .registration, method: "POST", url: endpoint, headers: headers,
      body: Data(JSON.object(members).serialized(sorted: true)))
  }
}

extension ClientRegistrationRequest: Redacted {
  public var description: String { "client registration request" }
}

/// The response to a registration (RFC 7591 §3.2.1).
public struct ClientRegistration: Sendable, Equatable {
  public var clientID: String
  public var clientSecret: Secret?
  /// Nil if the secret does not expire.
  public var clientSecretExpiresAt: Timestamp?
  /// For removing the registration later (RFC 7592 §3): both values or none.
  public var management: Management?
  public var tokenEndpointAuthMethod: String?

  public struct Management: Sendable, Equatable {
    public var accessToken: Secret
    public var url: URL

    public init(accessToken: Secret, url: URL) {
      self.accessToken = accessToken
      self.url = url
    }
  }

  /// Maximum lengths, in bytes.
  static let longestClientID = 2048
  static let longestSecret = 16 << 10

  /// Parses the response: 201, or 200, which some servers return, and which is the status of a read request (RFC 7592
  /// §2.1).
  public static func parse(
    _ response: HTTPResponse, allowInsecureHTTP: Bool = false
  ) throws(ResponseError) -> ClientRegistration {
    let members = try response.successfulObject(status: 200, 201)
    if members["client_id"] == nil, let error = OAuthError(members: members) {
      throw .oauth(error, status: response.status, retryAfter: response.retryAfter)
    }
    do throws(WrongMember) {
      return try ClientRegistration(members, allowInsecureHTTP: allowInsecureHTTP)
    } catch {
      throw response.nonConforming(error)
    }
  }

  private init(_ members: [String: JSON], allowInsecureHTTP: Bool) throws(WrongMember) {
    clientID = try members.requiredText("client_id")
    guard clientID.utf8.count <= Self.longestClientID, clientID.printable(limit: Self.longestClientID) == clientID
    else {
      throw WrongMember(name: "client_id", wanted: "a text of at most \(Self.longestClientID) printable characters")
    }
    let secret = try members.text("client_secret") ?? ""
    guard secret.utf8.count <= Self.longestSecret else {
      throw WrongMember(name: "client_secret", wanted: "a text of at most \(Self.longestSecret) bytes")
    }
    clientSecret = secret.isEmpty ? nil : Secret(secret)
    // Zero: never (RFC 7591 §3.2.1).
    let end = try members.date("client_secret_expires_at")
    clientSecretExpiresAt = end.flatMap { $0.milliseconds == 0 ? nil : $0 }
    tokenEndpointAuthMethod = try members.text("token_endpoint_auth_method")
    // The client works without management.
    if let token = try? members.text("registration_access_token"), !token.isEmpty,
      let text = try? members.text("registration_client_uri"),
      let url = Endpoint.url(text, allowInsecureHTTP: allowInsecureHTTP)
    {
      management = Management(accessToken: Secret(token), url: url)
    }
  }
}

extension ClientRegistration: Redacted {
  public var description: String { "client registration (\(clientID))" }
}

extension ClientRegistration.Management {
  /// Removes the registration (RFC 7592 §2.3).
  public func deleteRequest() -> HTTPRequest {
    // Exposed to be sent.
    let headers = [
      HTTPRequest.Header("Accept", "application/json"), .init("Authorization", "Bearer \(accessToken.exposed)"),
    ]
    return HTTPRequest(purpose: .registration, method: "DELETE", url: url, headers: headers)
  }

  /// Whether the registration no longer exists (RFC 7592 §2.3): just removed, or unknown.
  public static func isDeleted(_ response: HTTPResponse) throws(ResponseError) -> Bool {
    switch response.status {
    case 200, 202, 204, 401, 404, 410: return true
    case 405, 501: return false
    case 300..<400: throw .redirect(status: response.status)
    default: throw response.refusal(JSON(message: response.body)?.dictionary.flatMap(OAuthError.init(members:)))
    }
  }
}
