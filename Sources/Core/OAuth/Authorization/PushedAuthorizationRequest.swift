public import FoundationEssentials

extension AuthorizationRequest {
  /// The same request for the back channel (RFC 9126 §2.1).
  public func pushed(
    to endpoint: URL, client: ClientAuthentication
  ) throws(AuthorizationRequestError) -> HTTPRequest {
    // The client authentication adds its own client_id if one belongs in the body.
    let parameters = try parameters().filter { $0.name != "client_id" }
    let named = client.isInHeader ? [Parameter("client_id", clientID)] : []
    return .post(named + parameters, purpose: .par, to: endpoint, clientID: clientID, client: client)
  }

  /// The URL to open after the request was pushed: only client_id and request_uri (RFC 9126 §4).
  public func url(
    at endpoint: URL, pushedAs answer: PushedAuthorizationResponse
  ) throws(AuthorizationRequestError) -> URL {
    // Exposed to be sent: its holder can start only this login.
    let reference = Parameter("request_uri", answer.requestURI.exposed)
    return try Self.url(at: endpoint, adding: [Parameter("client_id", clientID), reference])
  }

  /// The URL to open if the provider requires the whole request in addition to `request_uri`, against RFC 9126 §4.
  public func url(
    at endpoint: URL, beside answer: PushedAuthorizationResponse
  ) throws(AuthorizationRequestError) -> URL {
    // Exposed to be sent.
    try Self.url(at: endpoint, adding: parameters() + [Parameter("request_uri", answer.requestURI.exposed)])
  }

  /// The pushed request if the rest of the parameters stays in the URL.
  public func pushedHint(to endpoint: URL, client: ClientAuthentication) -> HTTPRequest {
    let named = client.isInHeader ? [Parameter("client_id", clientID)] : []
    let hint = loginHint.map { [Parameter("login_hint", $0)] } ?? []
    return .post(
      named + [Parameter("response_type", responseType)] + hint, purpose: .par, to: endpoint, clientID: clientID,
      client: client)
  }

  /// The signed request for the back channel (RFC 9126 §3): only the client identification is added to it.
  public func pushed(
    to endpoint: URL, client: ClientAuthentication, requestObject: Secret
  ) -> HTTPRequest {
    let named = client.isInHeader ? [Parameter("client_id", clientID)] : []
    // Exposed to be sent.
    let parameters = named + [Parameter("request", requestObject.exposed)]
    return .post(parameters, purpose: .par, to: endpoint, clientID: clientID, client: client)
  }
}

/// The response to a pushed authorization request (RFC 9126 §2.2), for one use.
public struct PushedAuthorizationResponse: Sendable, Equatable {
  public var requestURI: Secret
  public var expiresIn: Duration

  /// Requires 201, a nonempty `request_uri` and a positive `expires_in`. Some servers return 200, which is accepted
  /// with the same members.
  public static func parse(_ response: HTTPResponse) throws(ResponseError) -> PushedAuthorizationResponse {
    let members = try response.successfulObject(status: 200, 201)
    if members["request_uri"] == nil, let error = OAuthError(members: members) {
      throw .oauth(error, status: response.status, retryAfter: response.retryAfter)
    }
    do throws(WrongMember) {
      let requestURI = try members.requiredText("request_uri")
      guard let seconds = try members.number("expires_in"), seconds > 0 else {
        throw WrongMember(name: "expires_in", wanted: "a positive number")
      }
      return PushedAuthorizationResponse(
        requestURI: Secret(requestURI), expiresIn: Lifetime.duration(seconds, unit: .seconds))
    } catch {
      throw response.nonConforming(error)
    }
  }
}
