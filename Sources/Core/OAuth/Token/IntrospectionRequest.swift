public import FoundationEssentials

/// Introspects a token (RFC 7662 §2.1).
public struct IntrospectionRequest: Sendable, Equatable {
  public var token: Secret
  public var hint: RevocationRequest.Hint?

  public init(token: Secret, hint: RevocationRequest.Hint?) {
    self.token = token
    self.hint = hint
  }

  public func httpRequest(
    to endpoint: URL, clientID: String, client: ClientAuthentication, format: BodyFormat = .form
  ) -> HTTPRequest {
    // Exposed to be sent.
    let parameters =
      [Parameter("token", token.exposed)] + (hint.map { [Parameter("token_type_hint", $0.rawValue)] } ?? [])
    return .post(
      parameters, purpose: .introspection, to: endpoint, clientID: clientID, client: client, format: format)
  }
}

/// The provider's information about a token (RFC 7662 §2.2).
public struct IntrospectionResponse: Sendable, Equatable {
  public var active: Bool
  /// The whole response. It contains personal data and must not be logged.
  public var members: [String: JSON]

  /// Parses the response: 200 with a JSON object in which `active` is a Boolean.
  public static func parse(_ response: HTTPResponse) throws(ResponseError) -> IntrospectionResponse {
    let members = try response.successfulObject()
    if let error = OAuthError(members: members), members["active"] == nil {
      throw .oauth(error, status: response.status, retryAfter: response.retryAfter)
    }
    guard case .bool(let active)? = members["active"] else {
      throw response.nonConforming(WrongMember(name: "active", wanted: "true or false"))
    }
    return IntrospectionResponse(active: active, members: members)
  }
}

extension IntrospectionResponse: Redacted {
  public var description: String { "introspection response (\(active ? "active" : "not active"))" }
}
