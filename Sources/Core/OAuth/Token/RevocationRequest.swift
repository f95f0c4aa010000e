public import FoundationEssentials

/// Revokes a token (RFC 7009 §2.1).
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

  /// - Parameter extra: provider-specific parameters.
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
    /// Revoked, or unknown to the server, which has the same effect (RFC 7009 §2.2).
    case revoked
    /// The server is unavailable: the token is still valid.
    case retryLater(after: Duration?)
    case refused(OAuthError?)
    /// The server does not revoke this type of token, or any token.
    case unsupported
  }

  /// The meaning of the response (RFC 7009 §2.2).
  public func outcome(of response: HTTPResponse) -> Outcome {
    let error = JSON(message: response.body)?.dictionary.flatMap(OAuthError.init(members:))
    switch response.status {
    case 200..<300: return error.map { .refused($0) } ?? .revoked
    case 408, 429, 500, 502...599: return .retryLater(after: response.retryAfter)
    case 404, 405, 501: return .unsupported
    default: return error?.code == .unsupportedTokenType ? .unsupported : .refused(error)
    }
  }
}
