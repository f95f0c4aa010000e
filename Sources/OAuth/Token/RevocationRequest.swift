public import FoundationEssentials

/// Asks that a token be revoked (RFC 7009 §2.1).
public struct RevocationRequest: Sendable, Equatable {
  public enum Hint: String, Sendable, Codable, CaseIterable {
    case accessToken = "access_token"
    case refreshToken = "refresh_token"
  }

  public var token: Secret
  public var hint: Hint?

  public init(token: Secret, hint: Hint?) {
    self.token = token
    self.hint = hint
  }

  /// What is revoked at a logout, in order: the refresh token first, so that nothing new comes of it.
  public static func all(refreshToken: Secret?, accessToken: Secret?) -> [RevocationRequest] {
    [
      refreshToken.map { RevocationRequest(token: $0, hint: .refreshToken) },
      accessToken.map { RevocationRequest(token: $0, hint: .accessToken) },
    ].compactMap(\.self)
  }

  /// - Parameter extra: what the provider wants besides.
  public func httpRequest(
    to endpoint: URL, clientID: String, client: ClientAuthentication, format: BodyFormat = .form,
    extra: [Parameter] = []
  ) -> HTTPRequest {
    // Exposed to be sent.
    let parameters =
      [Parameter("token", token.exposed)] + (hint.map { [Parameter("token_type_hint", $0.rawValue)] } ?? [])
    return .post(
      parameters + extra, purpose: .revocation, to: endpoint, clientID: clientID, client: client, format: format)
  }

  public enum Outcome: Sendable, Equatable {
    /// Revoked, or unknown to the server, which is the same (RFC 7009 §2.2).
    case revoked
    /// The server is out of order: the token is still good.
    case retryLater(after: Duration?)
    case refused(OAuthError?)
    /// The server does not revoke this type of token, or nothing at all.
    case unsupported
  }

  /// What the answer means (RFC 7009 §2.2).
  public func outcome(of response: HTTPResponse) -> Outcome {
    let error = JSON(response.body)?.members.flatMap(OAuthError.init(members:))
    switch response.status {
    case 200..<300: return error.map { .refused($0) } ?? .revoked
    case 408, 429, 500, 502...599: return .retryLater(after: response.retryAfter)
    case 404, 405, 501: return .unsupported
    default: return error?.code == .unsupportedTokenType ? .unsupported : .refused(error)
    }
  }
}
