public import FoundationEssentials

extension AuthorizationRequest {
  /// The same request for the back channel (RFC 9126 §2.1).
  public func pushed(
    to endpoint: URL, client: ClientAuthentication
  ) throws(AuthorizationRequestError) -> HTTPRequest {
    // The client's authentication brings its own client_id where one belongs in the body.
    let parameters = try parameters().filter { $0.name != "client_id" }
    let named = client.isInHeader ? [Parameter("client_id", clientID)] : []
    return .post(named + parameters, purpose: .par, to: endpoint, clientID: clientID, client: client)
  }

  /// The address to open after the request was pushed: client_id and request_uri alone (RFC 9126 §4).
  public func url(
    at endpoint: URL, pushedAs answer: PushedAuthorizationResponse
  ) throws(AuthorizationRequestError) -> URL {
    // Exposed to be sent: whoever holds it can start this one login.
    let reference = Parameter("request_uri", answer.requestURI.exposed)
    return try Self.url(at: endpoint, adding: [Parameter("client_id", clientID), reference])
  }

  /// The address to open where the provider wants the whole request beside the `request_uri`, against RFC 9126 §4.
  public func url(
    at endpoint: URL, beside answer: PushedAuthorizationResponse
  ) throws(AuthorizationRequestError) -> URL {
    // Exposed to be sent.
    try Self.url(at: endpoint, adding: parameters() + [Parameter("request_uri", answer.requestURI.exposed)])
  }

  /// What is pushed where the rest of the request stays in the address.
  public func pushedHint(to endpoint: URL, client: ClientAuthentication) -> HTTPRequest {
    let named = client.isInHeader ? [Parameter("client_id", clientID)] : []
    let hint = loginHint.map { [Parameter("login_hint", $0)] } ?? []
    return .post(
      named + [Parameter("response_type", responseType)] + hint, purpose: .par, to: endpoint, clientID: clientID,
      client: client)
  }

  /// The signed request for the back channel (RFC 9126 §3): nothing stands beside it but who the client is.
  public func pushed(
    to endpoint: URL, client: ClientAuthentication, requestObject: Secret
  ) -> HTTPRequest {
    let named = client.isInHeader ? [Parameter("client_id", clientID)] : []
    // Exposed to be sent.
    let parameters = named + [Parameter("request", requestObject.exposed)]
    return .post(parameters, purpose: .par, to: endpoint, clientID: clientID, client: client)
  }
}

/// The answer to a pushed authorization request (RFC 9126 §2.2). It is used once.
public struct PushedAuthorizationResponse: Sendable, Equatable {
  public var requestURI: Secret
  public var expiresIn: Duration

  /// Asks for 201, a non-empty `request_uri` and a positive `expires_in`. Some servers say 200: what counts is what they
  /// give.
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
