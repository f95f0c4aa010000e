import FoundationEssentials
public import Grants
public import OAuth

// Requests with a session: user information, sessions and logout.
extension VMSProvider {
  public func authorized(_ request: HTTPRequest, by token: SavedToken, of grant: SavedGrant) -> HTTPRequest {
    var request = request.adding(headers(device: Self.device(of: grant), token: token.accessToken))
    request.tls = settings.site.tls
    return request
  }

  /// The user's profile; the request also checks whether the token is valid.
  public func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo> {
    let device = Self.device(of: grant)
    return .send(request(.userinfo, "GET", ["users", "self"], device: device, token: token.accessToken)) {
      response, _ in
      guard response.isSuccess else { return .failed(refusedCall(response)) }
      guard let user = response.json?.dictionary else { return .failed(response.unusable("it is not a JSON object")) }
      return .done(
        UserInfo(
          subject: user.text("id") ?? grant.identity?.subject ?? "", name: user.text("name"),
          username: user.text("login"), email: user.text("email"),
          claims: Data(JSON.object(Self.kept(user)).serialized(sorted: true))))
    }
  }

  public func sessions(
    of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata
  ) -> Step<[ProviderSession]> {
    .send(request(.resource, "GET", ["sessions"], device: Self.device(of: grant), token: token.accessToken)) {
      response, _ in
      guard response.isSuccess else { return .failed(refusedCall(response)) }
      let value = response.json
      guard let list = value?.dictionary?["sessions"] ?? value, list.array != nil else {
        return .failed(response.unusable("it is not a list of sessions"))
      }
      return .done(Self.sessions(list))
    }
  }

  public func endSession(
    _ id: String, of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata
  ) -> Step<Bool> {
    // No session has this name, and the path would lead elsewhere.
    guard id != ".", id != ".." else { return .done(false) }
    let request = request(
      .resource, "POST", ["sessions", id], device: Self.device(of: grant), token: token.accessToken
    ).carrying([:])
    return .send(request) { response, _ in
      if response.isSuccess { return .done(true) }
      return response.status == 404 ? .done(false) : .failed(refusedCall(response))
    }
  }

  /// The failure for a refused call. The token may have ended: the server does not announce it.
  private func refusedCall(_ response: HTTPResponse) -> ProviderFailure {
    switch response.status {
    case 401: .tokenRefused(message: response.account, nil)
    case 409: tooOld(response)
    case 400, 422:
      .rejected(Rejection(code: "bad_request", message: response.account, fields: response.fields))
    default: response.refusal
    }
  }

  // MARK: Logout

  public func revocationContext(of grant: SavedGrant, reach: String?) -> [String: String] {
    Self.device(of: grant).map { ["uuid": $0] } ?? [:]
  }

  public func revocation(
    of token: Secret, hint: String, context: [String: String], metadata: ServerMetadata
  ) -> HTTPRequest? {
    let device = context["uuid"]
    var body: [String: JSON] = [:]
    body["uuid"] = device.map { .string($0) }
    return request(.revocation, "POST", ["logout"], device: device, token: token).carrying(body)
  }

  public func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome { response.logoutOutcome }
}
