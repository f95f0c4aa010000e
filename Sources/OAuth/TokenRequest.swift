public import Foundation

/// What the token endpoint is asked (RFC 6749 §4.1.3 and §6). It holds a code or a refresh token and prints neither.
public struct TokenRequest: Sendable {
  private enum Grant: Sendable {
    case code(Secret, redirectURI: RedirectURI, verifier: CodeVerifier?)
    case refresh(Secret, scopes: [String])
  }

  private let grant: Grant
  /// RFC 8707 §2.2.
  public var resources: [String]
  /// What the provider wants besides. A parameter that the request has by itself is not replaced.
  public var extraParameters: [Parameter] = []
  /// A header that the request has by itself is not replaced.
  public var extraHeaders: [HTTPRequest.Header] = []

  /// Exchanges a code. The redirect URI is the string that the authorization request carried (RFC 6749 §4.1.3).
  public static func code(
    _ code: Secret, redirectURI: RedirectURI, verifier: CodeVerifier?, resources: [String] = []
  ) -> TokenRequest {
    TokenRequest(grant: .code(code, redirectURI: redirectURI, verifier: verifier), resources: resources)
  }

  /// Refreshes (RFC 6749 §6). No scopes: those of the grant.
  public static func refresh(_ token: Secret, scopes: [String] = [], resources: [String] = []) -> TokenRequest {
    TokenRequest(grant: .refresh(token, scopes: scopes), resources: resources)
  }

  private init(grant: Grant, resources: [String]) {
    self.grant = grant
    self.resources = resources
  }

  public func httpRequest(
    to endpoint: URL, clientID: String, client: ClientAuthentication, format: BodyFormat = .form,
    scopeSeparator: String = " "
  ) -> HTTPRequest {
    var parameters = grantParameters(scopeSeparator: scopeSeparator)
    parameters += resources.map { Parameter("resource", $0) }
    let taken = Set(parameters.map(\.name)).union(["client_id", "client_secret"])
    parameters += extraParameters.filter { !taken.contains($0.name) }
    return .post(
      parameters, purpose: .token, to: endpoint, clientID: clientID, client: client, format: format,
      extraHeaders: extraHeaders)
  }

  // Code, verifier and refresh token are exposed to be sent.
  private func grantParameters(scopeSeparator: String) -> [Parameter] {
    switch grant {
    case .code(let code, let redirectURI, let verifier):
      return [
        Parameter("grant_type", "authorization_code"), Parameter("code", code.exposed),
        Parameter("redirect_uri", redirectURI.rawValue),
      ] + (verifier.map { [Parameter("code_verifier", $0.secret.exposed)] } ?? [])
    case .refresh(let token, let scopes):
      return [Parameter("grant_type", "refresh_token"), Parameter("refresh_token", token.exposed)]
        + (scopes.isEmpty ? [] : [Parameter("scope", scopes.joined(separator: scopeSeparator))])
    }
  }
}

extension TokenRequest: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String {
    switch grant {
    case .code: "token request for a code"
    case .refresh: "token request for a refresh token"
    }
  }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}
