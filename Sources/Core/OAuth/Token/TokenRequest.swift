public import FoundationEssentials

/// A request to the token endpoint, with one factory per grant type. It contains codes, tokens and passwords and prints
/// none.
public struct TokenRequest: Sendable {
  private enum Grant: Sendable {
    case code(Secret, redirectURI: RedirectURI, verifier: CodeVerifier?)
    case refresh(Secret, scopes: [String])
    case device(Secret)
    case client(scopes: [String])
    case assertion(SigningKey, GrantAssertionClaims, scopes: [String])
    case exchange(TokenExchangeRequest)
    case password(username: String, password: Secret, scopes: [String])
  }

  private let grant: Grant
  /// RFC 8707 §2.2.
  public var resources: [String]
  /// Provider-specific parameters. They never replace the request's own.
  public var extraParameters: [Parameter] = []
  /// Additional headers. They never replace the request's own.
  public var extraHeaders: [HTTPRequest.Header] = []

  /// Exchanges a code (RFC 6749 §4.1.3). The redirect URI is the string from the authorization request.
  public static func code(
    _ code: Secret, redirectURI: RedirectURI, verifier: CodeVerifier?, resources: [String] = []
  ) -> TokenRequest {
    TokenRequest(grant: .code(code, redirectURI: redirectURI, verifier: verifier), resources: resources)
  }

  /// Refreshes (RFC 6749 §6). No scopes: the scopes of the grant.
  public static func refresh(_ token: Secret, scopes: [String] = [], resources: [String] = []) -> TokenRequest {
    TokenRequest(grant: .refresh(token, scopes: scopes), resources: resources)
  }

  /// Polls whether the user has approved a device (RFC 8628 §3.4).
  public static func deviceCode(_ code: Secret, resources: [String] = []) -> TokenRequest {
    TokenRequest(grant: .device(code), resources: resources)
  }

  /// Requests a token for the client itself (RFC 6749 §4.4.2).
  public static func clientCredentials(scopes: [String], resources: [String] = []) -> TokenRequest {
    TokenRequest(grant: .client(scopes: scopes), resources: resources)
  }

  /// Requests a token with a signed assertion as the grant (RFC 7523 §2.1), which is made when the request is sent.
  public static func jwtBearer(
    key: SigningKey, claims: GrantAssertionClaims, scopes: [String] = [], resources: [String] = []
  ) -> TokenRequest {
    TokenRequest(grant: .assertion(key, claims, scopes: scopes), resources: resources)
  }

  /// Exchanges a token for another (RFC 8693 §2.1).
  public static func exchange(_ request: TokenExchangeRequest) -> TokenRequest {
    TokenRequest(grant: .exchange(request), resources: request.resources)
  }

  /// Sends the user's password (RFC 6749 §4.3.2), which RFC 9700 §2.4 forbids: only for providers without an
  /// alternative.
  public static func password(username: String, password: Secret, scopes: [String]) -> TokenRequest {
    TokenRequest(grant: .password(username: username, password: password, scopes: scopes), resources: [])
  }

  private init(grant: Grant, resources: [String]) {
    self.grant = grant
    self.resources = resources
  }

  public func httpRequest(
    to endpoint: URL, clientID: String, client: ClientAuthentication, format: BodyFormat = .form,
    scopeSeparator: String = " "
  ) -> HTTPRequest {
    var parameters = [Parameter("grant_type", grantType)] + grantParameters(scopeSeparator: scopeSeparator)
    parameters += resources.map { Parameter("resource", $0) }
    let taken = Set(parameters.map(\.name)).union(Self.reserved)
    parameters += extraParameters.filter { !taken.contains($0.name) }
    var request = HTTPRequest.post(
      parameters, purpose: .token, to: endpoint, clientID: clientID, client: client, format: format,
      extraHeaders: extraHeaders)
    if case .assertion(let key, let claims, _) = grant {
      request.signatures.append(.grantAssertion(key: key, claims: claims))
    }
    return request
  }

  /// Parameters that only client authentication and signing may add.
  private static let reserved: Set<String> = [
    "client_id", "client_secret", "client_assertion", "client_assertion_type", "assertion",
  ]

  private var grantType: String {
    switch grant {
    case .code: "authorization_code"
    case .refresh: "refresh_token"
    case .device: "urn:ietf:params:oauth:grant-type:device_code"
    case .client: "client_credentials"
    case .assertion: "urn:ietf:params:oauth:grant-type:jwt-bearer"
    case .exchange: TokenExchangeRequest.grantType
    case .password: "password"
    }
  }

  // Codes, verifier, tokens and password are exposed to be sent.
  private func grantParameters(scopeSeparator: String) -> [Parameter] {
    func scope(_ scopes: [String]) -> [Parameter] {
      scopes.isEmpty ? [] : [Parameter("scope", scopes.joined(separator: scopeSeparator))]
    }
    switch grant {
    case .code(let code, let redirectURI, let verifier):
      return [Parameter("code", code.exposed), Parameter("redirect_uri", redirectURI.rawValue)]
        + (verifier.map { [Parameter("code_verifier", $0.secret.exposed)] } ?? [])
    case .refresh(let token, let scopes): return [Parameter("refresh_token", token.exposed)] + scope(scopes)
    case .device(let code): return [Parameter("device_code", code.exposed)]
    case .client(let scopes), .assertion(_, _, let scopes): return scope(scopes)
    case .exchange(let request): return request.parameters(scopeSeparator: scopeSeparator)
    case .password(let username, let password, let scopes):
      return [Parameter("username", username), Parameter("password", password.exposed)] + scope(scopes)
    }
  }
}

extension TokenRequest: Redacted {
  public var description: String {
    switch grant {
    case .code: "token request for a code"
    case .refresh: "token request for a refresh token"
    case .device: "token request for a device code"
    case .client: "token request for the client itself"
    case .assertion: "token request for an assertion"
    case .exchange: "token request for another token"
    case .password: "token request for a password"
    }
  }
}
