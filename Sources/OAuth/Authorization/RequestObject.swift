public import FoundationEssentials

extension AuthorizationRequest {
  /// How long a request object is good for: a person may take a while to open the address that it is in.
  public static let requestObjectLifetime = Duration.seconds(300)

  /// The request as a signed JWT (RFC 9101 §4).
  ///
  /// - Parameters:
  ///   - audience: the issuer, or what the provider wants instead.
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
    // RFC 9101 §4: a request must not lead to another.
    claims["request"] = nil
    claims["request_uri"] = nil
    do throws(SigningKeyError) {
      return try key.sign(type: "oauth-authz-req+jwt", claims: claims)
    } catch {
      throw .cannotSign(error)
    }
  }

  /// What JSON can say better than text (OpenID Connect Core §6.1, RFC 9396 §2).
  private static func claim(_ name: String, _ value: String) -> JSON {
    switch name {
    case "claims", "authorization_details": JSON(value.utf8) ?? .string(value)
    case "max_age": .number(value)
    default: .string(value)
    }
  }

  /// The address to open with a signed request in it (RFC 9101 §5). OpenID Connect Core §6.1 wants `response_type` and
  /// `scope` beside it as well, with the values that they have inside.
  public func url(at endpoint: URL, requestObject: Secret) throws(AuthorizationRequestError) -> URL {
    var parameters = [Parameter("client_id", clientID), Parameter("response_type", responseType)]
    if scopes.contains("openid") { parameters.append(Parameter("scope", scopes.joined(separator: scopeSeparator))) }
    // Exposed to be sent.
    parameters.append(Parameter("request", requestObject.exposed))
    return try Self.url(at: endpoint, adding: parameters)
  }
}
