public import FoundationEssentials

extension AuthorizationRequest {
  /// The lifetime of a request object: the user may take some time to open its URL.
  public static let requestObjectLifetime = Duration.seconds(300)

  /// The request as a signed JWT (RFC 9101 §4).
  ///
  /// - Parameters:
  ///   - audience: the issuer, or another audience that the provider requires.
  ///   - identifier: `jti`: at least 96 random bits, fresh for each.
  public func requestObject(
    key: SigningKey, audience: String, at now: Timestamp, identifier: String,
    lifetime: Duration = AuthorizationRequest.requestObjectLifetime
  ) throws(AuthorizationRequestError) -> Secret {
    var claims: [String: JSON] = [:]
    for (name, values) in Dictionary(grouping: try parameters(), by: \.name) {
      claims[name] =
        values.count == 1 ? Self.claim(name, values[0].value) : .array(values.map { .string($0.value) })
    }
    claims["iss"] = .string(clientID)
    claims["aud"] = .string(audience)
    claims["jti"] = .string(identifier)
    claims["iat"] = .number(String(now.seconds))
    claims["nbf"] = .number(String(now.seconds))
    claims["exp"] = .number(String((now + lifetime).seconds))
    // A request object must not refer to another (RFC 9101 §4).
    claims["request"] = nil
    claims["request_uri"] = nil
    do throws(SigningKeyError) {
      return try key.sign(type: "oauth-authz-req+jwt", claims: claims)
    } catch {
      throw .cannotSign(error)
    }
  }

  /// Values that JSON represents better than text (OpenID Connect Core §6.1, RFC 9396 §2).
  private static func claim(_ name: String, _ value: String) -> JSON {
    switch name {
    case "claims", "authorization_details": JSON(message: value.utf8) ?? .string(value)
    case "max_age": .number(value)
    default: .string(value)
    }
  }

  /// The URL to open with a signed request (RFC 9101 §5). OpenID Connect Core §6.1 also requires `response_type` and
  /// `scope` as parameters, with the same values as in the request object.
  public func url(at endpoint: URL, requestObject: Secret) throws(AuthorizationRequestError) -> URL {
    var parameters = [Parameter("client_id", clientID), Parameter("response_type", responseType)]
    if scopes.contains("openid") { parameters.append(Parameter("scope", scopes.joined(separator: scopeSeparator))) }
    // Exposed to be sent.
    parameters.append(Parameter("request", requestObject.exposed))
    return try Self.url(at: endpoint, adding: parameters)
  }
}
